"""Messages that tests send through a data plane, and the responses."""

from __future__ import annotations

from typing import Any

from tests.kproxy.fake_broker import PRODUCE, FakeBroker, ReceivedRequest
from tests.kproxy.frames import request_frame
from tests.kproxy.proxy.planes import Client, RunningPlane

HEARTBEAT = 12
SASL_HANDSHAKE = 17

ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}


def heartbeat(correlation_id: int = 1) -> bytes:
    body = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    return request_frame(HEARTBEAT, 4, body, correlation_id)


def heard(broker: FakeBroker) -> list[ReceivedRequest]:
    """Return the requests of clients, without those of kproxy itself."""
    return [each for each in broker.received if each.client_id != "kproxy"]


def produce(correlation_id: int, acks: int, version: int = 9) -> bytes:
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 1000, "topic_data": []}
    return request_frame(PRODUCE, version, body, correlation_id)


def heartbeat_body() -> dict[str, Any]:
    return {"group_id": "g", "generation_id": 1, "member_id": "m"}


async def asked_through(proxy: RunningPlane, *frames: bytes, count: int = 1) -> list[bytes]:
    """Send frames on a new connection; return as many frames as requested."""
    async with await Client.connect(proxy.address) as client:
        client.send(*frames)
        return [await client.frame() for _ in range(count)]
