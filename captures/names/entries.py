"""What the formats have in common: what a line says, and that it makes no sense."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias


class Entry(NamedTuple):
    """An address and its names.

    :ivar address: as in the file
    :ivar port: None where the whole host is named
    :ivar names: the one to be shown first
    """

    address: str
    port: int | None
    names: tuple[str, ...]


Lines: TypeAlias = Iterator[tuple[int, str]]
"""Lines with their numbers, from 1."""


class LineError(ValueError):
    """A line cannot be understood."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        super().__init__(reason)


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
