"""Restarted tasks of connectors, and the worker incidents that they belong to."""

from __future__ import annotations

import pytest

from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import CONNECT, Kind
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.analysis.incidents.of_groups import explained_by_workers
from dissectors.units import SECOND


def incident(kind: IncidentKind, group: str, begin: int, end: int | None) -> Incident:
    return Incident(kind=kind, begin=begin, end=end, who=(group,), sentence=".", groups={group: None})


@pytest.mark.parametrize(
    ("end", "restart", "belongs"),
    [
        (30, 97, True),  # the consumer's last heartbeat precedes that of the worker
        (30, 95, False),
        (30, 125, True),
        (30, 200, False),
        (None, 390, True),
        (None, 500, False),  # the worker has not returned, and its tasks no longer wait for it
    ],
)
def test_tasks_belong_to_a_worker_while_they_wait_for_it(
    end: int | None, restart: int, belongs: bool
) -> None:
    begin = 100 * SECOND
    worker = incident(
        IncidentKind.MEMBER_ABSENCE, "workers", begin, None if end is None else begin + end * SECOND
    )
    tasks = incident(IncidentKind.CONNECTOR_RESTART, "connect-sink", restart * SECOND, None)
    workers = GroupTimeline(group="workers", kind=Kind.CLASSIC, protocol_type=CONNECT)
    found = explained_by_workers([worker, tasks], [workers])
    assert (found == [worker]) is belongs
    assert ("connect-sink" in worker.groups) is belongs
