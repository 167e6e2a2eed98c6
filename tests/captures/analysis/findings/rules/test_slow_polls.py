"""Applications that poll too rarely."""

from __future__ import annotations

import re

import pytest

from captures.analysis.findings.rules.rebalances import SlowPolls
from captures.analysis.groups.model import Span
from captures.analysis.groups.vocabulary import Certainty, Phase
from tests.captures.analysis.findings.group_kit import of_recording, of_timelines
from tests.captures.analysis.groups.kit import at, member, timeline


def test_a_java_consumer_says_that_it_exceeded_the_interval() -> None:
    (found,) = of_recording("27_k391_java_maxpoll", SlowPolls)
    assert (found.subject, found.certainty) == (
        "group gr2-java_maxpoll, max.poll.interval.ms",
        Certainty.OBSERVED,
    )
    assert found.sentence.startswith("m2 left")
    assert "max.poll.interval.ms (6 s)" in found.sentence  # from its truth file


def test_librdkafka_gives_no_reason() -> None:
    (found,) = of_recording("21_k430_ck_maxpoll", SlowPolls)
    assert found.sentence.startswith("m2 left group gr2-ck_maxpoll once")
    assert found.certainty is not Certainty.OBSERVED


@pytest.mark.slow
def test_one_that_others_wait_for_is_named() -> None:
    (found,) = of_recording("21_k430_java_blocked_rebalance", SlowPolls)
    assert found.subject == "group gr2-java_blocked_rebalance, did not join"
    assert "12.7 s for m2:" in found.sentence  # m3 came at 744.9, m2 polled again at 757.6 (truth file)


def test_the_others_go_on_without_it() -> None:
    """m2 is stuck for 14 s; the rebalance timeout is 8 s (truth file)."""
    left_out, held_up = sorted(
        of_recording("41_k430_stuck", SlowPolls), key=lambda each: each.subject, reverse=True
    )
    assert left_out.subject == "group g-stuck, left out"
    assert left_out.sentence.startswith("Group g-stuck continued without m2 once:")
    assert "(8 s)" in left_out.sentence
    assert held_up.subject == "group g-stuck, did not join"
    waited = re.search(r"waited up to ([\d.]+) s for m2", held_up.sentence)
    assert waited is not None
    assert 6 < float(waited[1]) < 8.5


def test_what_is_not_given_up() -> None:
    """A topic was deleted; its commits fail, and they precede the revocation of partitions."""
    (found,) = of_recording("21_k430_kip848_regex_topicchange", SlowPolls)
    assert found.subject == "group gr2-kip848_regex_topicchange, did not give up"
    assert "2 members (m1, m2)" in found.sentence
    assert "commit_failures" in found.advice


def test_members_that_leave_in_order_are_not_slow() -> None:
    assert of_recording("21_k430_java_eager_range", SlowPolls) == []


def test_how_long_a_member_may_take_can_be_set() -> None:
    spans = [Span(at(10), at(14), Phase.NOT_JOINING, 1, 7), Span(at(14), at(15), Phase.JOINING, 2, 9)]
    told = timeline(members=[member("slow", spans=spans)])
    assert of_timelines(SlowPolls, told) == []
    (found,) = of_timelines(SlowPolls, told, limits={"slow_polls.held_up": 4_000})
    assert (found.evidence, found.first, found.last) == ((7,), at(10), at(14))
    assert found.thresholds == {"slow_polls.held_up": "4s"}
