"""Text that came from the wire, made fit for a terminal: harmless, and as wide as it is said to be.

Names, keys and values are chosen by whoever sends them. Control characters and escape sequences could drive the
terminal, bidirectional controls could reorder what stands beside them, zero-width characters could hide, and markup
could style what is no markup. So nothing from a capture is handed to Textual but as content or segments made of what
:func:`~dissectors.printable.printable` leaves. Characters of two cells, such as CJK, are kept and counted as two.

Terminals that reorder right-to-left text are told not to as long as the UI runs (:data:`EXPLICIT_DIRECTION`).
"""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from textual.content import Content

from dissectors.printable import ELLIPSIS, printable

EXPLICIT_DIRECTION = "\x1b[8l"
"""Tells a terminal to show characters in the order in which they come (ECMA-48 BDSM)."""
IMPLICIT_DIRECTION = "\x1b[8h"
"""Tells it to reorder right-to-left text again, the usual state."""


def width(text: str) -> int:
    """Return the cells that clean text takes."""
    return len(text) if text.isascii() else cell_len(text)


@lru_cache(maxsize=16_384)
def fit(text: str, room: int, *, right: bool = False) -> str:
    """Return text cleaned and cut or padded to exactly so many cells.

    :param right: pad on the left, as numbers are
    """
    if room <= 0:
        return ""
    text = printable(text)
    taken = width(text)
    if taken > room:
        text = cut(text, room)
        taken = width(text)
    return f"{' ' * (room - taken)}{text}" if right else f"{text}{' ' * (room - taken)}"


def cut(text: str, room: int) -> str:
    """Return clean text cut to so many cells at most, with an ellipsis where something is missing."""
    if width(text) <= room:
        return text
    if room <= 0:
        return ""
    if text.isascii():
        return f"{text[: room - 1]}{ELLIPSIS}"
    taken, kept = 1, 0  # the ellipsis
    for character in text:
        cells = cell_len(character)
        if taken + cells > room:
            break
        taken += cells
        kept += 1
    return f"{text[:kept]}{ELLIPSIS}"


def plain(text: str) -> Content:
    """Return text from the wire as content that is shown as it is: nothing in it is markup."""
    return Content(printable(text))
