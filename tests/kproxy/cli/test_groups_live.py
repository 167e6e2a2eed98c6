"""Rebalances in a growing capture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.exchanges import ExchangeReader, open_capture
from kproxy.cli import groups_live
from kproxy.cli.groups_live import LiveGroups
from tests.captures.analysis.groups.kit import rebalance, timeline
from tests.waiting import PATIENCE

DATA = Path(__file__).parents[2] / "data" / "groups"
SMALL = 1 << 12  # bytes: a few packets at a time


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the pacing of updates."""
    monkeypatch.setattr(groups_live, "_EVERY", 0)
    monkeypatch.setattr("kproxy.pace._SHARE", 0)


def told(name: str) -> list[Rebalance]:
    """Return the rebalances reported for a capture that is read in small pieces."""
    capture = open_capture(str(DATA / name), SMALL)
    reader = ExchangeReader(capture, annotate=False, summary=False, live=True)
    found: list[Rebalance] = []
    live = LiveGroups(capture, reader.knowledge, lambda _, rebalance: found.append(rebalance))
    for rows in capture.updates():
        for exchange in reader.take(rows.tolist()):
            live.add(exchange)
        live.look()
    live.conclude()
    return found


def whole(name: str) -> list[Rebalance]:
    capture = open_capture(str(DATA / name))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    histories = GroupHistories(reader.knowledge.topic_name, capture)
    for exchange in reader:
        histories.add(exchange)
    return [each for group in histories.result() for each in group.rebalances]


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_each_rebalance_is_told_once_when_it_is_over() -> None:
    name = "21_k430_java_eager_range.pcap.zst"
    generations = [each.generation for each in told(name)]
    assert generations == [each.generation for each in whole(name)]
    assert generations == sorted(set(generations))


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_one_that_goes_on_for_long_is_told_before() -> None:
    # m2 does not poll from 09:52:24 to 09:52:37 while m3 tries to join (truth file)
    found = told("21_k430_java_blocked_rebalance.pcap.zst")
    running = [each for each in found if each.running]
    assert [each.previous_generation for each in running if each.previous_generation >= 1] == [1]
    (blocked,) = [each for each in running if each.previous_generation == 1]
    assert [each.client for each in blocked.awaited] == ["m2"]
    over = next(each for each in found if each.generation == 2 and not each.running)
    assert found.index(blocked) < found.index(over)


def test_stories_that_are_told_have_their_cost() -> None:
    capture = open_capture(str(DATA / "21_k430_java_eager_range.pcap.zst"))
    live = LiveGroups(
        capture, ExchangeReader(capture).knowledge, lambda _, each: found.append(each.generation)
    )
    found: list[int] = []
    made = rebalance(begin=10, end=13)
    live._news(timeline(made), made.end + groups_live.SETTLED - 1)
    assert found == []
    live._news(timeline(made), made.end + groups_live.SETTLED)
    live._news(timeline(made), made.end + groups_live.SETTLED)
    assert found == [2]


def test_a_group_that_counts_anew_is_told_anew() -> None:
    capture = open_capture(str(DATA / "21_k430_java_eager_range.pcap.zst"))
    found: list[int] = []
    live = LiveGroups(capture, ExchangeReader(capture).knowledge, lambda _, each: found.append(each.time))
    first, second = rebalance(begin=1, end=2), rebalance(begin=30, end=31)
    group: GroupTimeline = timeline(first)
    live._news(group, None)
    group.rebalances.append(second)
    live._news(group, None)
    assert found == [first.time, second.time]


@pytest.mark.slow
def test_the_program_follows_a_pipe() -> None:
    sample = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"
    command = [sys.executable, "-m", "kproxy", "groups", "--follow", "--json", "--group", "gr2-*", "-"]
    done = subprocess.run(
        command, input=sample.read_bytes(), capture_output=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0
    assert [json.loads(line)["generation"] for line in done.stdout.splitlines()] == [*range(1, 9)]
