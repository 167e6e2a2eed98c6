"""Old message formats, and the conversions that brokers do for clients that use them."""

from __future__ import annotations

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.versions import DownConversion, OldMessageFormats
from captures.analysis.groups.vocabulary import Certainty
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import batch, fetch, of_recording, produce
from tests.captures.analysis.findings.record_kit import made as exchange

V0, V1, V2 = batch(1, magic=0), batch(1, magic=1), batch(1)


def test_an_old_producer_and_an_old_consumer() -> None:
    found = of_recording("31_k0901_java_compacted_ts", OldMessageFormats)
    assert [(each.subject, each.severity) for each in found] == [
        ("Produce", Severity.LOW),
        ("Fetch", Severity.LOW),
    ]
    assert found[0].sentence == (
        "java-none, java-gzip send messages of magic 0 to compacted, with Produce v1."
    )


def test_a_broker_that_knows_no_newer_version_is_no_fault_of_its_clients() -> None:
    keys = [{"api_key": 0, "min_version": 0, "max_version": 2}]
    offered = exchange(18, 0, {}, {"error_code": 0, "api_keys": keys})
    (found,) = of_exchanges(OldMessageFormats, offered, produce(V1, version=2))
    assert (found.subject, found.severity) == ("Produce, old broker", Severity.INFO)
    keys[0]["max_version"] = 9
    (found,) = of_exchanges(OldMessageFormats, offered, produce(V1, version=2))
    assert (found.subject, found.severity) == ("Produce", Severity.LOW)


def test_brokers_copy_what_is_there() -> None:
    assert of_exchanges(OldMessageFormats, fetch(V1, version=3, replica=2)) == []
    both = produce(V1, V0 + V1, version=2)
    (found,) = of_exchanges(OldMessageFormats, both)
    assert (found.count, "magic 0 and 1" in found.sentence) == (1, True)


def test_what_lies_in_the_log_in_an_old_format() -> None:
    (found,) = of_exchanges(OldMessageFormats, fetch(V1, version=11), fetch(V2, topic="new"))
    assert "the log contains them" in found.sentence
    assert "message.format.version" in found.advice
    assert of_recording("20_k430_java_none", OldMessageFormats) == []


def test_a_broker_that_converts() -> None:
    (found,) = of_recording("33_k0110_partial", DownConversion)
    assert found.sentence.startswith(
        "The broker converts d-none from magic 2 to magic 1 for client raw, which uses Fetch v3"
    )
    assert (found.severity, found.certainty) == (Severity.LOW, Certainty.INFERRED)


def test_the_format_in_the_log_shows_by_what_others_get_or_send() -> None:
    old = fetch(V1, version=2, client_id="old", number=1)
    for told in (fetch(V2, version=11, number=2), produce(V2, number=2)):
        (found,) = of_exchanges(DownConversion, old, told)
        assert (found.subject, found.evidence) == ("client old, topic orders", (1,))
    refused = produce(V2, error=10)
    unknown = made(DownConversion, exchanges=[old, refused])
    assert list(unknown.findings()) == []
    assert unknown.blind().endswith("with a Fetch before v4: orders")
    assert of_exchanges(DownConversion, fetch(V0, version=1), produce(V1, version=2))


def test_what_the_broker_cannot_or_will_not_convert() -> None:
    found = of_exchanges(
        DownConversion,
        fetch(error=-1, version=3, number=1),
        fetch(error=35, version=3, number=2),
        fetch(error=76, version=9, number=3),
        fetch(error=-1, version=4, number=4),
        fetch(error=76, version=10, number=5),
        fetch(error=6, version=3, number=6),
    )
    assert [each.evidence for each in found] == [(1,), (2,), (3,)]
    assert {each.severity for each in found} == {Severity.HIGH}
    assert found[0].certainty is Certainty.POSSIBLE
    assert "zstd" in found[2].advice
