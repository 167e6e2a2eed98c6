"""Text that came from the wire, made fit for a terminal: harmless, and as wide as it is said to be.

Names, keys and values are chosen by whoever sends them. Control characters and escape sequences could drive the
terminal, bidirectional controls could reorder what stands beside them, zero-width characters could hide, and markup
could style what is no markup. So nothing from a capture is handed to Textual but as content or segments made of what
:func:`clean` leaves. Characters of two cells, such as CJK, are kept and counted as two.

Terminals that reorder right-to-left text are told not to as long as the UI runs (:data:`EXPLICIT_DIRECTION`).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from rich.cells import cell_len
from textual.content import Content

REPLACEMENT = "�"
"""Stands for a character that is not shown."""
ELLIPSIS = "…"

EXPLICIT_DIRECTION = "\x1b[8l"
"""Tells a terminal to show characters in the order in which they come (ECMA-48 BDSM)."""
IMPLICIT_DIRECTION = "\x1b[8h"
"""Tells it to reorder right-to-left text again, the usual state."""

_MOST_MARKS = 2
_VARIATION = range(0xFE00, 0xFE10)


def clean(text: str) -> str:
    """Return text with every character replaced that is not visible, or whose width is not certain.

    These are controls, format characters (bidirectional controls and joiners are among them), line ends, surrogates,
    unassigned and private characters, variation selectors, and combining marks without a base or piled up on one.
    """
    if text.isascii() and text.isprintable():
        return text
    out: list[str] = []
    marks = _MOST_MARKS  # none without a base
    for character in text:
        if not character.isprintable() or ord(character) in _VARIATION:
            out.append(REPLACEMENT)
            marks = _MOST_MARKS
        elif unicodedata.category(character) in ("Mn", "Me"):
            marks += 1
            if marks <= _MOST_MARKS:
                out.append(character)
            elif len(out) == 0 or out[-1] != REPLACEMENT:
                out.append(REPLACEMENT)
        else:
            out.append(character)
            marks = 0
    return "".join(out)


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
    text = clean(text)
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
    return Content(clean(text))
