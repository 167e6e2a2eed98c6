"""Run a command, discard its output, and print its costs as JSON: ``python -S launch.py COMMAND...``.

A process inherits the peak memory of the process that started it (execve(2) keeps ``ru_maxrss``), so this module
imports next to nothing.
"""

import json
import os
import sys
from time import perf_counter


def main() -> None:
    """Print wall-clock seconds, processor seconds, peak resident memory in bytes, and the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    silent = [(os.POSIX_SPAWN_DUP2, nowhere, 1), (os.POSIX_SPAWN_DUP2, nowhere, 2)]
    begin = perf_counter()
    child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=silent)
    _, status, used = os.wait4(child, 0)
    wall = perf_counter() - begin
    # getrusage(2): kilobytes on Linux, bytes on macOS
    memory = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps([wall, used.ru_utime + used.ru_stime, memory, os.waitstatus_to_exitcode(status)]))


if __name__ == "__main__":
    main()
