"""Tasks of Kafka Streams, active and standby, against the instances' own reports."""

from __future__ import annotations

import pytest

from captures.analysis.groups.labels import task_names
from captures.analysis.groups.model import Tasks
from captures.meaning.topic_partitions import TopicPartition
from tests.captures.analysis.groups.compare import read_groups
from tests.captures.analysis.groups.truth import FOLDER, SECOND, read

RECORDINGS = "48_k430_streams_standby", "48_k430_streams_protocol_standby"


def parsed(said: str) -> tuple[frozenset[TopicPartition], ...]:
    """Return the active and standby tasks in an instance's report: ``active 0_1,1_1 standby 1_0``."""
    both = said.removeprefix("active").split("standby")
    pairs = ([each.partition("_") for each in listed.strip().split(",") if each] for listed in both)
    return tuple(frozenset(TopicPartition(name, int(number)) for name, _, number in part) for part in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_members_have_the_tasks_that_their_instances_say(name: str) -> None:
    """An instance reports its tasks once they are set up, which may be after the next rebalance began."""
    truth = read(name)
    timeline = read_groups(str(FOLDER / f"{name}.pcap.zst"))[truth.group]
    clients = {each.member: each.client.partition("-StreamThread")[0] for each in timeline.members}
    compared = 0
    for told, following in zip(timeline.rebalances, timeline.rebalances[1:], strict=False):
        for member, tasks in told.tasks.items():
            said = [
                str(event["data"])
                for event in truth.events
                if (event["who"], event["what"]) == (clients[member], "tasks")
                and event["t"] > told.time / SECOND
            ]
            if tasks.standby and following.time - told.time > 8 * SECOND:
                assert (tasks.active, tasks.standby) in list(map(parsed, said))
                compared += 1
    assert compared > 5


@pytest.mark.slow
def test_what_keeps_a_streams_group_from_running_is_told() -> None:
    first = read_groups(str(FOLDER / f"{RECORDINGS[1]}.pcap.zst"))["g-streams_protocol_standby"].rebalances[0]
    assert any(text.startswith("ASSIGNMENT_DELAYED") for text in first.status)
    assert any("MISSING_INTERNAL_TOPICS" in text for text in first.status)


def test_tasks_are_named_as_streams_names_them() -> None:
    found = Tasks(
        frozenset({TopicPartition("0", 2), TopicPartition("1", 0), TopicPartition("0", 1)}), None, None
    )
    assert found.active is not None
    assert task_names(found.active) == "0_1-2, 1_0"
