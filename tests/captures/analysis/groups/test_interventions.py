"""Rebalances caused by kproxy name it; others do not."""

from __future__ import annotations

import pytest

from captures.analysis.groups.model import Rebalance
from captures.analysis.groups.vocabulary import Trigger
from captures.interventions import Intervention, Interventions
from tests.captures.analysis.groups.talk import Talk, one_member

HELD = Intervention(held_ns=20_000_000_000, delayed_ns=20_000_000_000, not_forwarded=True)
REFUSED = Intervention(
    rule="api == Heartbeat => error 25", action="answered with UNKNOWN_MEMBER_ID", not_forwarded=True
)
UNKNOWN_MEMBER_ID = 25


def told(talk: Talk) -> list[Rebalance]:
    return talk.timeline(until=60).rebalances


def silent(done: Intervention | None) -> Talk:
    """A member that falls silent after a heartbeat that may have been altered."""
    talk = one_member()
    beat = talk.beat("m1", 4, 1)
    if done is not None:
        beat.interventions = Interventions((done,))
        beat.kproxy_time = done.delayed_ns
    return talk


def rejoining(done: Intervention | None) -> Talk:
    """A member that a response tells it is not in the group, and that joins anew."""
    talk = one_member()
    beat = talk.beat("m1", 4, 1, error=UNKNOWN_MEMBER_ID)
    if done is not None:
        beat.interventions = Interventions((done,), (Intervention(answered=True),) if done.intervenes else ())
    again = talk.said[0].client
    talk.join("m1/2", 5, 6, 2, new=True, leader="m1/2", members=["m1/2"], client=again)
    return talk


def test_a_session_that_ends_while_a_heartbeat_is_held() -> None:
    assert told(silent(None))[-1].trigger is Trigger.SESSION_TIMEOUT
    last = told(silent(HELD))[-1]
    assert last.trigger is Trigger.KPROXY_INTERVENED
    assert last.cause.sentence.startswith("kproxy intervened in Heartbeat #")
    assert "held for 20" in last.cause.sentence
    assert last.sentence.startswith("kproxy intervened")


def test_a_member_that_was_refused_by_kproxy() -> None:
    assert Trigger.KPROXY_INTERVENED not in {each.trigger for each in told(rejoining(None))}
    again = told(rejoining(REFUSED))[1]
    assert again.trigger is Trigger.KPROXY_INTERVENED
    assert "answered with UNKNOWN_MEMBER_ID" in again.cause.sentence


@pytest.mark.parametrize("talk", [silent, rejoining])
def test_addresses_that_were_rewritten_cause_nothing(talk: object) -> None:
    rewritten = Intervention(unlisted=1)
    assert callable(talk)
    assert Trigger.KPROXY_INTERVENED not in {each.trigger for each in told(talk(rewritten))}


def test_interventions_that_are_not_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("kproxy intervened" in known for known in silent(HELD).timeline(until=60).seen)
    monkeypatch.setattr("captures.analysis.groups.interventions._MOST_KEPT", 0)
    timeline = silent(HELD).timeline(until=60)
    assert timeline.rebalances[-1].trigger is Trigger.SESSION_TIMEOUT
    assert any(known.startswith("kproxy intervened in 1 more calls than the 0") for known in timeline.seen)
