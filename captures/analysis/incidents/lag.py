"""Lag that grew because of an incident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from msgspec import UnsetType

from captures.analysis.incidents.model import Incident
from captures.analysis.incidents.periods import Period, Periods
from captures.analysis.lag import LagRow
from dissectors.units import SECOND

_CATCHES_UP = 60 * SECOND
"""ns after an incident within which the lag caused by it peaks."""


def explain_lag(rows: Iterable[LagRow], incidents: Sequence[Incident], now: int) -> Iterator[LagRow]:
    """Yield the lag of partitions, marked (``because_of``) if an incident explains its highest value.

    An incident explains it if it concerns the group, or a broker, and the lag was lower before.

    :param now: end of an incident whose end was not seen
    """
    periods: dict[tuple[str, str | UnsetType], list[Period[Incident]]] = {}
    for each in incidents:
        over = (now if each.end is None else each.end) + _CATCHES_UP
        for group in each.groups or ([""] if each.brokers else ()):
            periods.setdefault((group, each.cluster), []).append(Period(each.begin, over, each))
    away = {key: Periods(found) for key, found in periods.items()}
    for row in rows:
        keys = (row.group, row.cluster), ("", row.cluster)
        found = (_root(row, away[key]) for key in keys if key in away)
        root = next((each for each in found if each is not None), None)
        yield row if root is None else replace(row, because_of=root.id)


def _root(row: LagRow, away: Periods[Incident]) -> Incident | None:
    root = None if row.highest_at is None else away.first(row.highest_at, row.highest_at)
    if root is None or not row.highest:
        return None
    before = row.over_time.at(root.begin - row.over_time.width)
    return root if before is None or before < row.highest else None
