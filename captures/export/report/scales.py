"""Scales of a report's pictures: numbers, durations and times on axes. Lengths are in units of the SVG."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import pairwise
from math import ceil, floor, log10

import msgspec

from captures.export.group_html.axis import STEPS, WIDTH, AxisRow, Piece
from captures.time_format import Clock, clock, day, span
from dissectors.units import SECOND

MOST_SLICES = 180
"""Most slices of time in a picture."""

_MILLISECOND = SECOND // 1000
_DAY = 24 * 3600 * SECOND
_ROUND = (
    *STEPS,
    *(days * _DAY for days in (2, 7, 14, *(28 * each for each in (1, 2, 4, 13, 26, 52, 104, 520)))),
)
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


class Slices(msgspec.Struct, frozen=True):
    """Time cut into slices of one width, which begin at multiples of it: at ``t - t % width``.

    :ivar first: time of the first exchange, ns since the epoch
    :ivar last: time of the last exchange, ns since the epoch
    :ivar width: ns of a slice
    """

    first: int
    last: int
    width: int

    @classmethod
    def of(cls, first: int, last: int) -> Slices:
        """Return the narrowest slices of a round width that are at most ``MOST_SLICES``."""
        width = next(
            (each for each in _ROUND if last // each - first // each < MOST_SLICES),
            _ROUND[-1] * (1 + (last - first) // (_ROUND[-1] * MOST_SLICES)),
        )
        return cls(first, last, width)

    @property
    def begins(self) -> range:
        """Starts of the slices, ns since the epoch."""
        return range(self.first - self.first % self.width, self.last + 1, self.width)

    def covered(self, begin: int) -> tuple[int, int]:
        """Return the part of a slice between the first and the last exchange: begin and end in ns.

        The whole slice if that is less than half of it, so that a few exchanges at an edge do not look like a high
        rate.
        """
        low, high = max(begin, self.first), min(begin + self.width, self.last)
        return (low, high) if 2 * (high - low) >= self.width else (begin, begin + self.width)

    @property
    def edges(self) -> tuple[int, int]:
        """Covered start of the first slice and covered end of the last one, in ns since the epoch."""
        return self.covered(self.begins[0])[0], self.covered(self.begins[-1])[1]

    @property
    def words(self) -> str:
        """The width in words: ``5 s``."""
        return span(self.width)


class TimeAxis(msgspec.Struct, frozen=True):
    """Maps times to positions across a picture.

    :ivar begin: left edge, ns since the epoch
    :ivar end: right edge, ns since the epoch
    :ivar zone: time zone of the labels; None is the local one
    """

    begin: int
    end: int
    zone: tzinfo | None

    def x(self, time: int) -> float:
        """Return the position of a time, clamped to 0 to ``WIDTH``."""
        share = (time - self.begin) / max(self.end - self.begin, 1)
        return WIDTH * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[tuple[float, str, str]]:
        """Return round times: position, label, and the date where a new day begins."""
        shift = self._shift()
        row = AxisRow([Piece(self.begin + shift, self.end + shift, 0.0, WIDTH, False)])
        moments = [time - shift for time in row.ticks()]
        steps = {later - earlier for earlier, later in pairwise(moments)} or {_MILLISECOND}
        whole_days = all((time + shift) % _DAY == 0 for time in moments) and min(steps) >= _DAY
        out: list[tuple[float, str, str]] = []
        shown = ""
        for time in moments:
            date = day(time, self.zone)
            if whole_days:
                out.append((self.x(time), date, ""))
                continue
            out.append(
                (self.x(time), _shortest(clock(time, self.zone), steps), "" if date == shown else date)
            )
            shown = date
        return out

    def named(self, time: int) -> str:
        """Return a time in words, with its date if the picture covers several days."""
        return Clock.of(self.begin, self.end, self.zone)(time)

    def _shift(self) -> int:
        offset = datetime.fromtimestamp(self.begin // SECOND, UTC).astimezone(self.zone).utcoffset()
        return 0 if offset is None else int(offset.total_seconds()) * SECOND


def _shortest(text: str, steps: set[int]) -> str:
    """Return a time of day (``09:51:00.250``) without the trailing digits that are zero at all steps."""
    for digits, unit in (
        (5, 60 * SECOND),
        (8, SECOND),
        (10, SECOND // 10),
        (11, SECOND // 100),
    ):
        if not any(step % unit for step in steps):
            return text[:digits]
    return text


def rounded_up(value: float, least: float = 0.0) -> tuple[float, float]:
    """Return a round number not less than `value`, and the distance of the ticks up to it.

    :param least: least distance of the ticks
    """
    if value <= 0:
        return 1.0, 1.0
    if value <= 4 * least:
        return least * ceil(value / least), least
    power = 10.0 ** floor(log10(value / 4))
    step = next(each * power for each in (1, 2, 2.5, 5, 10, 20) if each * power * 4 >= value * 0.9999)
    top = step
    while top < value * 0.9999:
        top += step
    return top, step


def amount(value: float, unit: str = "") -> str:
    """Return a number of at most three digits with its decimal prefix: ``12``, ``1.25k``, ``340 MB/s``.

    :param unit: unit of the value, or ``/s`` and the like for a rate; bytes have decimal prefixes, as rates do
    """
    power = 0
    while abs(value) >= 999.5 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    digits = f"{value:.3g}" if abs(value) >= 0.01 or not value else f"{value:.1g}"
    space = " " if unit and not unit.startswith("/") else ""
    return f"{digits}{space}{_PREFIXES[power]}{unit}"


def logarithmic_ticks(low: float, high: float) -> Iterator[float]:
    """Yield the powers of ten from `low` to `high` inclusive, and round values between them if they are few."""
    between = (1, 2, 5) if high / low <= 200 else (1,)
    power = 1.0
    while power * 10 <= low:
        power *= 10
    while power <= high:
        yield from (each * power for each in between if low <= each * power <= high)
        power *= 10
