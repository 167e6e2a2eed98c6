"""Connections closed by the broker, and unanswered requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rule import RuleContext
from captures.analysis.findings.rules.connections import ClosedByBroker
from captures.analysis.findings.rules.responses import UnansweredRequests
from captures.analysis.findings.rules.versions import UnsupportedVersions
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import ExchangeReader, Flag, open_capture
from captures.packets import ACK, FIN
from tests.captures.analysis.findings.cluster_kit import (
    MS,
    Conversation,
    capture_of,
    of_capture,
    of_recording,
)
from tests.captures.packets.kit import pcap
from tests.dissectors.conversation import streams

ASKED = streams.request(1, b"\0\0\0\0", key=3, version=1, client_id="app")  # Metadata v1 without topics
ANSWERED = streams.response(1, b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")  # no brokers, controller 1, no topics


def unanswered(
    quiet: int, *, by_client: bool | None = None, key: int = 3, body: bytes = b"\0\0\0\0"
) -> Conversation:
    """A connection whose second request is not answered; it ends after this many ms."""
    made = Conversation()
    made.handshake()
    made.send(0, ASKED)
    made.send(0, ANSWERED, ack=len(ASKED), from_client=False)
    last = streams.request(2, body, key=key, version=1, client_id="app")
    made.send(len(ASKED), last, ack=len(ANSWERED))
    made.now += quiet * MS
    if by_client is None:
        made.acknowledge(len(ASKED) + len(last), position=len(ANSWERED))
    elif by_client:
        made.put(True, len(ASKED) + len(last), len(ANSWERED), FIN | ACK)
    else:
        made.put(False, len(ANSWERED), len(ASKED) + len(last), FIN | ACK)
    return made


def test_idle_connections_are_closed_without_harm() -> None:
    # connections.max.idle.ms=8000; one ApiVersions, then nothing
    (found,) = of_recording("25_k430_idle_close", ClosedByBroker)
    assert found.severity == Severity.INFO
    assert "the connection was idle for 8.1 s" in found.sentence


def test_acks_0_fails_without_a_word() -> None:
    # two Produce requests with acks=0 that the broker could not accept
    (found,) = of_recording("25_k430_raw_acks0", ClosedByBroker)
    assert (found.severity, found.count, found.evidence) == (Severity.HIGH, 2, (1, 2))
    assert "acks=0" in found.sentence


def test_clients_without_sasl_on_a_sasl_listener() -> None:
    (found,) = of_recording("24_k430_ck_plaintext_to_sasl", ClosedByBroker)
    assert (found.severity, found.certainty, found.count) == (Severity.HIGH, Certainty.POSSIBLE, 6)
    assert found.subject.endswith("the client did not authenticate")
    assert "Metadata v13" in found.sentence


def test_a_broker_that_is_killed_is_told_from_one_that_closes() -> None:
    (found,) = of_recording("25_k430_broker_sigkill", ClosedByBroker)
    assert (found.subject, found.count) == ("broker 127.0.0.1:10421, the broker stopped", 3)


def test_a_broker_that_is_killed_under_a_handshake_knows_its_versions() -> None:
    # one of three brokers is killed while a client connects to it
    (found,) = of_recording("41_k430_coordinator_killed", ClosedByBroker)
    assert found.subject.endswith("the broker stopped")
    assert not of_recording("41_k430_coordinator_killed", UnsupportedVersions)


def test_refused_logins_are_another_rules_matter() -> None:
    assert not of_recording("24_k430_java_oauth_expired", ClosedByBroker)
    assert not [
        each for each in of_recording("32_k0102_errors", ClosedByBroker) if each.severity > Severity.INFO
    ]


def test_the_request_before_is_named(tmp_path: Path) -> None:
    conversation = unanswered(10, by_client=False)
    (found,) = of_capture(capture_of(tmp_path, conversation.records), ClosedByBroker)
    assert found.severity == Severity.MEDIUM
    assert found.sentence.endswith("a request stayed unanswered. The request before: Metadata v1 of 21 B.")
    assert found.evidence == (2,)


def test_clients_that_close_are_not_found(tmp_path: Path) -> None:
    assert not of_capture(capture_of(tmp_path, unanswered(10, by_client=True).records), ClosedByBroker)


def test_a_broker_that_keeps_silent() -> None:
    # Kafka 0.9.0.1 keeps the connection open after an unknown API or version; clients gave up after 5 s
    by_client = {
        found.subject.split(",")[0]: found for found in of_recording("31_k0901_errors", UnansweredRequests)
    }
    assert set(by_client) == {"client raw", "client ver", "client ck-none"}
    assert by_client["client ver"].count == 11
    assert "until the client closed the connection" in by_client["client ck-none"].sentence
    assert not of_recording("31_k0901_errors", UnansweredRequests, longest=8_000)


@pytest.mark.parametrize(
    ("quiet", "by_client", "found"),
    [(4_000, None, False), (6_000, None, True), (6_000, True, True), (6_000, False, False)],
)
def test_how_long_and_who_ended_it_counts(
    tmp_path: Path, quiet: int, by_client: bool | None, found: bool
) -> None:
    capture = capture_of(tmp_path, unanswered(quiet, by_client=by_client).records)
    assert bool(of_capture(capture, UnansweredRequests)) == found


def test_what_waits_by_design_may_wait(tmp_path: Path) -> None:
    # Fetch v1: replica -1, max_wait_ms 9000, min_bytes 1, no topics
    body = b"\xff\xff\xff\xff" + (9_000).to_bytes(4, "big") + b"\0\0\0\1" + b"\0\0\0\0"
    for quiet, found in ((10_000, False), (16_000, True)):
        capture = capture_of(tmp_path, unanswered(quiet, key=1, body=body).records)
        assert bool(of_capture(capture, UnansweredRequests)) == found


def test_an_admin_client_says_how_long_it_waits(tmp_path: Path) -> None:
    # DeleteTopics v1: no names, timeout_ms 9000
    body = b"\0\0\0\0" + (9_000).to_bytes(4, "big")
    for quiet, found in ((10_000, False), (16_000, True)):
        capture = capture_of(tmp_path, unanswered(quiet, key=20, body=body).records)
        assert bool(of_capture(capture, UnansweredRequests)) == found


def test_polls_that_clients_cut_off_are_no_trouble() -> None:
    for name in ("20_k430_franz_none", "21_k430_java_eager_range", "21_k430_java_blocked_rebalance"):
        assert not of_recording(name, UnansweredRequests)


def test_requests_in_flight_of_a_capture_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "live.pcap"
    path.write_bytes(pcap(list(unanswered(9_000).records), nano=True))
    capture = open_capture(str(path))
    updates = capture.updates()
    next(updates)  # so far only this was read, not the end of the capture
    rule = UnansweredRequests(RuleContext(capture=capture, names=lambda _: None, timelines=list))
    (found,) = rule.findings()
    assert found.sentence == (
        "A request of app to 10.0.0.2:9092 (Metadata) got no answer for 9 s, and the connection is still open."
    )
    assert (found.count, found.evidence) == (1, ())
    list(updates)
    assert not list(rule.findings())  # now it is an exchange, which the rule has not seen


def test_answers_that_are_missing_in_the_capture_are_none_of_the_brokers(tmp_path: Path) -> None:
    made, sent, received = Conversation(), 0, 0
    made.handshake()
    for number in range(3):
        request = streams.request(number, b"\0\0\0\0", key=3, version=1, client_id="app")
        response = streams.response(number, b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0")
        made.send(sent, request, ack=received)
        sent += len(request)
        made.send(received, response, ack=sent, from_client=False)
        received += len(response)
    made.now += 9_000 * MS
    made.put(False, received, sent, FIN | ACK)
    del made.records[6]  # the response to the second request
    capture = capture_of(tmp_path, made.records)
    flags = [each.flag for each in ExchangeReader(capture)]
    assert flags == [Flag(0), Flag.NOT_RECORDED, Flag.RESYNCHRONISED]
    assert not of_capture(capture, UnansweredRequests)
    (found,) = of_capture(capture, ClosedByBroker)
    assert found.severity == Severity.INFO  # idle


def test_where_no_broker_is_heard_it_is_blind(tmp_path: Path) -> None:
    whole = unanswered(9_000)
    mine = [record for record in whole.records if record.frame[26:30] == bytes([10, 0, 0, 1])]
    capture = capture_of(tmp_path, mine)
    rule = UnansweredRequests(RuleContext(capture=capture, names=lambda _: None, timelines=list))
    for exchange in ExchangeReader(capture):
        rule.add(exchange)
    assert not list(rule.findings())
    assert rule.blind() == "only packets of one direction were captured"


def test_a_request_waits_until_its_file_ends_not_until_that_of_another_day(tmp_path: Path) -> None:
    short, long, later = unanswered(3_000), unanswered(9_000), Conversation(client=("10.0.0.9", 40_000))
    later.now += 86_400_000 * MS
    later.handshake()
    for first, waited in ((short, None), (long, "for 9 s,")):
        paths = [tmp_path / "first.pcap", tmp_path / "later.pcap"]
        for path, made in zip(paths, (first, later), strict=True):
            path.write_bytes(pcap(made.records))
        capture = open_capture([*map(str, paths)])
        capture.read()
        found = of_capture(capture, UnansweredRequests)
        assert [each.sentence for each in found if waited is None or waited not in each.sentence] == []
        assert bool(found) == bool(waited)
