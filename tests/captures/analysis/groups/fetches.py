"""Synthetic fetches, heartbeats and commits of one group's members."""

from __future__ import annotations

from typing import Any

from captures.exchanges import Exchange
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.analysis.groups.kit import at
from tests.captures.analysis.kit import exchange

SECOND = 1_000_000_000
GROUP, TOPIC = "orders", "t"
HOSTS = {"m1": ("10.0.0.1", 1), "m2": ("10.0.0.2", 2), "m3": ("10.0.0.3", 3)}
"""Client -> address, and ID of the connection for fetches."""


def by(client: str, seconds: float, number: int, **fields: Any) -> dict[str, Any]:
    host, connection = HOSTS[client]
    made = {
        "number": number,
        "time": at(seconds),
        "client": f"{host}:4000",
        "client_id": client,
        "connection": connection,
        "latency": 1_000_000,
    }
    return made | fields


def heartbeat(client: str, seconds: float, number: int = 1, group: str = GROUP, **fields: Any) -> Exchange:
    asked = {"group_id": group, "generation_id": 1, "member_id": f"{client}-id"}
    return exchange(12, 4, request=asked, response={"error_code": 0}, **by(client, seconds, number, **fields))


def fetch(
    client: str,
    seconds: float,
    offsets: dict[int, int],
    *,
    number: int,
    got: dict[int, int] | None = None,
    took: float = 0.001,
    topic: str = TOPIC,
    **fields: Any,
) -> Exchange:
    """A Fetch without a session.

    :param offsets: partition -> requested offset
    :param got: partition -> number of records received from that offset
    """
    asked = [{"partition": number, "fetch_offset": offset} for number, offset in offsets.items()]
    told = [
        {"partition_index": partition, "error_code": 0, "records": records(offsets[partition], count)}
        for partition, count in (got or {}).items()
    ]
    return exchange(
        1,
        12,
        request={"replica_id": -1, "topics": [{"topic": topic, "partitions": asked}]},
        response={"responses": [{"topic": topic, "partitions": told}]},
        **by(client, seconds, number, latency=round(took * SECOND), **fields),
    )


def records(first: int, count: int) -> bytes:
    return bytes(build_batch([Record(first + place, 0, None, b"v", ()) for place in range(count)]))


def commit(
    client: str,
    seconds: float,
    offsets: dict[int, int],
    *,
    number: int,
    code: int = 0,
    generation: int = 1,
    group: str = GROUP,
    topic: str = TOPIC,
) -> Exchange:
    asked = [{"partition_index": each, "committed_offset": offset} for each, offset in offsets.items()]
    told = [{"partition_index": each, "error_code": code} for each in offsets]
    return exchange(
        8,
        8,
        request={
            "group_id": group,
            "generation_id_or_member_epoch": generation,
            "member_id": f"{client}-id",
            "topics": [{"name": topic, "partitions": asked}],
        },
        response={"topics": [{"name": topic, "partitions": told}]},
        **by(client, seconds, number),
    )
