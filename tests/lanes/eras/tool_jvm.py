"""A JVM that runs Kafka's command line tools one after the other.

A tool in a process of its own needs one second of processor time to load its classes, and an era has over a hundred
runs. ``ToolRunner.java`` runs them in one process.
"""

from __future__ import annotations

import functools
import struct
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from tests.lanes.broker import java, tools_of
from tests.lanes.eras.releases import OPENED
from tests.lanes.tools import CannotRun, Wrong, cache, need, run

_PROGRAM = Path(__file__).parent.parent / "clients" / "eras" / "ToolRunner.java"
_TIMEOUT_S = 120
_COUNT = struct.Struct(">i")
_ANSWER = struct.Struct(">ii")
#: for ToolRunner, which gives the reason
_OPTIONS = (
    "-Xmx256m",
    "-Djava.security.manager=allow",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    *OPENED,
)


class ToolJvm:
    """A JVM with the tools of a release, as a context manager.

    :param release: release of the broker that the tools are for
    :raises CannotRun: on entry, without Java or the jars
    """

    def __init__(self, release: str) -> None:
        self._release = release

    def __enter__(self) -> ToolJvm:
        command = java("ToolRunner", version=tools_of(self._release), jvm=_OPTIONS, classes=_classes())
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def run(self, main: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Run a tool; return its exit code and output.

        :param main: main class of the tool
        :raises Wrong: if it does not exit in time
        :raises CannotRun: if the JVM has exited
        """
        late = threading.Event()
        timer = threading.Timer(_TIMEOUT_S, lambda: (late.set(), self._process.kill()))
        timer.start()
        try:
            code, output = self._ask([main, stdin, *arguments])
        except (EOFError, BrokenPipeError):
            if late.is_set():
                raise Wrong(f"{main} took longer than {_TIMEOUT_S} s") from None
            self._log.seek(0)
            raise CannotRun(f"the virtual machine ended: {self._log.read()[-1000:].decode()}") from None
        finally:
            timer.cancel()
        return code, output.decode(errors="replace")

    def _ask(self, strings: list[str]) -> tuple[int, bytes]:
        assert self._process.stdin is not None
        request = _COUNT.pack(len(strings))
        for each in map(str.encode, strings):
            request += _COUNT.pack(len(each)) + each
        self._process.stdin.write(request)
        self._process.stdin.flush()
        code, length = _ANSWER.unpack(self._read(_ANSWER.size))
        return code, self._read(length)

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        read = self._process.stdout.read(size)
        if len(read) < size:
            raise EOFError
        return read


@functools.cache
def _classes() -> Path:
    """Compile the program; return the folder with its classes."""
    need("java", "javac")
    classes = cache() / "tool-runner"
    run(["javac", "-nowarn", "-d", classes, _PROGRAM])
    return classes
