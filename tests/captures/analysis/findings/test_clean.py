"""Captures without trouble: clients and brokers in normal use produce no finding above ``low``.

What was done in each is known, because they were recorded for that: nothing was broken, overloaded or misconfigured.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Severity
from captures.exchanges import ExchangeReader, open_capture

FOLDER = Path(__file__).resolve().parents[3] / "data" / "clean"

CLEAN = {
    **{
        f"20_k411_{name}": "Kafka 4.1: one client produces, then consumes"
        for name in ("java_gzip", "java_lz4", "java_snappy", "kp_zstd")
    },
    **{
        f"20_k430_{name}": "Kafka 4.3: one client produces, then consumes"
        for name in (
            "aio_gzip", "aio_lz4", "aio_zstd", "ck_gzip", "ck_lz4", "franz_gzip", "franz_none", "franz_zstd",
            "java_acks0", "java_idem_lz4", "java_none", "java_zstd", "kafkago_zstd", "kafkajs_none", "kp_gzip",
            "kp_snappy", "sarama_gzip", "sarama_none", "sarama_v1.0.0", "sarama_zstd",
        )
    },
    "22_k430_kp": "Kafka 4.3: transactions of one producer",
    **{
        f"24_k430_{name}": "Kafka 4.3: the same with SASL"
        for name in ("aio_plain", "java_plain")
    },
    **{
        f"26_k430_steady_{side}": "three brokers and three controllers at steady work"
        for side in ("clients", "controller", "interbroker")
    },
    **{
        f"27_k391_{name}": "Kafka 3.9: one client produces, then consumes"
        for name in ("ck_lz4", "java_idem", "java_zstd", "kp_zstd", "tx_java")
    },
    **dict.fromkeys(
        (
            "31_k0901_java_lz4", "32_k0102_java_lz4", "33_k0110_java_lz4", "34_k111_java_none", "36_k01001_java",
            "36_k201_java", "36_k241_java", "36_k332_java",
        ),
        "a broker and a Java client of the same time",
    ),
}  # fmt: skip
"""Recording -> description."""


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_found_above_low(name: str) -> None:
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
    for exchange in reader:
        diagnosis.add(exchange)
    grave = [finding for finding in diagnosis.findings() if finding.severity > Severity.LOW]
    assert not grave, "\n".join(f"{finding.rule}: {finding.sentence} {finding.evidence}" for finding in grave)


def test_every_recording_is_named() -> None:
    assert {path.name.removesuffix(".pcap.zst") for path in FOLDER.iterdir()} == set(CLEAN)
