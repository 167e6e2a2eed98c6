"""The number of exchanges that name a topic."""

from __future__ import annotations

import pytest

from captures.analysis.topic_mentions import TopicMentions
from captures.exchanges import ExchangeReader, open_capture
from captures.filters import compile_filter
from tests.captures.analysis.kit import exchange
from tests.captures.recorded import FOLDER

ID = "lLiF-TMRRuSo8TJjkfl4vQ"


def test_an_exchange_counts_once_for_each_topic_and_partition() -> None:
    stats = TopicMentions({}.get)
    topic = {"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 2}]}
    stats.add(exchange(9, 5, request={"topics": [topic]}, response={"topics": [topic, topic]}))
    assert stats.result() == {("orders", None): 1, ("orders", 0): 1, ("orders", 2): 1}


def test_a_name_that_is_told_later_serves() -> None:
    names: dict[str, str] = {}
    stats = TopicMentions(names.get)
    fetch = {"topics": [{"topic_id": ID, "partitions": [{"partition": 1}]}]}
    stats.add(exchange(1, 15, request=fetch))
    names[ID] = "orders"
    stats.add(exchange(1, 15, request=fetch))
    assert stats.result() == {("orders", None): 2, ("orders", 1): 2}


def test_a_topic_that_is_named_by_name_and_id_counts_once() -> None:
    names: dict[str, str] = {}
    stats = TopicMentions(names.get)
    by_name = {"topics": [{"name": "orders", "partitions": [{"partition_index": 1}]}]}
    by_id = {"responses": [{"topic_id": ID, "partitions": [{"partition_index": 1}]}]}
    stats.add(exchange(1, 15, request={**by_name}, response=by_id))
    assert stats.result() == {("orders", None): 1, ("orders", 1): 1, (ID, None): 1, (ID, 1): 1}
    names[ID] = "orders"
    assert stats.result() == {("orders", None): 1, ("orders", 1): 1}


@pytest.mark.slow
def test_it_is_what_a_filter_finds() -> None:
    capture = open_capture(str(FOLDER / "35_k282_sasl_plain.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    stats = TopicMentions(reader.knowledge.topic_name)
    for each in reader:
        stats.add(each)
    found = stats.result()
    assert len(found) > 5
    for (topic, partition), count in found.items():
        text = f'topic == "{topic}"' if partition is None else f'topic_partition == "{topic}-{partition}"'
        assert len(compile_filter(text).select(reader)) == count
