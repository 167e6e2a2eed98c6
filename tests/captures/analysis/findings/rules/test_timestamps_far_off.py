"""Record timestamps far from the time of their Produce."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.batches import TimestampsFarOff
from tests.captures.analysis.findings.group_kit import of_exchanges
from tests.captures.analysis.findings.record_kit import MS, NOW, batch, of_recording, produce

HOUR, DAY = 3_600_000, 86_400_000


def at(time_ms: int) -> bytes:
    return batch(1, base_timestamp=time_ms, max_timestamp=time_ms)


def test_a_client_that_sends_no_time_at_all() -> None:
    (found,) = of_recording("25_k430_raw_acks0", TimestampsFarOff)
    assert (found.severity, found.count) == (Severity.LOW, 4)
    assert "1970-01-01 00:00:00 UTC, 56 years before it was captured." in found.sentence


def test_seconds_given_as_milliseconds() -> None:
    (found,) = of_exchanges(TimestampsFarOff, produce(at(NOW // MS // 1000), at(NOW // MS)))
    assert "1 of 2 batches" in found.sentence
    assert found.sentence.endswith("Seconds seem to be given as milliseconds.")


def test_the_future_is_nearer_than_the_past() -> None:
    now = NOW // MS
    (found,) = of_exchanges(TimestampsFarOff, produce(at(now + 3 * HOUR)))
    assert "far in the future" in found.sentence
    assert "3 hours after it was captured" in found.sentence
    assert of_exchanges(TimestampsFarOff, produce(at(now - 6 * DAY), at(now + HOUR), at(-1))) == []


def test_old_data_may_be_allowed() -> None:
    loaded = produce(at(NOW // MS - 30 * DAY))
    assert len(of_exchanges(TimestampsFarOff, loaded)) == 1
    assert of_exchanges(TimestampsFarOff, loaded, limits={"timestamps_far_off.past": 31.0 * DAY}) == []
