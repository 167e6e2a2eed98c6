"""Lag caused by an incident."""

from __future__ import annotations

import pytest

from captures.analysis.incidents.lag import explain_lag
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.analysis.lag import LagOverTime, LagRow
from dissectors.units import SECOND

OVER_TIME = LagOverTime(0, SECOND, [0, 1, 1, 2, 2, 5, 9, 9, 3, 0])


def row(highest_at: int | None, highest: int | None = 9) -> LagRow:
    return LagRow(
        group="app",
        topic="orders",
        partition=0,
        committed=None,
        committed_at=None,
        position=None,
        client="",
        end=None,
        end_at=None,
        lag=None,
        behind=None,
        highest=highest,
        highest_at=None if highest_at is None else highest_at * SECOND,
        over_time=OVER_TIME,
    )


def incident(begin: int, end: int | None, *groups: str, brokers: tuple[str, ...] = ()) -> Incident:
    made = Incident(
        kind=IncidentKind.BROKER_OUTAGE,
        begin=begin * SECOND,
        end=None if end is None else end * SECOND,
        who=(),
        sentence="",
        brokers=brokers,
        id="broker_outage-1",
    )
    made.groups |= dict.fromkeys(groups)
    return made


@pytest.mark.parametrize(
    ("told", "highest_at", "because"),
    [
        (incident(4, 5, "app"), 6, True),
        (incident(4, None, "app"), 6, True),
        (incident(4, 5, brokers=("b:1",)), 6, True),
        (incident(4, 5, "other"), 6, False),
        (incident(4, 5), 6, False),
        (incident(8, 9, "app"), 6, False),
        (incident(8, 9, "app"), 8, False),  # it was as high before
        (incident(0, 1, "app"), 70, False),
        (incident(4, 5, "app"), None, False),
    ],
)
def test_which_lag_is_because_of_an_incident(told: Incident, highest_at: int | None, because: bool) -> None:
    (found,) = explain_lag([row(highest_at)], [told], 10 * SECOND)
    assert found.because_of == ("broker_outage-1" if because else "")


def test_no_lag_is_because_of_nothing() -> None:
    (found,) = explain_lag([row(6, 0)], [incident(4, 5, "app")], 10 * SECOND)
    assert not found.because_of
