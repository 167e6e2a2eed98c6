"""Captures of Kafka over TLS: decrypted, they are Kafka to the last byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from captures.packets.tls import DecryptionStopped, KeyLog, MissingData, TlsInfo
from dissectors.conversation import Side
from tests.captures.packets.kit import block
from tests.captures.packets.tls.peers import DATA
from tests.captures.packets.tls.replay import as_kafka, replay
from tests.reference import captures_dir, needs_reference

OWN = DATA / "captures"

#: capture, key log, connections, requests, responses
REFERENCE_CAPTURES = [
    ("07_tls12_confluent.pcap", "07_tls12.keylog", 7, 34, 33),  # counts: INDEX.tsv of the captures
    ("07_tls13_confluent.pcap", "07_tls13.keylog", 7, 34, 33),
]
OWN_CAPTURES = [
    ("24_k430_tls13_franz.pcap", "24_k430_tls13_franz.keylog", 7, 28, 27),  # INDEX.tsv
    # a console producer and consumer; INDEX.tsv has no counts: as tshark decrypts and dissects it
    ("40_k430_java_tls12_agent.pcap", "40_k430_java_tls12_agent.keylog", 5, 21, 21),
]


def check(path: Path, keylog: KeyLog, connections: int, requests: int, responses: int) -> list[TlsInfo]:
    replayed = replay(path, keylog)
    assert len(replayed) == connections
    kafka = [as_kafka(each) for each in replayed]
    assert sum(len(each.requests) for each in kafka) == requests
    assert sum(len(each.responses) for each in kafka) == responses
    for each, spoken in zip(replayed, kafka, strict=True):
        assert each.tls.info.reason == ""
        assert not [event for event in each.events if isinstance(event, MissingData | DecryptionStopped)]
        assert spoken.skipped == []
        for body in spoken.requests + spoken.responses:
            assert body.problems == []
            assert body.value is not None
        for side in Side:
            bodies = spoken.requests if side is Side.CLIENT else spoken.responses
            framed = sum(4 + len(body.raw) for body in bodies)
            assert framed == len(each.plain(side)), "bytes that belong to no frame"
    return [each.tls.info for each in replayed]


@needs_reference
@pytest.mark.parametrize(("name", "keys", "connections", "requests", "responses"), REFERENCE_CAPTURES)
def test_reference(name: str, keys: str, connections: int, requests: int, responses: int) -> None:
    keylog = KeyLog(captures_dir() / keys)
    assert keylog.ignored == 0
    infos = check(captures_dir() / name, keylog, connections, requests, responses)
    assert {info.certificate for info in infos} == {("localhost", "127.0.0.1")}


@pytest.mark.parametrize(("name", "keys", "connections", "requests", "responses"), OWN_CAPTURES)
def test_own(name: str, keys: str, connections: int, requests: int, responses: int) -> None:
    keylog = KeyLog(OWN / keys)
    assert keylog.ignored == 0
    check(OWN / name, keylog, connections, requests, responses)


@pytest.mark.parametrize(("name", "keys"), [each[:2] for each in OWN_CAPTURES])
def test_without_key_log(name: str, keys: str) -> None:
    for each in replay(OWN / name, None):
        info = each.tls.info
        assert info.version == ("TLS 1.3" if "tls13" in name else "TLS 1.2")
        assert info.reason == "no key log"
        assert bool(info.certificate) == (info.version == "TLS 1.2")
        assert info.suite == (
            "TLS_AES_256_GCM_SHA384" if "tls13" in name else "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )


def test_secrets_embedded_in_the_capture(tmp_path: Path) -> None:
    import struct

    from captures.packets import open_source, read_packets
    from tests.captures.packets.kit import enhanced, interface, section

    keys = (OWN / "24_k430_tls13_franz.keylog").read_bytes()
    padded = keys + bytes(-len(keys) % 4)
    # decryption secrets block: section 4.7 of the pcapng draft; 0x544c534b is a TLS key log
    parts = [section(), block(10, struct.pack("<II", 0x544C534B, len(keys)) + padded, "<")]
    with open_source(OWN / "24_k430_tls13_franz.pcap") as source:
        reader = read_packets(source)
        list(reader)
        link = reader.interfaces[0].link_type
        parts.append(interface(link))
        data = source.read(0, 1 << 20)
        at = 24
        while at < len(data):
            seconds, fraction, size, _ = struct.unpack_from("<IIII", data, at)
            parts.append(enhanced(data[at + 16 : at + 16 + size], seconds * 1_000_000 + fraction))
            at += 16 + size
    path = tmp_path / "embedded.pcapng"
    path.write_bytes(b"".join(parts))
    check(path, KeyLog(), 7, 28, 27)


def test_small_blocks_give_the_same() -> None:
    path, keylog = OWN / "40_k430_java_tls12_agent.pcap", KeyLog(OWN / "40_k430_java_tls12_agent.keylog")
    for one, other in zip(replay(path, keylog), replay(path, keylog, 3000), strict=True):
        assert one.events == other.events


@pytest.mark.slow
def test_reading_what_is_not_decrypted_does_not_load_the_cryptographic_library() -> None:
    code = (
        "import sys, captures.packets, captures.packets.tls as tls\n"
        "from dissectors.conversation import Side\n"
        "connection = tls.TlsConnection(tls.KeyLog())\n"
        "connection.receive(Side.CLIENT, b'GET / HTTP/1.1')\n"
        "sys.exit(any(name.startswith('cryptography') for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
