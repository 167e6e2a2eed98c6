"""Queries a terminal's abilities, by control sequences that it answers on its input.

It is asked for the width of a character (Device Status Report 6), and for modes (DECRQM), as the UI's toolkit does;
Primary Device Attributes come last: every terminal answers them, so there is no waiting for one that does not know the
others. All are in xterm's "Control Sequences" (ctlseqs).
"""

from __future__ import annotations

import os
import re
import select
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic

_SECONDS = 1.0
_QUESTION = (
    b"\r\x1b[6n"  # where is the cursor?
    + "▸".encode()
    + b"\x1b[6n\r\x1b[K"  # and now? Then the character is erased
    + b"\x1b[?1006$p"  # are clicks reported with decimal coordinates?
    + b"\x1b[c"  # what are you?
)
_END = re.compile(rb"\x1b\[\?[0-9;]*c")
_CURSOR = re.compile(rb"\x1b\[[0-9]+;([0-9]+)R")
_MOUSE = re.compile(rb"\x1b\[\?1006;([0-4])\$y")
_UNKNOWN_MODE = (b"0", b"4")  # not recognized, permanently reset


@dataclass(frozen=True, slots=True)
class Answers:
    """A terminal's answers; None for unanswered ones.

    :ivar width: columns that one character of UTF-8 beyond ASCII took
    :ivar mouse: whether it reports the mouse
    """

    width: int | None = None
    mouse: bool | None = None


def ask(terminal: int) -> Answers:
    """Query a terminal, for a second at most; a background job gets no answers.

    :param terminal: a descriptor open for reading and writing
    """
    reply = b""
    with suppress(OSError, termios.error):
        if os.tcgetpgrp(terminal) == os.getpgrp():
            with _raw(terminal):
                os.write(terminal, _QUESTION)
                reply = _reply(terminal)
    return parse_reply(reply)


def parse_reply(reply: bytes) -> Answers:
    """Parse a reply."""
    columns = [int(each) for each in _CURSOR.findall(reply)]
    width = columns[1] - columns[0] if len(columns) == 2 else None
    mode = _MOUSE.search(reply)
    return Answers(width, None if mode is None else mode[1] not in _UNKNOWN_MODE)


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _reply(terminal: int) -> bytes:
    reply = b""
    end = monotonic() + _SECONDS
    while not _END.search(reply) and (rest := end - monotonic()) > 0:
        ready, _, _ = select.select([terminal], [], [], rest)
        if not ready:
            break
        data = os.read(terminal, 1024)
        if not data:
            break
        reply += data
    return reply
