"""TLS connections in captures: read like any other with their secrets, reported without."""

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


COLUMNS = ("connection", "api_key", "correlation_id", "request_first", "response_last", "packet", "flags")


def columns(capture: Capture) -> list[list[int]]:
    order = capture.table.order()
    return [capture.table.column(name)[order].tolist() for name in COLUMNS]


@pytest.mark.parametrize("name", [name for name, _, _ in RECORDED])
@pytest.mark.parametrize("late", [1, 4, 1000])
def test_secrets_that_come_late_give_the_same_as_those_that_were_there(
    name: str, late: int, tmp_path: Path
) -> None:
    secrets = (DATA / f"{name}.keylog").read_bytes()
    file = tmp_path / "growing.keylog"
    blocks = 0

    def write_secrets(done: int, size: int | None) -> None:
        nonlocal blocks
        blocks += 1
        if blocks == late:
            file.write_bytes(secrets)

    capture = open_capture(str(DATA / f"{name}.pcap"), 4096, keylog=KeyLog(file, growing=True))
    capture.read(write_secrets)
    if late > blocks:
        assert counts(capture) == (0, 0)
        reason = f"not decrypted: the key log {file} cannot be read: No such file or directory"
        assert all(guess.endswith(reason) for guess in capture.foreign.values())
        return
    assert columns(capture) == columns(read(name, KeyLog(DATA / f"{name}.keylog")))
    assert capture.foreign == {}


def test_secrets_written_bit_by_bit(tmp_path: Path) -> None:
    name = RECORDED[0][0]
    secrets = (DATA / f"{name}.keylog").read_bytes()
    file = tmp_path / "growing.keylog"
    written = 0

    def write_some(done: int, size: int | None) -> None:
        nonlocal written
        with file.open("ab") as target:
            target.write(secrets[written : written + 397])
        written += 397

    capture = open_capture(str(DATA / f"{name}.pcap"), 4096, keylog=KeyLog(file, growing=True))
    capture.read(write_some)
    assert written >= len(secrets)
    assert columns(capture) == columns(read(name, KeyLog(DATA / f"{name}.keylog")))


@pytest.mark.parametrize("name", [name for name, _, _ in RECORDED])
def test_connections_that_ended_are_forgotten(name: str, tmp_path: Path) -> None:
    """A live capture drops their keys, and still shows every exchange."""
    file = tmp_path / "growing.keylog"
    file.touch()
    capture = open_capture(str(DATA / f"{name}.pcap"), 4096, keylog=KeyLog(file, growing=True))
    reader, seen = ExchangeReader(capture, live=True), []
    for number, rows in enumerate(capture.updates()):
        seen += [(each.time, each.correlation_id) for each in reader.take(rows.tolist())]
        capture.forget(1 << 62)
        if number == 3:
            file.write_bytes((DATA / f"{name}.keylog").read_bytes())
    whole = read(name, KeyLog(DATA / f"{name}.keylog"))
    assert sorted(seen) == [(each.time, each.correlation_id) for each in ExchangeReader(whole)]
    assert [tls.info.reason for tls in capture.decryption.tls.values()] == [""] * len(capture.connections)


def test_ciphertext_that_waits_is_bounded_in_all(tmp_path: Path) -> None:
    file = tmp_path / "growing.keylog"
    file.write_text(f"CLIENT_RANDOM {bytes(32).hex()} {bytes(48).hex()}\n")  # of another connection
    name, keylog = RECORDED[0][0], KeyLog(file, growing=True)
    most = 0

    def watch(done: int, size: int | None) -> None:
        nonlocal most
        most = max(most, sum(tls.held for tls in capture.decryption.tls.values()))

    with kit.limited(tls_bytes_in_all=4096):
        capture = open_capture(str(DATA / f"{name}.pcap"), 4096, keylog=keylog)
        capture.read(watch)
    assert 0 < most <= 4096
    reasons = [capture.decryption.tls[connection].info.reason for connection in capture.decryption.tls]
    assert [reason for reason in reasons if "go over the limit tls_bytes_in_all (4,096 bytes)" in reason]


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
