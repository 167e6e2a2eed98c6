"""Rebalances in plain words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from captures.analysis.groups.model import AwaitedMember, Move, Rebalance, TopicPartition, Wait
from captures.analysis.groups.vocabulary import Certainty, SessionEnd, TimeoutCause, Trigger
from captures.analysis.groups.words import compose, quoted_reason, timeout_in_words
from tests.captures.analysis.groups.kit import SECOND, at, cause, member, rebalance, timeline


def said(story: Rebalance) -> str:
    compose(timeline(story, members=[member("m1"), member("m2"), member("m3")]))
    return story.sentence


def test_reasons_are_quoted_and_clipped() -> None:
    assert quoted_reason("") == ""
    assert (
        quoted_reason("consumer poll timeout has expired.")
        == ' (it says: "consumer poll timeout has expired")'
    )
    assert "\x1b" not in quoted_reason("\x1b[31mred\n")
    assert len(quoted_reason("x" * 5_000)) < 200


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (None, "m2"),
        (SessionEnd(TimeoutCause.UNKNOWN), "m2"),
        (SessionEnd(TimeoutCause.PROCESS_DIED), "m2 died and"),
        (SessionEnd(TimeoutCause.PROCESS_PAUSED, Certainty.POSSIBLE), "m2 may have paused and"),
        (SessionEnd(TimeoutCause.UNREACHABLE), "m2 was unreachable (its host or the network was down) and"),
    ],
)
def test_a_timeout_begins_with_its_cause(end: SessionEnd | None, text: str) -> None:
    told = timeout_in_words("m2", 6 * SECOND, 6 * SECOND, end)
    assert told == f"{text} was removed after 6 s without a heartbeat, its session timeout"


def test_a_shutdown_says_when_the_member_came_back() -> None:
    end = SessionEnd(TimeoutCause.CLOSED_IN_ORDER)
    assert timeout_in_words("m2", 12_300_000_000, 12 * SECOND, end, 21 * SECOND, "a static member") == (
        "m2 was shut down without a LeaveGroup (a static member sends none) and was removed after 12.3 s without a "
        "heartbeat (session timeout 12 s); it came back after 21 s"
    )


def test_sessions_that_ended_alike_are_explained_once() -> None:
    ended = [
        cause(
            Trigger.SESSION_TIMEOUT,
            sentence=f"{who} was removed after 6 s without a heartbeat",
            member=f"{who}-id",
        )
        for who in ("m1", "m2")
    ]
    assert said(rebalance(causes=ended)) == (
        "m1 was removed after 6 s without a heartbeat; then the same happened to m2."
    )


def test_causes_come_in_their_order() -> None:
    causes = [cause(sentence=f"m{number} joined", member=f"m{number}-id") for number in range(1, 6)]
    assert said(rebalance(causes=causes)) == "m1 joined; then m2 joined; then m3 joined; and 2 more causes."


def test_second_rounds_are_explained_once() -> None:
    causes = [
        cause(Trigger.COOPERATIVE_FOLLOW_UP, sentence=f"{name} gave up", member=f"{name}-id")
        for name in ("m1", "m2")
    ]
    assert said(rebalance(causes=causes)) == "m1 gave up; then m2 did the same."


def test_who_kept_the_others_waiting() -> None:
    waits = [
        Wait("m1-id", "m1", notified=SECOND // 2, asked=13 * SECOND, join=1),
        Wait("m2-id", "m2", notified=0, asked=0, join=13 * SECOND),
    ]
    assert said(rebalance(waits=waits)) == (
        "m2 joined. The others waited 13 s for m1, which joined 12.5 s after it learned of the rebalance."
    )


def test_who_learnt_of_it_late_is_not_blamed() -> None:
    waits = [
        Wait("m1-id", "m1", notified=2 * SECOND, asked=2 * SECOND + 1, join=1),
        Wait("m2-id", "m2", notified=0, asked=0, join=2 * SECOND),
    ]
    assert said(rebalance(waits=waits)) == (
        "m2 joined. The others waited 2 s for m1, which learned of the rebalance from its next heartbeat "
        "(heartbeat.interval.ms)."
    )
    unseen = [Wait("m1-id", "m1", asked=2 * SECOND, join=1), waits[1]]
    assert (
        said(rebalance(waits=unseen)) == "m2 joined. m1 was the last to join, 2 s after the rebalance began."
    )


def test_who_left_in_the_middle_was_waited_for() -> None:
    left = cause(Trigger.MEMBER_LEFT, sentence="m3 left", member="m3-id", time=at(14))
    assert said(rebalance(causes=[cause(), left])) == (
        "m2 joined; then m3 left. The others waited 4 s until m3 left."
    )
    slower = [
        Wait("m1-id", "m1", notified=SECOND, asked=9 * SECOND, join=1),
        Wait("m2-id", "m2", notified=0, asked=0, join=9 * SECOND),
    ]
    assert "m1, which joined 8 s after it learned" in said(rebalance(causes=[cause(), left], waits=slower))


def test_a_group_with_members_that_are_gone_was_not_empty() -> None:
    waits = [Wait("m1-id", "m1", notified=0, asked=0, join=4 * SECOND)]
    found = rebalance(waits=waits, members=["m1-id"], joined=["m1-id"], gone=["m0-id"])
    assert "for more members" not in said(found)


def test_a_group_that_was_empty_waits_for_more() -> None:
    waits = [
        Wait("m1-id", "m1", notified=0, asked=0, join=6 * SECOND),
        Wait("m2-id", "m2", notified=2 * SECOND, asked=2 * SECOND, join=4 * SECOND),
    ]
    members = ["m1-id", "m2-id"]
    assert said(rebalance(waits=waits, members=members, joined=members)) == (
        "m2 joined. The coordinator waited 4 s for more members (group.initial.rebalance.delay.ms)."
    )
    assert "for more members" not in said(rebalance(waits=waits, members=members, joined=["m2-id"]))


def test_who_was_silent_kept_the_others_waiting() -> None:
    gone = cause(Trigger.SESSION_TIMEOUT, sentence="m3 was removed", member="m3-id", time=at(14))
    assert said(rebalance(causes=[cause(), gone])) == (
        "m2 joined; then m3 was removed. The others waited 4 s until m3 was removed."
    )


def test_partitions_are_taken_over_or_just_given() -> None:
    first = [Move(TopicPartition("orders", index), "", "m1-id") for index in range(3)]
    assert said(rebalance(moved=first)) == "m2 joined. m1 got orders 0-2."
    later = [
        Move(TopicPartition("orders", 0), "m1-id", "m2-id"),
        Move(TopicPartition("orders", 2), "m3-id", "m2-id"),
    ]
    assert said(rebalance(moved=later)) == "m2 joined. m2 took over orders 0,2."
    assert said(rebalance(moved=[Move(TopicPartition("orders", 0), "m1-id", "")])) == "m2 joined."


def test_a_group_without_members() -> None:
    assert (
        said(rebalance(emptied=True, causes=[cause(sentence="m2 left")]))
        == "m2 left. The group has no members left."
    )


def test_a_rebalance_that_goes_on() -> None:
    awaited = [AwaitedMember("m1-id", "m1", at(10), 12), AwaitedMember("m3-id", "m3", at(10))]
    assert said(rebalance(running=True, end=None, awaited=awaited)) == (
        "m2 joined. This rebalance has not ended: the coordinator waits for m1, which still sends heartbeats "
        "(12 since) but does not join, and for m3."
    )
    assert said(rebalance(running=True, end=None)) == "m2 joined. This rebalance has not ended."


@pytest.mark.slow
def test_every_module_can_be_imported_first() -> None:
    # each in a separate process, forked before any of them is imported
    script = (
        "import os, pkgutil, importlib, sys\n"
        "import captures.analysis, numpy\n"
        "folder = os.path.join(os.path.dirname(captures.analysis.__file__), 'groups')\n"
        "for module in pkgutil.walk_packages([folder], 'captures.analysis.groups.'):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        importlib.import_module(module.name)\n"
        "        os._exit(0)\n"
        "    if os.waitpid(child, 0)[1]:\n"
        "        sys.exit(f'{module.name} cannot be imported first')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
