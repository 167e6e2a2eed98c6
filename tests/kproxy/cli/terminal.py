"""A program in its own terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pyte

from tests.waiting import PATIENCE

_CONTROL = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")


class Terminal:
    """Runs a kproxy command with this object as its controlling terminal.

    :param stdin: its standard input, by default the terminal
    :param stderr: its standard error, by default the terminal
    """

    def __init__(
        self,
        arguments: Sequence[str],
        home: Path,
        *,
        stdin: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        size: tuple[int, int] = (100, 30),
        term: str = "xterm-256color",
    ) -> None:
        self._fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(inside, termios.TIOCSCTTY, 0)

        environment = {
            name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
        }
        environment |= {
            "TERM": term,
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kproxy", *arguments],
            stdin=inside if stdin is None else stdin,
            stdout=inside,
            stderr=inside if stderr is None else stderr,
            preexec_fn=own_terminal,
            env=environment,
        )
        os.close(inside)
        self.said = b""
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)

    def until(self, text: str) -> str:
        """Read until a text was shown; return all output without control sequences."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert self._read(deadline), f"{text!r} was not shown:\n{self.text}"
        return self.text

    def shows(self, text: str) -> None:
        """Read until a text is on the screen, however it was drawn: programs redraw only changes."""
        deadline = time.monotonic() + PATIENCE
        while text not in (screen := self.screen):
            assert self._read(deadline), f"{text!r} is not on the screen:\n{screen}"

    def shows_reversed(self, text: str) -> None:
        """Read until a text is on the screen in reverse video."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.reversed:
            assert self._read(deadline), f"{text!r} is not in reverse video:\n{self.screen}"

    @property
    def screen(self) -> str:
        """The lines of the screen."""
        return "\n".join(self._screen.display)

    @property
    def reversed(self) -> str:
        """The text on the screen in reverse video."""
        lines = self._screen.buffer
        return "".join(
            lines[y][x].data
            for y in range(self._screen.lines)
            for x in range(self._screen.columns)
            if lines[y][x].reverse
        )

    def look(self, seconds: float = 0.1) -> None:
        """Read output for a while: a program blocks if nobody reads from its terminal."""
        self._read(time.monotonic() + seconds)

    @property
    def text(self) -> str:
        """The output so far, without control sequences."""
        return _CONTROL.sub(b"", self.said).decode(errors="replace")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def end(self) -> int:
        """Wait for the program to exit; return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return False
        try:
            more = os.read(self._fd, 1 << 16)
        except OSError:  # EIO: the other end is closed
            return False
        self.said += more
        self._stream.feed(more)
        return bool(more)

    def hang_up(self) -> None:
        """Close the terminal, like closing its window."""
        os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        """Kill the program."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._fd >= 0:
            os.close(self._fd)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
