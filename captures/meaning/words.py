"""Compact texts of numbers, sizes, times and identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from dissectors.domains import Domain
from dissectors.printable import printable

SHOWN = 3
"""Number of names listed before the rest is counted."""

LINE_LENGTH = 400
"""Maximum number of characters of a summary."""

_RUNS_SHOWN = 6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UUID_AT_END = re.compile(r"([0-9a-fA-F]{4})[0-9a-fA-F]{4}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_UUID_LENGTH = 36


def join(*parts: str) -> str:
    """Join the non-empty parts with two spaces, the distance between the columns of a summary."""
    return "  ".join([part for part in parts if part])


def listed(parts: Iterable[str]) -> str:
    """Join the non-empty parts with commas."""
    return ", ".join([part for part in parts if part])


def value_name(domain: Domain, value: int | None) -> str:
    """Return the name of an enumeration's value in lower case; the number if it has no name."""
    if value is None:
        return "?"
    return (domain.name_of(value) or str(value)).lower().replace("_", " ")


def size(count: int) -> str:
    """Return bytes for columns: ``812 B``, ``3.2k``, ``14M``; steps of 1024."""
    figure, unit = _scaled(count)
    return f"{figure}{unit}" if unit else f"{figure} B"


def volume(count: int) -> str:
    """Return bytes for sentences: ``812 B``, ``3.2 KiB``, ``14 MiB``."""
    figure, unit = _scaled(count)
    return f"{figure} {unit.upper()}iB" if unit else f"{figure} B"


def _scaled(count: int) -> tuple[str, str]:
    if count < 1024:
        return f"{count}", ""
    value, power = count / 1024, 0
    while value >= 999.5:
        value, power = value / 1024, power + 1
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}", "kMGTPE"[power]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return ``1 record``, ``1,204 records``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {plural or noun + 's'}"


def figure(count: float | None, nothing: str = "") -> str:
    """Return a count for a column: ``1,204``; `nothing` for None or zero."""
    return f"{int(count):,}" if count else nothing


def some(names: Iterable[str], shown: int | None = SHOWN, gap: str = " ") -> str:
    """Return the first names and the number of further ones: ``orders payments logs +4``.

    :param shown: number of names; None for all
    """
    every = list(names)
    rest = len(every) - len(every[:shown])
    return gap.join(every[:shown]) + (f" +{rest}" if rest else "")


def several(names: Iterable[str], shown: int = 5) -> str:
    """Return the first distinct names, for sentences: ``m1, m2 and 3 more``."""
    every = list(dict.fromkeys(names))
    rest = len(every) - shown
    return ", ".join(every[:shown]) + (f" and {rest} more" if rest > 0 else "")


def phrases(parts: list[str]) -> str:
    """Return the first phrases and the number of further ones: ``orders to 12, logs to 6 +2``."""
    return some(parts, gap=", ")


def runs(numbers: Iterable[int]) -> list[str]:
    """Return numbers as ascending runs: 0, 1, 2, 5 -> ``["0-2", "5"]``."""
    out: list[str] = []
    first = last = None
    for value in sorted(set(numbers)):
        if last is not None and value == last + 1:
            last = value
            continue
        if first is not None:
            out.append(str(first) if first == last else f"{first}-{last}")
        first = last = value
    if first is not None:
        out.append(str(first) if first == last else f"{first}-{last}")
    return out


def ranges(numbers: Iterable[int]) -> str:
    """Return ``0-2,5``; a list that would be too long ends in the count: ``0,2,4,6,8,10…(40)``."""
    every = list(numbers)
    found = runs(every)
    if len(found) <= _RUNS_SHOWN:
        return ",".join(found)
    return f"{','.join(found[:_RUNS_SHOWN])}…({len(set(every))})"


def plain(numbers: Iterable[int]) -> str:
    """Return numbers in their order, which is significant in replica lists: ``3,1,2``."""
    return ",".join(map(str, numbers))


def member(member_id: str | None) -> str:
    """Return a short member ID: ``m-2f9c``.

    Coordinators and clients build them from a client ID, which has its own column, and a UUID (KIP-394, KIP-848:
    base64url), four characters of which distinguish the members of a group.
    """
    if not member_id:
        return ""
    if len(member_id) >= _UUID_LENGTH and (found := _UUID_AT_END.search(member_id)):
        return f"m-{found[1]}"
    return f"m-{member_id[:4]}" if len(member_id) == len("AAAAAAAAAAAAAAAAAAAAAA") else clipped(member_id, 16)


def clipped(text: str, length: int) -> str:
    """Return the text on one line, truncated to ``length`` characters."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def line(text: str) -> str:
    """Return the text made safe for a terminal: names come from the wire and may contain line ends or escapes, or be
    endless.
    """
    return printable(text, LINE_LENGTH)


def topic_id(uuid: str) -> str:
    """Return the first characters of a topic ID, for a topic whose name is unknown."""
    return f"{uuid[:6]}…"


def moment(timestamp_ms: int) -> str:
    """Return a point in time, UTC: ``2026-03-01 09:14:03``; the number itself if it exceeds the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return f"{timestamp_ms} ms"


def duration(ms: int) -> str:
    """Return ``500ms``, ``30s``, ``1.5s``, ``15min``, ``24h``, ``7d``."""
    if abs(ms) < 1000:
        return f"{ms}ms"
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms % length == 0:
            return f"{ms // length}{unit}"
    return f"{ms / 1000:g}s"
