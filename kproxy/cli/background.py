"""Commands that continue in the background: the process that the user started ends when the work has begun.

background = continue_in_background(keeps_pipes=False)      # continues in another process
...                                        # open what can fail; errors are shown, and end both
background.begun()                         # now the first process ends with exit code 0
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from typing import NoReturn

from kproxy.output import flush

_BEGUN = b"."


class Background:
    """The process that continues.

    :param descriptor: file descriptor that the first process reads from
    :param keeps_pipes: whether it goes on to write to pipes, whose readers then wait for its end
    """

    def __init__(self, descriptor: int, *, keeps_pipes: bool) -> None:
        self._descriptor = descriptor
        self._keeps_pipes = keeps_pipes

    def lets_go(self, number: int) -> bool:
        """Return whether nothing is written to a file descriptor any more once the work has begun."""
        return os.isatty(number) or (not self._keeps_pipes and stat.S_ISFIFO(os.fstat(number).st_mode))

    def begun(self) -> None:
        """Detach from the terminal and end the first process. Output to files continues, and that to pipes if asked.

        :raises BrokenPipeError: if the first process was killed while it waited, so that this one has to end too
        """
        flush()
        os.setsid()
        os.write(self._descriptor, _BEGUN)
        os.close(self._descriptor)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        for number in (1, 2):
            if self.lets_go(number):
                os.dup2(nowhere, number)
        os.close(nowhere)


def continue_in_background(*, keeps_pipes: bool) -> Background:
    """Continue in a new process; the first one waits until that has begun, and ends.

    If the new process ends before, the first one ends with its exit code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        _wait(process, reader)
    os.close(reader)
    return Background(writer, keeps_pipes=keeps_pipes)


def _wait(process: int, reader: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process gets it too, and ends
    signal.signal(signal.SIGTERM, lambda *_: os.kill(process, signal.SIGTERM))
    if os.read(reader, 1) == _BEGUN:
        os._exit(0)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
