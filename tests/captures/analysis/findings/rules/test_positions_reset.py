"""Consumers whose position was set by ``auto.offset.reset``."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.positions import PositionsReset
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import (
    NOW,
    SECOND,
    commit,
    fetch,
    list_offsets,
    made,
    of_recording,
    offset_fetch,
)

LATEST, EARLIEST = -1, -2


# ---------------------------------------------------------------- out of range
def test_a_position_behind_the_end() -> None:
    (found,) = of_recording("25_k430_ck_unknown", PositionsReset)
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (47,))
    assert (
        "continued at the end (auto.offset.reset=latest): its position lay beyond the end" in found.sentence
    )
    assert found.sentence.endswith("(errs-0 from 999,999 to 0).")


def test_records_that_retention_removed() -> None:
    (found,) = of_exchanges(
        PositionsReset,
        fetch(offset=100, end=900, begin=80, number=1),
        fetch(offset=120, error=1, begin=400, number=2),
        list_offsets(EARLIEST, 400, number=3),
        fetch(offset=400, end=900, begin=400, number=4),
    )
    assert (found.severity, found.certainty, found.evidence) == (Severity.HIGH, Certainty.INFERRED, (2,))
    assert found.subject == "client app, topic orders, out of range, earliest"
    assert (
        "280 offsets skipped, 280 of them removed from the log before they were read (orders-0 from 120 to 400)"
        in found.sentence
    )


def test_more_is_skipped_than_was_removed() -> None:
    (found,) = of_exchanges(
        PositionsReset,
        fetch(offset=120, error=1, begin=400),
        list_offsets(LATEST, 900),
        fetch(offset=900, end=900),
    )
    assert "780 offsets skipped, 280 of them removed" in found.sentence


def test_all_is_read_again() -> None:
    (found,) = of_exchanges(
        PositionsReset, fetch(offset=5_000, error=1), list_offsets(EARLIEST, 0), fetch(offset=0, end=700)
    )
    assert found.severity is Severity.HIGH
    assert "beyond the end of the log, and the whole log is read again" in found.sentence


def test_a_consumer_that_does_not_go_on() -> None:
    first, again = fetch(offset=5_000, error=1, number=1), fetch(offset=5_000, error=1, number=2)
    assert of_exchanges(PositionsReset, first, again) == []  # it may reset again soon
    again.time += 2 * SECOND
    (found,) = of_exchanges(PositionsReset, first, again)
    assert (found.severity, found.evidence) == (Severity.MEDIUM, (1,))
    assert "has not continued from another" in found.sentence


def test_another_replica_has_it() -> None:
    follower, leader = fetch(offset=5_000, error=1), fetch(offset=5_000, end=5_010, connection=1)
    later = fetch(offset=5_010, end=5_010, connection=1, time=NOW + 2 * SECOND)
    assert of_exchanges(PositionsReset, follower, leader, later) == []


def test_a_consumer_that_seeks_itself() -> None:
    out_of_range = fetch(offset=5_000, error=1)
    assert of_exchanges(PositionsReset, out_of_range, fetch(offset=17)) == []
    assert of_exchanges(PositionsReset, out_of_range, list_offsets(EARLIEST, 3), fetch(offset=17)) == []


def test_positions_within_a_session() -> None:
    """An incremental Fetch also fetches partitions that it does not name (KIP-227)."""
    opened = fetch(offset=120, end=900)
    assert opened.request is not None
    assert opened.response is not None
    opened.request.value.update(session_id=0, session_epoch=0)
    opened.response.value["session_id"] = 77
    again = fetch(error=1, begin=400)
    assert again.request is not None
    again.request.value.update(session_id=77, session_epoch=1, topics=[])
    (found,) = of_exchanges(PositionsReset, opened, again, list_offsets(EARLIEST, 400), fetch(offset=400))
    assert "from 120 to 400" in found.sentence


# ---------------------------------------------------------------- no commit
def test_a_new_group_is_no_trouble() -> None:
    (found,) = of_recording("20_k430_java_none", PositionsReset)
    assert found.severity is Severity.INFO
    assert found.sentence == (
        "Group g-qc-java-none (java-none) has no committed offset for qc-java-none 0-2 and continued at the beginning "
        "(auto.offset.reset=earliest)."
    )


def test_a_new_group_of_many_members_and_topics_is_one_finding() -> None:
    exchanges = [
        each
        for number in range(30)
        for topic in (f"t{number}",)
        for each in (
            offset_fetch(-1, topic=topic, client_id=f"m{number % 5}", number=number + 1),
            list_offsets(EARLIEST, 0, topic=topic, client_id=f"m{number % 5}"),
            fetch(topic=topic, end=9, begin=0, client_id=f"m{number % 5}"),
        )
    ]
    (found,) = of_exchanges(PositionsReset, *exchanges)
    assert (found.severity, found.count) == (Severity.INFO, 30)
    assert found.sentence.startswith(
        "Group audit (m0, m1, m2 and 2 more) has no committed offset for t0-0 +29 topics"
    )
    assert (found.evidence[0], found.evidence[-1]) == (1, 30)


def test_a_new_group_at_the_end_skips_what_is_there() -> None:
    (found,) = of_exchanges(
        PositionsReset,
        offset_fetch(-1),
        list_offsets(LATEST, 900),
        fetch(offset=900, end=900, begin=300),
    )
    assert (found.severity, found.subject) == (
        Severity.LOW,
        "group audit, no commit, latest",
    )
    assert "600 offsets skipped (orders-0 begins at 300, and it at 900)" in found.sentence


def test_an_empty_topic_holds_nothing_to_skip() -> None:
    (found,) = of_exchanges(
        PositionsReset, offset_fetch(-1), list_offsets(LATEST, 300), fetch(offset=300, end=300, begin=300)
    )
    assert found.severity is Severity.INFO
    assert "skipped" not in found.sentence


def test_some_partitions_have_no_commit() -> None:
    (found,) = of_exchanges(
        PositionsReset,
        offset_fetch(-1, 40),
        list_offsets(LATEST, 900),
        fetch(offset=900, end=900, begin=0),
    )
    assert (found.severity, "no commit for some" in found.subject) == (Severity.LOW, True)
    assert "has no committed offset for orders-0, but for other partitions, and" in found.sentence


def test_a_partition_that_was_added() -> None:
    def metadata(count: int) -> Exchange:
        partitions = [{"partition_index": at, "error_code": 0} for at in range(count)]
        return made(3, 9, {}, {"topics": [{"error_code": 0, "name": "orders", "partitions": partitions}]})

    reads = (
        offset_fetch(40, -1),
        list_offsets(LATEST, 900, partition=1),
        fetch(offset=900, begin=0, partition=1),
    )
    (added,) = of_exchanges(PositionsReset, metadata(1), metadata(2), *reads)
    assert (added.severity, "new partition" in added.subject) == (Severity.MEDIUM, True)
    assert "900 offsets skipped" in added.sentence
    (old,) = of_exchanges(PositionsReset, metadata(2), *reads)
    assert old.severity is Severity.LOW


def test_a_group_that_could_not_be_read_has_not_lost_its_commits() -> None:
    failed = offset_fetch(-1)
    assert failed.response is not None
    failed.response.value["error_code"] = 16
    assert of_exchanges(PositionsReset, failed, list_offsets(EARLIEST, 0), fetch(offset=0)) == []


def test_a_commit_that_was_there_before() -> None:
    (found,) = of_exchanges(
        PositionsReset,
        commit(700),
        offset_fetch(-1, client_id="next", number=2),
        list_offsets(EARLIEST, 0, client_id="next"),
        fetch(offset=0, end=900, begin=0, client_id="next"),
    )
    assert (found.severity, found.evidence) == (Severity.HIGH, (2,))
    assert "has no committed offset for orders-0 any more" in found.sentence
    assert "700 offsets read again" in found.sentence


def test_who_only_asks_is_no_consumer() -> None:
    """Tools request committed and end offsets to compute the lag."""
    assert of_exchanges(PositionsReset, offset_fetch(-1), list_offsets(LATEST, 900)) == []
    follower = fetch(offset=900, replica=2)
    assert of_exchanges(PositionsReset, offset_fetch(-1), list_offsets(LATEST, 900), follower) == []
    other = fetch(offset=900, client="10.0.0.7:5000")
    assert of_exchanges(PositionsReset, offset_fetch(-1), list_offsets(LATEST, 900), other) == []
