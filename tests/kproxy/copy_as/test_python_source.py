"""Scripts that rebuild a message."""

from __future__ import annotations

import contextlib
import io
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from captures.exchanges import Exchange
from dissectors.sides import SIDES, Side
from kproxy.copy_as import CannotCopyError
from kproxy.copy_as.frames import complete_frame
from kproxy.copy_as.python_source import script
from tests.kproxy.copy_as.kit import DATA, SCRAM, asked, recorded
from tests.kproxy.frames import response_frame
from tests.waiting import PATIENCE

HEARTBEAT = 12
BODY = {"group_id": "g'\n\x1b\u202e", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def printed(source: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["script.py"])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(source, {"__name__": "script"})  # scripts are made to be run
    return out.getvalue().strip()


def frames(exchanges: list[Exchange]) -> list[tuple[Exchange, Side, bytes]]:
    found = []
    for exchange in exchanges:
        for side in SIDES:
            with contextlib.suppress(CannotCopyError):
                found.append((exchange, side, complete_frame(exchange, side, show_secrets=True).data))
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "name",
    [
        "01_nafka_kafkajs_none.pcap",
        "09_pcapng_dumpcap.pcapng",
        "20_k430_ck_zstd.pcap",
        "22_k430_java_commit_abort.pcap",
        "24_k430_franz_scramsha256.pcap",
        "30_k0822_java_lz4.pcap",
        "31_k0901_cluster2.pcap",
        "01_mock_java_throttle_bug.pcap",
    ],
)
def test_every_frame_is_built_again_byte_for_byte(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, exchanges = recorded(DATA / name, show_secrets=True)
    whole = [each for each in frames(exchanges[:150]) if each[0].request or each[0].response]
    assert whole
    as_bytes = 0
    for exchange, side, data in whole:
        if (exchange.request if side == "request" else exchange.response) is None:
            continue
        source = script(exchange, side, show_secrets=True)
        assert printed(source, monkeypatch) == data.hex(), (exchange.number, side)
        as_bytes += "the message as bytes" in source
    assert as_bytes <= len(whole) // 4


def test_what_strangers_wrote_stays_a_literal() -> None:
    source = script(asked(HEARTBEAT, 3, BODY), "request", show_secrets=False)
    assert source.replace("\n", "").isprintable()
    assert r"g'\n\x1b\u202e" in source
    assert "api(12).request[3].build(BODY)" in source


def test_what_would_be_built_otherwise_stands_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = asked(HEARTBEAT, 3, BODY)
    assert exchange.request is not None
    exchange.request.raw += b"\0"
    exchange.request_size += 1
    source = script(exchange, "request", show_secrets=False)
    assert "# the message as bytes, since it could not be decoded" in source
    assert printed(source, monkeypatch) == complete_frame(exchange, "request", show_secrets=False).data.hex()


def test_it_is_sent_to_a_broker_and_the_answer_shown(tmp_path: Path) -> None:
    exchange = asked(HEARTBEAT, 3, BODY)
    path = tmp_path / "heartbeat.py"
    path.write_text(script(exchange, "request", show_secrets=False))
    received: list[bytes] = []

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            received.append(stream.read(exchange.request_size))
            connection.sendall(response_frame(HEARTBEAT, 3, {"throttle_time_ms": 0, "error_code": 27}))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        ran = subprocess.run(
            [sys.executable, str(path), address], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        thread.join(PATIENCE)
    assert received == [complete_frame(exchange, "request", show_secrets=False).data]
    assert ran.stdout == "{'throttle_time_ms': 0, 'error_code': 27}\n"


def test_secrets_are_refused_unless_they_are_shown() -> None:
    for show_secrets in (False, True):
        _, exchanges = recorded(SCRAM, show_secrets=show_secrets)
        said = next(each for each in exchanges if each.api == "SaslAuthenticate")
        if show_secrets:
            assert "auth_bytes" in script(said, "request", show_secrets=True)
            continue
        with pytest.raises(CannotCopyError, match="holds secrets, which are masked"):
            script(said, "request", show_secrets=False)
