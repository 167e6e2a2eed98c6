"""Failed authentication and denied access."""

from __future__ import annotations

from pathlib import Path

from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.connections import OtherProtocols, TlsOnPlaintext
from captures.analysis.findings.rules.security import AuthenticationFailures, AuthorizationFailures
from captures.analysis.groups.vocabulary import Certainty
from captures.packets import ACK, FIN
from tests.captures.analysis.findings.cluster_kit import (
    MS,
    Conversation,
    capture_of,
    of_capture,
    of_exchanges,
    of_recording,
    spoken,
)
from tests.dissectors.conversation import streams


def test_an_expired_token() -> None:
    # the Java client with an expired OAUTHBEARER token, for 88 s
    (found,) = of_recording("24_k430_java_oauth_expired", AuthenticationFailures)
    assert (found.severity, found.count) == (Severity.HIGH, 72)
    assert found.sentence.startswith(
        "OAUTHBEARER authentication of java-none as admin at 127.0.0.1:10303 failed on 72 connections"
        " (SASL_AUTHENTICATION_FAILED)"
    )
    assert "0.8 times a second" in found.sentence


def test_wrong_password_and_mechanism() -> None:
    by_mechanism = {
        found.subject.rpartition(", ")[2]: found
        for found in of_recording("35_k282_sasl_plain", AuthenticationFailures)
    }
    wrong = by_mechanism["PLAIN at 127.0.0.1:20651"]
    assert "ck-none as alice" in wrong.sentence
    assert "Invalid username or password" in wrong.sentence
    unknown = by_mechanism["SCRAM-SHA-512 at 127.0.0.1:20651"]
    assert "UNSUPPORTED_SASL_MECHANISM" in unknown.sentence
    assert "sasl.mechanism" in unknown.advice


def test_a_client_that_goes_away_in_the_middle() -> None:
    # the broker's first SCRAM message is wrong; librdkafka disconnects and reconnects
    (found,) = of_recording("07_noida_scram256_fail", AuthenticationFailures)
    assert (found.severity, found.certainty, found.count) == (Severity.HIGH, Certainty.INFERRED, 78)
    assert "the client closed the connection before it was done" in found.sentence


def test_raw_tokens_after_which_the_broker_closes(tmp_path: Path) -> None:
    # SaslHandshake v0 and a wrong password: brokers before 1.0 just close the connection
    handshake = streams.request(1, b"\0\5PLAIN", key=17, version=0, client_id="app")
    accepted = streams.response(1, b"\0\0" + b"\0\0\0\1" + b"\0\5PLAIN")
    token = streams.frame(b"\0alice\0wrong")
    made = Conversation()
    made.handshake()
    made.send(0, handshake)
    made.send(0, accepted, ack=len(handshake), from_client=False)
    made.send(len(handshake), token, ack=len(accepted))
    made.now += MS
    made.put(False, len(accepted), len(handshake) + len(token), FIN | ACK)
    (found,) = of_capture(capture_of(tmp_path, made.records), AuthenticationFailures)
    assert found.sentence == (
        "PLAIN authentication of app as alice at 10.0.0.2:9092 failed on 1 connection:"
        " the broker closed the connection without an answer."
    )


def test_who_is_let_in_is_not_found() -> None:
    for name in ("24_k430_franz_scramsha256", "24_k430_java_plain", "24_k430_java_denied"):
        assert not of_recording(name, AuthenticationFailures)


def test_what_was_denied_to_whom() -> None:
    # user bob has no ACLs; his client requests the topic 92 times
    (found,) = of_recording("24_k430_java_denied", AuthorizationFailures)
    assert (found.severity, found.count) == (Severity.MEDIUM, 93)
    assert found.sentence == (
        "bob (client java-none) was denied CreateTopics, Metadata on topic s-j-plain 93 times"
        " (TOPIC_AUTHORIZATION_FAILED)."
    )
    assert "Create and Describe on topic s-j-plain" in found.advice


def test_groups_and_transactions_are_named() -> None:
    join = spoken(11, 5, {"group_id": "billing"}, {"error_code": 30})
    begin = spoken(22, 4, {"transactional_id": "payments"}, {"error_code": 53}, number=2)
    joined, begun = of_exchanges(AuthorizationFailures, join, begin)
    assert joined.sentence == "app was denied JoinGroup on group billing once (GROUP_AUTHORIZATION_FAILED)."
    assert "InitProducerId on transactional ID payments" in begun.sentence
    assert joined.severity == begun.severity == Severity.HIGH


def test_plaintext_to_a_tls_listener() -> None:
    (found,) = of_recording("24_k430_plaintext_to_tls_first", TlsOnPlaintext)
    assert found.severity == Severity.MEDIUM  # once
    assert "127.0.0.1 spoke plaintext to 127.0.0.1:10305" in found.sentence


def test_tls_and_others_to_a_plaintext_listener() -> None:
    # HTTP, a ClientHello, and four kinds of garbage
    (found,) = of_recording("06_tansu_garbage", TlsOnPlaintext)
    assert (found.severity, found.connections) == (Severity.MEDIUM, (1,))  # once
    http, nonsense = of_recording("06_tansu_garbage", OtherProtocols)
    assert "HTTP: GET / HTTP/1.1" in http.sentence
    assert (nonsense.count, nonsense.severity) == (4, Severity.LOW)


def test_tls_that_works_is_not_found() -> None:
    for name in ("24_k430_tls13_franz", "tls_java_12", "20_k430_java_none"):
        assert not of_recording(name, TlsOnPlaintext)
        assert not of_recording(name, OtherProtocols)
