"""The tables of ``kproxy lag``: one for each group, its partitions as rows."""

from __future__ import annotations

from datetime import tzinfo

from captures.analysis.clusters import beside
from captures.analysis.lag import LagRow, total
from captures.meaning import topic_partitions, words
from captures.time_format import clock, span, zone_name
from kproxy.text.tables import Column, Table

_BARS = "▁▂▃▄▅▆▇█"
_PICTURE_WIDTH = 30
_OLD = 10_000_000_000
"""ns; an end that was reported longer ago is marked as old."""
_UNKNOWN = "?"


def lag_table(rows: list[LagRow], now: int, zone: tzinfo | None, *, picture: bool) -> Table:
    """The partitions of one group, those with the greatest lag first, those with unknown lag last.

    :param now: end of the capture, ns since the epoch
    :param picture: whether to draw the lag over time
    """
    lag, unknown = total(rows)
    about = f"lag {lag:,} in {words.counted(len(rows) - unknown, 'partition')}"
    if unknown:
        about += f", not known of {unknown:,}"
    most = max((row.highest or 0 for row in rows), default=0)
    ordered = sorted(rows, key=lambda row: (-1 if row.lag is None else -row.lag, row.topic, row.partition))
    ordered.sort(key=lambda row: row.lag is None)
    because = (Column("because of", rank=5), lambda row: row.because_of)
    return Table.of(
        beside(words.line(rows[0].group), rows[0].cluster),
        ordered,
        [
            (
                Column("partition", least=16),
                lambda row: topic_partitions.one(words.line(row.topic), [row.partition]),
            ),
            (Column("committed", right=True, rank=2), lambda row: _count(row.committed)),
            (Column("position", right=True, rank=4), lambda row: _count(row.position)),
            (Column("end", right=True, rank=1), lambda row: _end(row, now)),
            (Column("lag", right=True), lambda row: _UNKNOWN if row.lag is None else f"{row.lag:,}"),
            (Column("highest", right=True), lambda row: _count(row.highest)),
            (
                Column(f"at {zone_name(now, zone)}", right=True, rank=3),
                lambda row: clock(row.highest_at, zone) if row.highest_at is not None and row.highest else "",
            ),
            (Column("fetched by", least=8, rank=6), lambda row: words.line(row.client)),
            (
                Column("over time", rank=5),
                lambda row: sparkline(row.over_time.merged(_PICTURE_WIDTH), most) if picture else "",
            ),
            *([because] if any(row.because_of for row in rows) else []),
        ],
        about=about,
        below=_doubts,
    )


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _end(row: LagRow, now: int) -> str:
    if row.end is None or row.end_at is None:
        return _UNKNOWN
    age = now - row.end_at
    return f"{row.end:,}" if age < _OLD else f"{row.end:,} ({span(age)} ago)"


def _doubts(row: LagRow) -> list[str]:
    """Return why a lag is unknown."""
    if row.lag is not None:
        return []
    if row.end is None:
        return ["its end is not known"]
    if row.committed is None and row.position is None:
        return ["no position of the group is known"]
    return ["the last known end is older than the position"]


def sparkline(lags: list[int | None], most: int) -> str:
    """Draw lags as bars relative to the highest one; unknown lags are gaps."""
    return "".join(_bar(lag, most) for lag in lags)


def _bar(lag: int | None, most: int) -> str:
    if lag is None:
        return " "
    # any lag at all differs visibly from none
    return _BARS[0] if not lag else _BARS[max(1, lag * (len(_BARS) - 1) // max(most, 1))]
