"""A capture of which only the needed fields are decoded gives the same journeys as a full decode."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.journey import Journeys, RecordQuery
from captures.exchanges import ExchangeReader, open_capture
from captures.json_objects import to_json

DATA = Path(__file__).parents[3] / "data"
RECORDINGS = [
    "findings/27_k391_tx_java_eos.pcap.zst",
    "findings/26_k430_broker_sigstop_interbroker.pcap.zst",
    "findings/33_k0110_tx.pcap.zst",
    "findings/30_k0822_errors.pcap.zst",
    "groups/21_k430_share_group.pcap.zst",
    "groups/21_k430_kip848_java.pcap.zst",
    "groups/32_k0102_rebalance_mixed.pcap.zst",
    "captures/09_loss3pct_before_tap.pcap.zst",
    "captures/30_k0822_scala_acks0_partial.pcap",
    "captures/32_k0102_java_snappy.pcap",
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("sought", [RecordQuery(), RecordQuery(contains=b"1")], ids=["all", "some"])
def test_needed_fields_are_enough(name: str, sought: RecordQuery) -> None:
    capture = open_capture(str(DATA / name))
    capture.read()
    full = ExchangeReader(capture, annotate=False, summary=False)
    full.learn(len(full))
    by_exchange = Journeys(sought, full.knowledge.topic_name, capture.table)
    for exchange in full:
        by_exchange.add(exchange)
    projected = ExchangeReader(capture, annotate=False, summary=False)
    projected.learn(len(projected))
    at_once = Journeys(sought, projected.knowledge.topic_name, capture.table)
    assert list(at_once.read(projected))
    expected, found = to_json(by_exchange.result()), to_json(at_once.result())
    assert found == expected
    assert found["partitions"]
