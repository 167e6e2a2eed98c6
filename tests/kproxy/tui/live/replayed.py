"""A recording of some requests, and a session that reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kproxy.session import Session
from tests.kproxy.fake_broker import METADATA, PRODUCE, FakeBroker
from tests.kproxy.replay.recording import Recording
from tests.kproxy.tui.kit import read_session

HEARTBEAT = 12
ASKED = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": True}
PRODUCED = {
    "acks": 1,
    "timeout_ms": 1000,
    "transactional_id": None,
    "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": None}]}],
}


@asynccontextmanager
async def recorded(folder: Path, broker: FakeBroker) -> AsyncIterator[Session]:
    """Yield a session with three exchanges: a Metadata as the broker answers it, one with another answer, a Produce."""
    broker.topic("orders", partitions=2)
    recording = Recording()
    client = recording.connection("app[red]\u202e")
    told = broker.metadata({"topics": ASKED["topics"]}, 9)
    client.exchange(10, METADATA, 9, ASKED, told)
    other = broker.metadata({"topics": ASKED["topics"]}, 9)
    other["topics"][0]["partitions"][1]["leader_id"] = 7
    other["topics"][0]["partitions"].append({**other["topics"][0]["partitions"][0], "partition_index": 2})
    client.exchange(20, METADATA, 9, ASKED, {**other, "throttle_time_ms": 30})
    partition = {"index": 0, "base_offset": 12}
    client.exchange(
        30, PRODUCE, 7, PRODUCED, {"responses": [{"name": "orders", "partition_responses": [partition]}]}
    )
    async with read_session(recording.write(folder / "recorded.pcap")) as session:
        yield session
