"""Connectors and tasks of recorded Kafka Connect clusters, against the workers' own logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest

from captures.analysis.groups.model import GroupTimeline, TopicPartition
from tests.captures.analysis.groups.compare import read_groups
from tests.captures.analysis.groups.truth import FOLDER, SECOND, Truth, read

pytestmark = pytest.mark.slow

LOST, CHANGES = "47_k430_connect_workers_lost", "47_k430_connect_changes"
_TASK = re.compile(r"(.*)-(\d+)")


class Run(NamedTuple):
    """A period in which a worker ran a connector or task, in seconds since the epoch."""

    begin: float
    end: float
    worker: str


def place_of(event: dict[str, str]) -> TopicPartition:
    if event["what"].endswith("connector"):
        return TopicPartition(event["data"], -1)
    match = _TASK.fullmatch(event["data"])
    assert match is not None
    return TopicPartition(match[1], int(match[2]))


def runs(truth: Truth) -> dict[TopicPartition, list[Run]]:
    """Return which worker ran what and when, from their logs; a killed one runs nothing any more."""
    found: dict[TopicPartition, list[Run]] = {}
    for event in truth.events:
        what, worker, time = event["what"], event["who"], event["t"]
        if what.startswith("starting "):
            found.setdefault(place_of(event), []).append(Run(time, float("inf"), worker))
        elif what.startswith("stopping ") or what == "SIGKILL":
            places = found if what == "SIGKILL" else [place_of(event)]
            for place in places:
                latest = found[place][-1]
                if latest.worker == worker and latest.end > time:
                    found[place][-1] = latest._replace(end=time)
    return found


def gaps(truth: Truth) -> Iterator[tuple[TopicPartition, float, float]]:
    """Yield what ran nowhere until another worker or process ran it."""
    killed = [event["t"] for event in truth.events if event["what"] == "SIGKILL"]
    for place, each in sorted(runs(truth).items()):
        for before, after in pairwise(each):
            moved = before.worker != after.worker or before.end in killed
            if moved and after.begin - before.end > 0.25:
                yield place, before.end, after.begin


@cache
def told(name: str) -> GroupTimeline:
    return read_groups(str(FOLDER / f"{name}.pcap.zst"))[read(name).group]


@pytest.mark.parametrize("name", [LOST, CHANGES])
def test_what_ran_nowhere_is_told_with_its_times(name: str) -> None:
    stops = [stop for each in told(name).rebalances for stop in each.stopped]
    happened = list(gaps(read(name)))
    found = sorted((stop.tp, stop.begin / SECOND, stop.end / SECOND) for stop in stops)
    assert [place for place, *_ in found] == [place for place, *_ in happened]
    for (_, begin, end), (_, last, first) in zip(found, happened, strict=True):
        # the last sign of a killed worker was an earlier heartbeat; a closed one leaves after everything has stopped
        assert last - 1.2 < begin < last + 1
        assert abs(end - first) < 0.3
    assert all(stop.ended for stop in stops)


@pytest.mark.parametrize("name", [LOST, CHANGES])
def test_what_starts_was_assigned_before(name: str) -> None:
    names = {member.member: member.client for member in told(name).members}
    assigned = {
        (move.tp, names[move.after]) for each in told(name).rebalances for move in each.moved if move.after
    }
    started = {(place, run.worker) for place, each in runs(read(name)).items() for run in each}
    assert assigned == started


def test_the_connector_that_was_changed_is_named() -> None:
    said = [each.cause.sentence for each in told(CHANGES).rebalances]
    assert [text.partition("joined again: ")[2] for text in said if "connector" in text] == [
        "connector sink1 was created",
        "connector sink1 has 1 task now",
        "connector src1 was created",
        "connector src1 has 1 task now",
        "connector sink1 was reconfigured and has 3 tasks now",
        "it has stopped connector src1, sink1-1, src1-0 (second round of a cooperative rebalance)",
        "connector src1 was reconfigured and has new settings of its tasks",
        "connector src1 was deleted",
        "it has stopped connector src1, src1-0 (second round of a cooperative rebalance)",
    ]


def test_a_lost_worker_is_awaited_also_after_it_came_back() -> None:
    waited = [each.delay for each in told(LOST).rebalances if each.delay]
    first, back, second = (round(delay / SECOND) for delay in waited)
    assert (first, second) == (10, 10)
    assert 0 < back < 10
