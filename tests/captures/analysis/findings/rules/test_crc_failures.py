"""Record batches whose checksum does not match their bytes."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.batches import CrcFailures
from captures.exchanges import Flag
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import batch, fetch, of_recording, produce


def damaged(data: bytes) -> bytes:
    """Change the last byte of a batch: the header count of its last record."""
    return data[:-1] + bytes([data[-1] ^ 0x40])


def test_a_raw_client_that_sends_wrong_checksums() -> None:
    (found,) = of_recording("25_k430_raw_acks0", CrcFailures)
    assert (found.severity, found.count, found.evidence) == (Severity.HIGH, 4, (2, 3, 4, 5))
    assert found.sentence.startswith("Client raw sent 4 record batches of flt (partition 0)")


def test_what_is_fetched_damaged_is_told_apart_from_what_is_sent() -> None:
    sound, broken = batch(3), damaged(batch(3))
    found = of_exchanges(
        CrcFailures,
        produce(sound, broken, number=1),
        produce(sound, number=2),
        fetch(broken, number=3),
        fetch(sound + damaged(batch(1, magic=1)), topic="old", version=3, number=4),
    )
    assert [(each.subject, each.evidence) for each in found] == [
        ("client app, topic orders, Produce", (1,)),
        ("client app, topic orders, Fetch", (3,)),
        ("client app, topic old, Fetch", (4,)),
    ]
    assert "(partition 1)" in found[0].sentence
    assert "disk" in found[1].advice


def test_bytes_that_the_capture_lacks_are_no_damage() -> None:
    lacking = [
        produce(damaged(batch(2)), flag=Flag.REQUEST_DAMAGED),
        fetch(damaged(batch(2)), flag=Flag.RESPONSE_DAMAGED),
    ]
    rule = made(CrcFailures, exchanges=lacking)
    assert list(rule.findings()) == []
    assert rule.blind().startswith("2 messages with records lack bytes")
    assert made(CrcFailures, exchanges=[produce(batch(2))]).blind() == ""


def test_batches_cut_off_by_the_size_of_a_fetch_are_no_damage() -> None:
    assert of_exchanges(CrcFailures, fetch(batch(2) + batch(5)[:-3])) == []
