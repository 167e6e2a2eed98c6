"""The hosts format (hosts(5), RFC 952): each line has an address and its names, the official one first, then aliases.

A comment starts with ``#``. Here an address may have a port, which names that endpoint alone: it distinguishes brokers
on one machine, or behind forwarded ports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias


class Entry(NamedTuple):
    """An address and its names.

    :ivar address: as in the file
    :ivar port: None if the whole host is named
    :ivar names: the one to be shown first
    """

    address: str
    port: int | None
    names: tuple[str, ...]


Lines: TypeAlias = Iterator[tuple[int, str]]
"""Lines with their numbers, from 1."""


class LineError(ValueError):
    """A line cannot be parsed."""

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


_WITH_PORT = re.compile(r"(?:\[(?P<v6>[^\]]+)\]|(?P<v4>[^:]+)):(?P<port>[0-9]{1,5})")
_MOST = 0xFFFF


def entries(lines: Lines) -> Iterator[Entry]:
    """Yield the entries of the lines.

    :raises LineError: at the first line that cannot be parsed
    """
    for number, line in lines:
        first, *names = line.partition("#")[0].split() or [""]
        if not first:
            continue
        end = endpoint(first)
        if end is None:
            raise LineError(number, f"{first!r} is no IP address")
        if not names:
            raise LineError(number, f"there is no name after {first}")
        yield Entry(*end, tuple(names))


def endpoint(text: str) -> tuple[str, int | None] | None:
    """Split ``10.0.0.1``, ``10.0.0.1:9092``, ``::1`` and ``[::1]:9092``; None if it is not an address."""
    if is_address(text):
        return text, None
    found = _WITH_PORT.fullmatch(text)
    if found is None:
        return None
    host, port = found["v6"] or found["v4"], int(found["port"])
    return (host, port) if is_address(host) and port <= _MOST else None
