"""The output gate: every line that a command prints on standard output or standard error goes through here.

A printed line consists only of printable characters, so that untrusted text can neither control the terminal nor begin
a line of its own. Only sequences added by :func:`style` pass: they carry a secret seal, random for each process. Code
that puts untrusted text in columns cleans it first (:func:`~dissectors.printable.printable`), because that may change
its width; code that forgets to is still safe.

JSON itself escapes control characters; on a terminal other invisible characters are escaped too.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import ExceptHookArgs
from types import TracebackType
from typing import Any, BinaryIO

import click

_COLORS = {
    name: code for code, name in enumerate(("red", "green", "yellow", "blue", "magenta", "cyan"), start=31)
} | {"bright_black": 90}
_SEAL = f"\x1b[{int.from_bytes(os.urandom(8))}m"
_SEALED = re.compile(rf"\x1b\[([0-9]{{1,2}})m{re.escape(_SEAL)}")
_RESET = 0

_TOGETHER = 500
"""Lines that are checked together."""


def style(text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
    """Return styled text, if standard output is coloured (:func:`use_color`); measure it with :func:`unstyled`.

    :param fg: colour, one of ANSI's names; None leaves it
    """
    if not _colored:
        return text
    codes = [code for code, wanted in ((1, bold), (2, dim)) if wanted]
    if fg is not None:
        codes.insert(0, _COLORS[fg])
    return f"{''.join(map(_sequence, codes))}{text}{_sequence(_RESET)}" if codes else text


def unstyled(text: str) -> str:
    """Return text without the styles of :func:`style`."""
    return _SEALED.sub("", text)


def use_color(choice: str) -> None:
    """Choose whether standard output is coloured from now on; standard error never is.

    :param choice: ``always``, ``never``, or ``auto``: on a terminal with colours, unless ``NO_COLOR`` is set
    """
    global _colored
    wanted = choice == "auto" and not os.environ.get("NO_COLOR")
    _colored = choice == "always" or (wanted and sys.stdout.isatty() and not dumb_terminal())


def dumb_terminal() -> bool:
    """Return whether the terminal understands no control sequences, judging by ``TERM``."""
    return os.environ.get("TERM", "") in ("", "dumb")


_colored = False


def colored() -> bool:
    """Return whether standard output is coloured."""
    return _colored


def terminal_width() -> int | None:
    """Return the columns of the terminal at standard output; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _sequence(code: int) -> str:
    return f"\x1b[{code}m{_SEAL}"


def gated(line: str, *, most: str = "line_characters") -> str:
    """Return a line made printable, except for the styles of :func:`style`; a line that is too long is cut.

    :param most: name of the limit on its characters
    """
    from dissectors.budget import limit
    from dissectors.printable import is_printable, printable

    if len(line) > limit(most):
        line = printable(unstyled(line), limit(most))
    if is_printable(line):
        return line
    parts = _SEALED.split(line)
    parts[::2] = map(printable, parts[::2])
    parts[1::2] = [f"\x1b[{code}m" for code in parts[1::2]]
    return "".join(parts)


def echo(line: str = "", *, err: bool = False, wait: bool = False) -> None:
    """Print a line.

    :param err: on standard error
    :param wait: leave it in the buffer of standard output until :func:`flush`
    """
    if err:
        sys.stderr.write(f"{gated(unstyled(line), most='notice_characters')}\n")
        sys.stderr.flush()
        return
    sys.stdout.write(f"{gated(line)}\n")
    if not wait:
        sys.stdout.flush()


def echo_lines(lines: Iterable[str]) -> None:
    """Print many lines on standard output, without flushing; fast if most are plain."""
    for text in gated_lines(lines):
        echo_gated(text)


def gated_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield many lines made printable, some hundreds at a time, for :func:`echo_gated`."""
    from dissectors.budget import limit
    from dissectors.printable import is_printable

    rest = iter(lines)
    while some := list(islice(rest, _TOGETHER)):
        if max(map(len, some)) > limit("line_characters") or not is_printable("".join(some)):
            some = list(map(gated, some))
        yield "\n".join([*some, ""])


def echo_gated(text: str) -> None:
    """Print lines from :func:`gated_lines` on standard output, without flushing."""
    sys.stdout.write(text)


def echo_error(message: str) -> None:
    """Print a message, which may have several lines; the first begins with the program's name.

    The others are indented, so that none of them can pass for a message of its own.
    """
    for line in _message_lines(f"kproxy: {message}"):
        echo(line, err=True)


def echo_counter(text: str) -> None:
    """Overwrite the current line on standard error; empty text returns the cursor to its start."""
    sys.stderr.write(f"\r{gated(text, most='notice_characters')}")
    sys.stderr.flush()


def flush() -> None:
    """Flush standard output."""
    sys.stdout.flush()


def discard_output() -> None:
    """Discard everything printed on standard output from now on: its reader has closed it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def echo_json(value: Any, *, wait: bool = False) -> None:
    """Print a value as JSON (:mod:`captures.json_objects`) on a line of standard output.

    :param wait: do not flush
    """
    json_output().write(json_line(value))
    if not wait:
        sys.stdout.flush()


def json_line(value: Any) -> bytes:
    """Return a value as JSON on a line, for :func:`json_output`."""
    import msgspec

    from captures.json_objects import to_json

    return msgspec.json.encode(to_json(value)) + b"\n"


def json_output() -> BinaryIO:
    """Return where to write JSON lines to standard output, whole lines at a time."""
    buffer: BinaryIO = sys.stdout.buffer
    return _TerminalJson(buffer) if sys.stdout.isatty() else buffer  # type: ignore[return-value]


class _TerminalJson:
    """Escapes characters in JSON that a terminal would not show."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, lines: bytes | bytearray) -> int:
        from dissectors.printable import printable_json

        return self._file.write(printable_json(lines.decode()).encode())


# ---------------------------------------------------------------- output of other code
@contextmanager
def gated_errors() -> Iterator[None]:
    """Send the messages of errors that click prints through the gate.

    They may have several lines, like those of :func:`echo_error`.
    """
    try:
        yield
    except click.ClickException as error:
        message = "\n".join(_message_lines(error.format_message()))
        error.format_message = lambda: message  # type: ignore[method-assign]
        raise


def _message_lines(message: str) -> Iterator[str]:
    for number, line in enumerate(message.split("\n")):
        yield gated(f"  {line}" if number and not line.startswith("  ") else line, most="notice_characters")


def gate_tracebacks() -> None:
    """Send the traceback of an unexpected error in any thread through the gate."""

    def shown(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        for part in traceback.format_exception(kind, error, trace):
            for line in part.rstrip("\n").split("\n"):
                echo(line, err=True)

    def shown_of_thread(failed: ExceptHookArgs, /) -> None:
        if failed.exc_type is not SystemExit:
            shown(failed.exc_type, failed.exc_value, failed.exc_traceback)

    import threading

    sys.excepthook, threading.excepthook = shown, shown_of_thread


# ---------------------------------------------------------------- notices
_tell: Callable[[str], None] | None = None


def notice(text: str) -> None:
    """Print a notice for the user, or pass it to the receiver set by :func:`notices_to`."""
    if _tell is not None:
        _tell(text)
    else:
        echo(f"kproxy: {text}", err=True)


@contextmanager
def notices_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Redirect notices to `tell`, for the time that it owns the terminal."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before
