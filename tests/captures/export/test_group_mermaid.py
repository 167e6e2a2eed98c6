"""Rebalances as sequence diagrams."""

from __future__ import annotations

import re
from datetime import UTC

from captures.analysis.groups.model import AwaitedMember, CommitFailure, GroupTimeline
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.export.group_mermaid import MAX_BLOCKS, lines
from tests.captures.analysis.groups.kit import at, cause, places, rebalance, timeline

# the grammar of the output: mermaid.js.org/syntax/sequenceDiagram.html
TEXT = r"[^;#<>\n]*(?:#\w+;[^;#<>\n]*)*"
LINE = re.compile(
    rf"sequenceDiagram|    (?:actor|participant) \w+ as {TEXT}|    rect rgb\(226, 233, 246\)|    end"
    rf"| {{8}}\w+(?:->>|-->>|--x)\w+: {TEXT}| {{8}}Note over \w+(?:,\w+)?: {TEXT}"
)


def drawn(*told: GroupTimeline) -> list[str]:
    found = list(lines([(each, each.rebalances) for each in told], UTC))
    for line in found:
        assert LINE.fullmatch(line), line
        assert line.isprintable()
    return found


def test_a_rebalance_is_a_block() -> None:
    assigned = {"m1-id": places("orders", 0, 1), "m2-id": frozenset()}
    assert drawn(timeline(rebalance(assigned=assigned))) == [
        "sequenceDiagram",
        "    actor G1M1 as m2",
        "    actor G1M2 as m1",
        "    participant G1 as coordinator of orders",
        "    rect rgb(226, 233, 246)",
        "        Note over G1M1,G1: 14:13:30.000 generation 1 → 2, took 3 s",
        "        G1M1->>G1: member_joined: m2 joined",
        "        G1-->>G1M2: orders 0-1",
        "        G1-->>G1M1: nothing assigned",
        "    end",
    ]


def test_silence_doubt_and_trouble_are_told() -> None:
    causes = [
        cause(Trigger.SESSION_TIMEOUT, Certainty.INFERRED, "m2 was silent", member="m2-id"),
        cause(Trigger.PARTITIONS_CHANGED, sentence="orders has 12 partitions"),
    ]
    told = rebalance(
        causes=causes,
        end=None,
        running=True,
        awaited=[AwaitedMember("m1-id", "m1", at(10))],
        commit_failures=[CommitFailure(5, at(11), "m1-id", 27, "REBALANCE_IN_PROGRESS")],
    )
    found = drawn(timeline(told))
    assert "        G1M1--xG1: session_timeout (inferred): m2 was silent" in found
    assert "        Note over G1: partitions_changed: orders has 12 partitions" in found
    assert "        Note over G1M1,G1: waits for m1" in found
    assert "        Note over G1M1,G1: 1 commit failed" in found


def test_a_storm_is_one_block() -> None:
    storm = [
        rebalance(
            begin=10 + index, end=10.5 + index, previous_generation=index, generation=index + 1, storm=4
        )
        for index in range(4)
    ]
    found = drawn(timeline(*storm))
    assert sum(line.startswith("    rect") for line in found) == 1
    (note,) = [line for line in found if "storm" in line]
    assert "generation 0 → 4, storm of 4 rebalances: member_joined m2 in 3.5 s" in note


def test_a_picture_ends() -> None:
    told = [rebalance(begin=index, end=index + 0.5) for index in range(MAX_BLOCKS + 7)]
    found = drawn(timeline(*told), timeline(rebalance()))
    assert sum(line.startswith("    rect") for line in found) == MAX_BLOCKS
    assert sum("more rebalance" in line for line in found) == 2
    assert any(line.endswith("7 more rebalances are left out") for line in found)


def test_several_groups_and_names_that_mermaid_would_choke_on() -> None:
    hostile = rebalance(causes=[cause(sentence="a;b#c<d>\n%%{init}%%", member="evil", client="x;y\nend")])
    found = drawn(timeline(hostile, group="g#1;\nend\x1b[31m"), timeline(rebalance()))
    assert any(line.startswith("    participant G2") for line in found)


def test_no_group() -> None:
    assert drawn() == ["sequenceDiagram", "    participant N as no group was seen"]
