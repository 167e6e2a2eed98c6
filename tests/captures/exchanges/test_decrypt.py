"""TLS connections in captures: read like any other with their secrets, named without."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.packets.tls import KeyLog
from tests.captures.packets import kit

DATA = Path(__file__).parents[2] / "data" / "captures"

#: recorded against Kafka 4.3.0: name, requests, responses (framed_requests and framed_responses of the recordings'
#: index for franz-go; tshark's Kafka frames for the Java agent's TLS 1.2)
RECORDED = [("24_k430_tls13_franz", 28, 27), ("40_k430_java_tls12_agent", 21, 21)]


def read(name: str, keylog: KeyLog | None, block_size: int = 1 << 22) -> Capture:
    capture = open_capture(str(DATA / f"{name}.pcap"), block_size, keylog=keylog)
    capture.read()
    return capture


def counts(capture: Capture) -> tuple[int, int]:
    table = capture.table
    return int((table.column("request_size") > 0).sum()), int((table.column("response_size") > 0).sum())


@pytest.mark.parametrize(("name", "requests", "responses"), RECORDED)
@pytest.mark.parametrize("block_size", [4096, 1 << 22])
def test_with_the_key_log_a_connection_is_read_like_any_other(
    name: str, requests: int, responses: int, block_size: int
) -> None:
    capture = read(name, KeyLog(DATA / f"{name}.keylog"), block_size)
    assert counts(capture) == (requests, responses)
    assert capture.foreign == {}
    exchanges = list(ExchangeReader(capture))
    assert [exchange.problems for exchange in exchanges if exchange.problems] == []
    times = [exchange.time for exchange in exchanges]
    assert times == sorted(times)
    assert all(exchange.latency is None or exchange.latency > 0 for exchange in exchanges)


@pytest.mark.parametrize(("name", "requests", "responses"), RECORDED)
def test_without_it_the_connection_is_named(name: str, requests: int, responses: int) -> None:
    capture = read(name, None)
    assert counts(capture) == (0, 0)
    assert len(capture.foreign) == len(capture.connections)
    assert all("TLS_" in guess and "no key log was given" in guess for guess in capture.foreign.values())


def test_secrets_in_the_capture_itself_are_used(tmp_path: Path) -> None:
    name, requests, responses = RECORDED[0]
    pcap = (DATA / f"{name}.pcap").read_bytes()
    secrets = (DATA / f"{name}.keylog").read_bytes()
    file = tmp_path / "with-secrets.pcapng"
    file.write_bytes(kit.pcapng_of(pcap, secrets))
    capture = open_capture(str(file))
    capture.read()
    assert counts(capture) == (requests, responses)


def test_a_tls_alert_to_a_plaintext_client_does_not_hide_its_requests() -> None:
    capture = open_capture(str(DATA / "24_k430_plaintext_to_tls_first.pcap"))
    capture.read()
    assert counts(capture) == (1, 0)
    assert list(capture.foreign.values()) == ["TLS: alert internal_error"]
