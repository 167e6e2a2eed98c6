"""Text in terminal cells: most characters take one cell, Chinese ones two, combining ones none."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from dissectors.printable import ELLIPSIS, printable


def width(text: str) -> int:
    """Return the cells that clean text takes: two for each Chinese character, and for some others."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


@lru_cache(maxsize=16_384)
def fit(text: str, room: int, *, right: bool = False) -> str:
    """Return text, cleaned and cut or padded to exactly `room` cells; names are cut in the middle.

    :param right: pad on the left, as for numbers
    """
    if room <= 0:
        return ""
    text = printable(text)
    taken = width(text)
    if taken > room:
        text = cut(text, room) if right else cut_name(text, room)
        taken = width(text)
    return f"{' ' * (room - taken)}{text}" if right else f"{text}{' ' * (room - taken)}"


def cut(text: str, room: int) -> str:
    """Return clean text cut to at most `room` cells, with an ellipsis if something is missing."""
    if width(text) <= room:
        return text
    if room <= 0:
        return ""
    if text.isascii():
        return f"{text[: room - 1]}{ELLIPSIS}"
    taken, kept = 1, 0  # the ellipsis
    for character in text:
        cells = width(character)
        if taken + cells > room:
            break
        taken += cells
        kept += 1
    return f"{text[:kept]}{ELLIPSIS}"


def cut_name(text: str, room: int) -> str:
    """Return clean text cut to `room` cells: names in the middle, as their ends distinguish them, sentences at the end.

    A name is one word or two, and may follow a sign. The port of an address and the number of a partition stay whole
    if there is room, also at the beginning of a sentence, and so does a number with the word after it, as in
    ``StreamThread-2-consumer``.
    """
    if width(text) <= room:
        return text
    if text.count(" ") > 1:
        return _cut_sentence(text, room)
    number = _NUMBER_AT_END.search(text)
    kept = room - len(number[0]) if number else 0
    is_name = number is not None or (_NAME.match(text) and room >= _MIDDLE)
    if kept < 0 or not is_name:
        return cut(text, room)
    end = max((room - 1) // 2, len(number[0]) if number else 0)
    inside = _NUMBER_INSIDE.search(text)
    if number is None and inside:
        if len(inside[0]) + _BEGINNING < room:
            end = max(end, len(inside[0]))
        elif room >= _BEGINNING + len(inside["number"]) + len(ELLIPSIS) + 1:
            return f"{cut(text, _BEGINNING)}{cut(inside[0], room - _BEGINNING)}"
    return _without_middle(text, room, end)


def cut_apart(text: str, room: int, others: Collection[str]) -> str:
    """Return a clean name cut as by :func:`cut_name`, but at another place if the result is one of `others`."""
    shown = cut_name(text, room)
    if width(text) > room and shown in others:
        ends = range(2, room - 2)
        shown = next(
            (cut_ for end in ends if (cut_ := _without_middle(text, room, end)) not in others), shown
        )
    return shown


def _without_middle(text: str, room: int, end: int) -> str:
    """Return clean text cut to `room` cells, of which `end` show its end."""
    return f"{cut(text, room - end)}{_last(text, end)}" if room > end else _last(text, end)


def _cut_sentence(text: str, room: int) -> str:
    """Return clean text cut at its end, but not in a number; if it begins with a longer name, cut that."""
    first = text.partition(" ")[0]
    if width(first) > room - len(_MORE) >= _MIDDLE and _COMPOUND.search(first):
        return cut_name(first, room - len(_MORE)) + _MORE
    shown = cut(text, room)
    part = shown.removesuffix(ELLIPSIS)
    digits = len(part) - len(part.rstrip("0123456789"))
    if digits < len(part) and text[len(part)].isdecimal():
        part = part[: len(part) - digits]
    return f"{part}{ELLIPSIS}" if room > 0 else ""


_NUMBER_AT_END = re.compile(r"[:-]\d+(@\d+)?\)?$")
_NUMBER_INSIDE = re.compile(r"(?P<number>[.-]\d+[.-])[^\W\d]+$")
_COMPOUND = re.compile(r"\w[-_.:]\w")
_NAME = re.compile(r"(\W )?([^\W\d]|\d\w*[-_.])")
_MIDDLE = 6
"""Cells from which on a part of both ends can be shown."""
_BEGINNING = 4
"""Cells of a name in front of a number inside it, with the ellipsis."""
_MORE = f" {ELLIPSIS}"
"""Ends a name after which more words follow."""


def _last(text: str, room: int) -> str:
    """Return the end of clean text, at most `room` cells."""
    if text.isascii():
        return text[len(text) - room :]
    taken = 0
    for kept, character in enumerate(reversed(text)):
        taken += width(character)
        if taken > room:
            return text[len(text) - kept :]
    return text
