"""Text in the cells of a terminal: most characters take one, Chinese ones two, those that combine with others none."""

from __future__ import annotations

from functools import lru_cache

from dissectors.printable import ELLIPSIS, printable


def width(text: str) -> int:
    """Return the cells that clean text takes: two for each character of Chinese, and of some others."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


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
        cells = width(character)
        if taken + cells > room:
            break
        taken += cells
        kept += 1
    return f"{text[:kept]}{ELLIPSIS}"


def cut_host(text: str, room: int) -> str:
    """Return ``host:port`` cleaned, its host cut to so many cells: the port tells brokers of one host apart.

    What has no port, or no room for it, is left as it is.
    """
    text = printable(text)
    host, colon, port = text.rpartition(":")
    rest = room - len(port) - 1
    if width(text) <= room or not colon or not port.isdecimal() or rest < 0:
        return text
    return f"{cut(host, rest)}:{port}"
