"""The captures in ``tests/data/captures``, and the expected results of reading them.

They are recordings of real clients and brokers, chosen small and varied; the larger ones are compressed with zstd.
``expected.json`` holds, for each of them, the output of ``read --json --show-secrets`` at a time when every message
equalled the decoding by kafka-clients (``test_oracle``): a fresh clone is tested against that without the reference.

After a deliberate change of the shape, run ``python -m tests.captures.recorded`` and review the difference.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from captures.exchanges import ExchangeReader, open_capture
from captures.json_objects import to_json
from dissectors.sides import SIDES

FOLDER = Path(__file__).resolve().parent.parent / "data" / "captures"
EXPECTED = FOLDER / "expected.json"

#: the purpose of each capture
CAPTURES = {
    "01_mock_java_throttle_bug.pcap": "librdkafka's mock: a malformed ApiVersions fallback that clients misread",
    "01_nafka_kafkajs_none.pcap": "a broker that answers ApiVersions v2 in the format of v3",
    "06_noida_acks0_java.pcap": "a broker that answers Produce with acks=0",
    "06_tansu_garbage.pcap": "HTTP, TLS, lengths and keys that do not exist",
    "09_any_sll2.pcap": "link type LINUX_SLL2",
    "09_ipv6.pcap": "IPv6",
    "09_loss3pct_before_tap.pcap.zst": "retransmissions",
    "09_nanosecond.pcap.zst": "nanosecond timestamps",
    "09_pcapng_dumpcap.pcapng": "pcapng",
    "09_snaplen128.pcap": "packets cut to 128 bytes",
    "20_k430_ck_zstd.pcap": "librdkafka with Kafka 4.3: zstd",
    "21_k430_kip848_java.pcap.zst": "consumer groups of KIP-848",
    "21_k430_share_group.pcap.zst": "share groups (KIP-932)",
    "21_k430_streams_kip1071.pcap.zst": "streams groups (KIP-1071)",
    "22_k430_java_commit_abort.pcap": "transactions",
    "24_k430_franz_scramsha256.pcap": "SaslAuthenticate",
    "26_k430_add_controller_controller.pcap.zst": "KRaft; connections that were open before the capture",
    "30_k0822_java_lz4.pcap": "Kafka 0.8.2: message sets of magic 0",
    "30_k0822_scala_acks0_partial.pcap": "Kafka 0.8.2: acks=0, partial messages at the end of a fetch",
    "31_k0901_cluster2.pcap": "Kafka 0.9: brokers among themselves",
    "32_k0102_java_snappy.pcap": "Kafka 0.10: messages of magic 1",
    "35_k282_sasl_plain.pcap.zst": "raw SASL tokens after SaslHandshake v0",
    "36_k0800_scala.pcap.zst": "Kafka 0.8.0",
    "36_k251_sweep.pcap.zst": "every API and version of Kafka 2.5",
}


def summary(name: str) -> dict[str, Any]:
    """Return a digest of a capture's reading: bodies by API, version and side as a count and a CRC-32."""
    capture = open_capture(str(FOLDER / name))
    capture.read()
    flags: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    bodies: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for exchange in ExchangeReader(capture, show_secrets=True):
        shape = msgspec.json.decode(msgspec.json.encode(to_json(exchange)))
        flags.update(shape["flags"])
        problems.update(f"{shape['api']} {each['side']}: {each['reason']}" for each in shape["problems"])
        for side in SIDES:
            if shape[side] is not None:
                kind = f"{shape['api']} v{shape['version']} {side}"
                count, crc = bodies[kind]
                bodies[kind] = [count + 1, crc32(canonical(shape[side]), crc)]
        errors.update(f"{shape['api']} {code}" for code in error_codes(shape["response"]) if code)
    return {
        "connections": len(capture.connections),
        "foreign": sorted(Counter(text.partition(":")[0] for text in capture.foreign.values()).items()),
        "exchanges": len(capture.table),
        "skipped": sum(skip.size for skip in capture.skipped),
        "flags": dict(sorted(flags.items())),
        "problems": dict(sorted(problems.items())),
        "errors": dict(sorted(errors.items())),
        "bodies": dict(sorted(bodies.items())),
    }


def canonical(value: Any) -> bytes:
    """Return a JSON value as bytes that are the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def error_codes(value: Any) -> Iterator[int]:
    """Yield every error code in a body."""
    if isinstance(value, list):
        for item in value:
            yield from error_codes(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "error_code":
                yield item
            else:
                yield from error_codes(item)


def write() -> None:
    """Write the current results of reading the captures."""
    lines = [f"{json.dumps(name)}: {json.dumps(summary(name))}" for name in CAPTURES]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
