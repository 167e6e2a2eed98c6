"""Records redelivered by share groups: a recording with its members' own logs, and synthetic exchanges."""

from __future__ import annotations

from typing import Any

from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rules.fetches import RecordsRedelivered
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND
from tests.captures.analysis.findings.group_kit import of_exchanges, of_recording
from tests.captures.analysis.groups.truth import read
from tests.captures.analysis.kit import exchange

LOCK_MS = 5000


def test_a_recording_as_its_members_tell_it() -> None:
    """m2 took twice the lock duration, m3 was killed, and m1 closed, each holding one record."""
    name = "48_k430_share_slow"
    again = [event["data"] for event in read(name).events if event["what"] == "again"]
    assert [each.split()[0] for each in again] == ["t-share_slow-1", "t-share_slow-5", "t-share_slow-0"]
    found = {
        finding.subject.partition(", ")[2]: finding for finding in of_recording(name, RecordsRedelivered)
    }
    lock, gone = found["acquisition locks that ran out"], found["members that were gone"]
    assert len(found) == 2
    assert (lock.count, lock.severity) == (1, Severity.MEDIUM)
    assert lock.sentence == (
        "m2 held 1 record of t-share_slow-1 longer than the acquisition lock of 5 s: share group g-share_slow "
        "delivered it again, after up to 10 s; 1 acknowledgment came too late (INVALID_RECORD_STATE)."
    )
    assert gone.count == 2
    assert "(m1, m3) ended with 2 records of t-share_slow 0,5 unacknowledged" in gone.sentence


def shared(
    member: str, seconds: float, *acquired: tuple[int, int, int], released: tuple[int, int] | None = None
) -> Exchange:
    """A ShareFetch answered at a time with ranges of records and their delivery counts."""
    row: dict[str, Any] = {"partition_index": 0}
    acknowledged = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [2]}
    if released is not None:
        acknowledged |= {"first_offset": released[0], "last_offset": released[1]}
    of_request = row | {"acknowledgement_batches": [] if released is None else [acknowledged]}
    keys = "first_offset", "last_offset", "delivery_count"
    of_response = row | {"acquired_records": [dict(zip(keys, each, strict=True)) for each in acquired]}
    return exchange(
        ApiKey.SHARE_FETCH,
        2,
        request={
            "group_id": "g",
            "member_id": member,
            "topics": [{"topic_id": "T", "partitions": [of_request]}],
        },
        response={
            "acquisition_lock_timeout_ms": LOCK_MS,
            "responses": [{"topic_id": "T", "partitions": [of_response]}],
        },
        time=round(seconds * SECOND),
        latency=0,
        client_id=member,
        number=round(seconds * 10) + 1,
    )


def told(*exchanges: Exchange) -> Finding:
    (found,) = of_exchanges(RecordsRedelivered, *exchanges)
    return found


def test_a_lock_that_ran_out_names_who_held_it() -> None:
    found = told(shared("m1", 1, (5, 9, 1)), shared("m2", 6.1, (5, 7, 2)))
    assert found.sentence.startswith("m1 held 3 records of T-0 longer")


def test_records_that_are_released_did_not_run_out() -> None:
    found = told(shared("m1", 1, (5, 9, 1)), shared("m1", 2, released=(5, 9)), shared("m2", 8, (5, 9, 3)))
    assert (
        found.sentence == "m1 released 5 records of T-0: share group g delivered them again (3 deliveries)."
    )


def test_a_renewed_lock_begins_anew() -> None:
    renewing = shared("m1", 4, released=(5, 9))
    assert renewing.request is not None
    assert renewing.request.value is not None
    renewing.request.value["topics"][0]["partitions"][0]["acknowledgement_batches"][0][
        "acknowledge_types"
    ] = [4]
    found = told(shared("m1", 1, (5, 9, 1)), renewing, shared("m2", 7, (5, 9, 2)))
    assert "does not show who had them before" in found.sentence


def test_who_had_them_before_the_capture_is_not_known() -> None:
    found = told(shared("m1", 1, (5, 9, 2)))
    assert (found.certainty, found.count) == (Certainty.OBSERVED, 1)
    assert found.sentence.startswith("Share group g delivered 5 records of T-0 again;")


def test_a_poll_that_waited_longer_is_told_by_its_answer() -> None:
    """It was sent first and answered last."""
    waiting = shared("m2", 7, (5, 9, 2))
    found = told(waiting, shared("m1", 1, (5, 9, 1)))
    assert found.sentence.startswith("m1 held 5 records")


def test_first_deliveries_are_nothing_to_tell() -> None:
    assert not list(
        of_exchanges(RecordsRedelivered, shared("m1", 1, (5, 9, 1)), shared("m2", 2, (10, 12, 1)))
    )
