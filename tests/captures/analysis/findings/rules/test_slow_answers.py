"""Slow responses: quotas, brokers, the network, and packets lost by the capture itself."""

from __future__ import annotations

from pathlib import Path

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.network import CaptureLosses, TcpTrouble
from captures.analysis.findings.rules.responses import SlowBroker, ThrottledClients
from captures.exchanges import Exchange, open_capture
from captures.interventions import TcpSample
from captures.packets import ACK, PSH
from tests.captures.analysis.findings.cluster_kit import (
    MS,
    SECOND,
    Conversation,
    capture_of,
    of_capture,
    of_exchanges,
    of_recording,
    spoken,
)
from tests.captures.exchanges.proxied import Recording, metadata
from tests.dissectors.conversation import streams

PRODUCE, FETCH, CREATE_TOPICS, HEARTBEAT = 0, 1, 19, 12


# ---------------------------------------------------------------- quotas
def test_which_quota_and_how_long() -> None:
    # producer_byte_rate=20000, consumer_byte_rate=30000
    produced, fetched = sorted(
        of_recording("25_k430_quota_java", ThrottledClients), key=lambda found: found.subject
    )[::-1]
    assert (produced.subject, produced.severity) == ("client java-none, Produce", Severity.MEDIUM)
    assert "3 of 7 Produce responses throttled java-none, for up to 3 s, 6.5 s in all" in produced.sentence
    assert "producer_byte_rate" in produced.sentence
    assert "consumer_byte_rate" in fetched.sentence
    assert all(
        each.severity == Severity.LOW
        for each in of_recording("25_k430_quota_java", ThrottledClients, longest=5_000)
    )


def test_throttle_times_that_the_broker_does_not_keep() -> None:
    # a mock broker announces 1,179 s in ApiVersions, and answers the next request at once
    (found,) = of_recording("01_mock_java_throttle_bug", ThrottledClients)
    assert found.severity == Severity.LOW
    assert "the broker kept answering within that time" in found.sentence


def test_held_answers_of_old_brokers_are_waited_for() -> None:
    held = spoken(PRODUCE, 2, {}, {"throttle_time_ms": 1_500}, latency=1_500 * MS)
    (found,) = of_exchanges(ThrottledClients, held)
    assert found.severity == Severity.MEDIUM


def test_controller_mutations_have_their_own_quota() -> None:
    (found,) = of_exchanges(ThrottledClients, spoken(CREATE_TOPICS, 6, {}, {"throttle_time_ms": 9}))
    assert "controller_mutation_rate" in found.sentence


# ---------------------------------------------------------------- the broker
def heartbeats(slow: int, quick: int) -> list[Exchange]:
    latencies = [800 * MS] * slow + [MS] * quick
    return [
        spoken(HEARTBEAT, 4, {}, {"error_code": 0}, number=number, time=number * SECOND, latency=latency)
        for number, latency in enumerate(latencies, 1)
    ]


def test_a_broker_that_answers_late() -> None:
    (found,) = of_exchanges(SlowBroker, *heartbeats(6, 94))
    assert found.sentence.startswith(
        "6 of 100 Heartbeat answers of 10.0.0.1:9092 took longer than 500 ms (6%)"
    )
    assert found.evidence == (1, 2, 3, 4, 5, 6)
    assert not of_exchanges(SlowBroker, *heartbeats(5, 95))
    assert not of_exchanges(SlowBroker, *heartbeats(4, 0))
    assert not of_exchanges(SlowBroker, *heartbeats(6, 94), limits={"slow_broker.latency": 800})


def test_what_waits_by_design_is_not_slow() -> None:
    polls = [
        spoken(FETCH, 12, {}, {}, number=number, latency=900 * MS, wait=890 * MS, time=number * SECOND)
        for number in range(50)
    ]
    assert not of_exchanges(SlowBroker, *polls)
    # nor pauses of a throttled connection (KIP-219)
    assert not of_recording("25_k430_quota_java", SlowBroker)
    # rebalance rounds that wait for a member
    assert not of_recording("21_k430_java_blocked_rebalance", SlowBroker)


def test_what_is_answered_when_it_is_done_is_not_slow() -> None:
    deleted = [
        spoken(21, 2, {}, {}, number=number, latency=900 * MS, time=number * SECOND) for number in range(50)
    ]
    assert not of_exchanges(SlowBroker, *deleted)


def test_what_waits_behind_a_long_poll_is_not_slow() -> None:
    # librdkafka and the Java client ask a broker they fetch from; two brokers of this recording were healthy
    assert not of_recording("41_k430_coordinator_away", SlowBroker)
    poll = spoken(FETCH, 12, {}, {}, number=1, time=SECOND, latency=900 * MS, wait=890 * MS)
    behind = [
        spoken(HEARTBEAT, 4, {}, {}, number=number, time=SECOND + number, latency=901 * MS)
        for number in range(2, 20)
    ]
    assert not of_exchanges(SlowBroker, poll, *behind)
    assert of_exchanges(SlowBroker, *behind)


def test_acks_all_waits_for_a_follower_that_is_stopped() -> None:
    found = of_recording("26_k430_broker_sigstop_clients", SlowBroker)
    assert {each.subject for each in found} == {f"broker 127.0.0.1:1129{each}, Produce" for each in (1, 2, 3)}
    assert all("slow_followers" in each.advice for each in found)


# ---------------------------------------------------------------- the network
ASKED = [streams.request(number, b"\0\0\0\0", key=3, version=1, client_id="app") for number in range(200)]
ANSWERED = [streams.response(number, b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\0") for number in range(200)]


def talk(*, again: int = 0, window: int = 64_000, trip: int = 1) -> Conversation:
    """A connection with 200 exchanges, whose first requests are retransmitted; all packets have the client's window."""
    made = Conversation()
    made.handshake()
    made.records[0].time -= (trip - 1) * MS
    sent = received = 0
    for number, (request, response) in enumerate(zip(ASKED, ANSWERED, strict=True)):
        made.put(True, sent, received, PSH | ACK, request, window=window)
        if number < again:
            made.send(sent, request, ack=received)
        sent += len(request)
        made.send(received, response, ack=sent, from_client=False)
        received += len(response)
    return made


def test_segments_that_are_sent_again(tmp_path: Path) -> None:
    (found,) = of_capture(capture_of(tmp_path, talk(again=60).records), TcpTrouble)
    assert (found.severity, found.subject) == (Severity.MEDIUM, "network 10.0.0.1 to 10.0.0.2:9092, loss")
    assert found.connections == (0,)
    for few in (0, 15):
        assert not of_capture(capture_of(tmp_path, talk(again=few).records), TcpTrouble)


def test_a_receiver_that_takes_nothing(tmp_path: Path) -> None:
    (found,) = of_capture(capture_of(tmp_path, talk(window=0).records), TcpTrouble)
    assert found.subject == "network 10.0.0.2:9092 to 10.0.0.1, window"
    assert "10.0.0.1 announced 200 times (99.0% of its packets) that it can receive no more" in found.sentence
    # in a long enough capture, a consumer that is busy now and then also closes its window: that is flow control
    path = capture_of(tmp_path, talk(window=0).records)
    path.connections.streams.packets[0] = 20_001
    assert not of_capture(path, TcpTrouble)


def test_a_network_that_is_far(tmp_path: Path) -> None:
    (found,) = of_capture(capture_of(tmp_path, talk(trip=120).records), TcpTrouble)
    assert found.severity == Severity.LOW
    assert "takes 120 ms" in found.sentence


def test_what_the_kernel_tells_a_proxy(tmp_path: Path) -> None:
    # a synthetic byte capture has no retransmissions; the proxy's TCP_INFO of the client's socket has them
    recording = Recording()
    for number in range(20):
        for side, frame in enumerate(metadata(number)):
            recording.data(side, frame)
    recording.note(1, TcpSample(side="client", rtt_us=400, retransmits=12, state="established"))
    recording.note(1, TcpSample(side="client", rtt_us=900, retransmits=31, state="established"))
    capture = open_capture(str(recording.write(tmp_path / "proxied.pcapng")))
    capture.read()
    (found,) = of_capture(capture, TcpTrouble)
    assert found.subject == "network 10.0.0.2:9092 to 10.0.0.1, loss"
    assert "about 31 of" in found.sentence
    far = of_capture(capture, TcpTrouble, {"tcp_trouble.round_trip": 0.6})
    assert [each.sentence for each in far if "round trip" in each.subject] == [
        "A round trip from 10.0.0.1 to 10.0.0.2:9092 takes 0.7 ms: every answer takes at least as long."
    ]


def test_what_loopback_and_offloading_show_is_no_trouble() -> None:
    # a segment of 16 kB captured twice; keepalives
    for name in ("21_k430_connect_eager", "32_k0102_rebalance_mixed", "09_loss3pct_before_tap"):
        assert not of_recording(name, TcpTrouble)


# ---------------------------------------------------------------- the capture
def test_packets_cut_by_the_snapshot_length() -> None:
    (found,) = of_recording("09_snaplen128", CaptureLosses)
    assert found.severity == Severity.LOW
    assert "were cut by the snapshot length" in found.sentence
    assert found.connections


def test_packets_that_were_not_captured(tmp_path: Path) -> None:
    records = talk().records
    del records[201:203]
    (found,) = of_capture(capture_of(tmp_path, records), CaptureLosses)
    assert "of 1 connection were not captured" in found.sentence
    assert not of_capture(capture_of(tmp_path, talk().records), CaptureLosses)


def test_encrypted_connections_are_told_once() -> None:
    (found,) = of_recording("24_k430_tls13_franz", CaptureLosses)
    assert found.severity == Severity.INFO
    assert found.sentence.startswith(
        "7 connections spoke TLS and could not be decrypted (no key log was given)"
    )
    assert not of_recording("24_k430_plaintext_to_tls_first", CaptureLosses)


def test_packets_that_were_captured_twice(tmp_path: Path) -> None:
    records = [each for record in talk().records for each in (record, record)]
    capture = capture_of(tmp_path, records)
    assert not of_capture(capture, TcpTrouble)
    (found,) = of_capture(capture, CaptureLosses)
    assert (found.subject, found.severity) == ("captured twice", Severity.INFO)
