"""Hostile files with very many items of each kind that commands keep state for: clients, topics, groups, times.

Their numbers are chosen so that the most expensive command, whose cost grows linearly, takes half of a run's limits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from captures.export.segments import Conversation
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.lanes.hostile.attack import attack
from tests.lanes.hostile.wire import (
    BROKER,
    FETCH,
    GROUP,
    HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    OFFSET_COMMIT,
    SYNC_GROUP,
    TOPIC,
    Exchange,
    capture,
    client,
    exchange,
    fetched,
    heartbeat,
    pcap,
    produced,
    raw_request,
    raw_response,
    said,
)

INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26


@attack(30_000)
def client_ids(count: int) -> Iterable[bytes]:
    """a client ID of its own in every request of a connection"""
    body = b"\0\7billing" + bytes(4) + b"\0\1m"
    return capture(
        (raw_request(HEARTBEAT, 0, body, number, b"app-%d" % number), raw_response(bytes(2), number))
        for number in range(count)
    )


@attack(20_000)
def clients(count: int) -> Iterable[bytes]:
    """clients of one request each, each on a connection and from an address of its own"""
    return pcap(
        frame
        for number in range(count)
        for frame in said([exchange(18, 3, _software(number), {}, number, f"app-{number}")], number)
    )


@attack(20_000)
def one_client(count: int) -> Iterable[bytes]:
    """one client ID on as many connections, each from an address of its own"""
    return pcap(
        frame
        for number in range(count)
        for frame in said([exchange(18, 3, _software(number % 7), {}, number, "app")], number)
    )


def _software(number: int) -> dict[str, Any]:
    return {"client_software_name": f"lib-{number}", "client_software_version": f"{number}.{number}"}


@attack(60_000)
def topics(count: int) -> Iterable[bytes]:
    """a topic of its own in every request"""

    def exchanges() -> Iterator[Exchange]:
        for number in range(count):
            name = b"topic-%d" % number
            named = struct.pack(">ih", 1, len(name)) + name
            answer = struct.pack(">iih", 0, 1, 0) + struct.pack(">h", len(name)) + name + bytes(4)
            yield raw_request(METADATA, 0, named, number), raw_response(answer, number)

    return capture(exchanges())


@attack(20_000)
def groups(count: int) -> Iterable[bytes]:
    """a group of its own in every heartbeat"""

    def exchanges() -> Iterator[Exchange]:
        for number in range(count):
            name = b"group-%d" % number
            body = struct.pack(">h", len(name)) + name + bytes(4) + b"\0\1m"
            yield raw_request(HEARTBEAT, 0, body, number), raw_response(b"\0\x1b", number)

    return capture(exchanges())


@attack(3_000)
def rebalances(count: int) -> Iterable[bytes]:
    """a group of three members that rebalances and never rests"""

    def frames() -> Iterator[bytes]:
        yield from pcap_frames(count)

    return pcap(frames())


def pcap_frames(count: int) -> Iterator[bytes]:
    """Yield the packets of three members that join over and over."""
    members = [f"m-{number}" for number in range(3)]
    talks = [
        iter(
            list(said((each for round_ in range(count) for each in _round(member, members, round_)), number))
        )
        for number, member in enumerate(members)
    ]
    while talks:
        for talk in list(talks):
            for _ in range(4):
                frame = next(talk, None)
                if frame is None:
                    talks.remove(talk)
                    break
                yield frame


def _subscription() -> bytes:
    return struct.pack(">hih", 0, 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">i", -1)


def _assignment(partition: int) -> bytes:
    return (
        struct.pack(">hih", 0, 1, len(TOPIC))
        + TOPIC.encode()
        + struct.pack(">ii", 1, partition)
        + struct.pack(">i", -1)
    )


def _round(
    member: str, members: list[str], generation: int, *, client_id: str = "", session_ms: int = 10_000
) -> Iterator[Exchange]:
    """Yield the requests of a member in one rebalance.

    :param client_id: the member ID by default
    """
    leads = member == members[0]
    protocols = [{"name": "range", "metadata": _subscription()}]
    joined = {
        "group_id": GROUP,
        "session_timeout_ms": session_ms,
        "rebalance_timeout_ms": 60_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    listed = [{"member_id": each, "metadata": _subscription()} for each in members] if leads else []
    answer = {
        "generation_id": generation,
        "protocol_name": "range",
        "leader": members[0],
        "member_id": member,
        "members": listed,
    }
    yield exchange(JOIN_GROUP, 5, joined, answer, generation * 2, client_id or member)
    shares = [{"member_id": each, "assignment": _assignment(number)} for number, each in enumerate(members)]
    synced = {
        "group_id": GROUP,
        "generation_id": generation,
        "member_id": member,
        "assignments": shares if leads else [],
    }
    yield exchange(
        SYNC_GROUP, 3, synced, {"assignment": _assignment(0)}, generation * 2 + 1, client_id or member
    )


@attack(10_000)
def members(count: int) -> Iterable[bytes]:
    """a group of ten thousand members: its leader is told all of them, and assigns to each"""
    names = [f"member-{number}" for number in range(count)]

    def exchanges() -> Iterator[Exchange]:
        for generation in range(3):
            yield from _round(names[0], names, generation)

    return capture(exchanges())


@attack(8_000)
def joining(count: int) -> Iterable[bytes]:
    """thousands of members that join one group one by one, each on its connection"""

    def frames() -> Iterator[bytes]:
        for number in range(count):
            name = f"member-{number}"
            yield from said(_round(name, ["other", name], number), number)

    return pcap(frames())


@attack(5_000)
def expelled(count: int) -> Iterable[bytes]:
    """members of one client ID and host that fall silent, each on a connection that the broker closes, or none does"""
    names = ["leader", *(f"member-{number}" for number in range(count))]

    def frames() -> Iterator[bytes]:
        leader = [
            *_round("leader", names, 1, client_id="app"),
            *_round("leader", ["leader"], 2, client_id="app"),
        ]
        for number, name in enumerate(names[1:], 1):
            exchanges = _round(name, ["leader", name], 1, client_id="app", session_ms=20)
            yield from said(exchanges, number, closed_by=1 if number % 2 else None)
        yield from said(leader)

    return pcap(frames())


@attack(5_000)
def broker_restarts(count: int) -> Iterable[bytes]:
    """a broker that closes the connection of a member, refuses the next one, and takes the one after that"""

    def frames() -> Iterator[bytes]:
        for number in range(count):
            name = f"member-{number}"
            yield from said(_round(name, [name], number, client_id="app"), 2 * number, closed_by=1)
            refused = Conversation(client(2 * number + 1), BROKER, number)
            yield refused.handshake()[0]
            yield refused.reset(1)

    return pcap(frames(), step=10_000_000)


@attack(100_000)
def lagging_partitions(count: int) -> Iterable[bytes]:
    """commits of as many partitions, of which some lag"""
    partitions = [
        {"partition_index": number, "committed_offset": number, "committed_metadata": None}
        for number in range(count)
    ]
    stored = [{"partition_index": number, "error_code": 0} for number in range(count)]
    ends = [
        {
            "partition_index": number,
            "high_watermark": number * 7,
            "aborted_transactions": None,
            "records": None,
        }
        for number in range(count)
    ]
    asked = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1} for number in range(count)]
    return capture(
        [
            exchange(
                FETCH,
                11,
                {"topics": [{"topic": TOPIC, "partitions": asked}]},
                {"responses": [{"topic": TOPIC, "partitions": ends}]},
                1,
            ),
            exchange(
                OFFSET_COMMIT,
                7,
                {"group_id": GROUP, "member_id": "m", "topics": [{"name": TOPIC, "partitions": partitions}]},
                {"topics": [{"name": TOPIC, "partitions": stored}]},
                2,
            ),
        ]
    )


@attack(30_000)
def commits(count: int) -> Iterable[bytes]:
    """commits of one partition, forwards and backwards"""
    rng = Random(8)

    def exchanges() -> Iterator[Exchange]:
        for number in range(count):
            body = (
                struct.pack(">h", len(GROUP))
                + GROUP.encode()
                + struct.pack(">i", 1)
                + struct.pack(">h", len(TOPIC))
            )
            body += TOPIC.encode() + struct.pack(">iiqh", 1, 0, rng.randrange(1 << 40), -1)
            answer = struct.pack(">ih", 1, len(TOPIC)) + TOPIC.encode() + struct.pack(">iih", 1, 0, 0)
            yield raw_request(OFFSET_COMMIT, 0, body, number), raw_response(answer, number)

    return capture(exchanges())


@attack(10_000)
def journeys(count: int) -> Iterable[bytes]:
    """records that are produced again and again at the same offsets, and fetched by every client"""
    batch = build_batch([Record(number, 0, b"k9", b"v", ()) for number in range(5)])

    def exchanges() -> Iterator[Exchange]:
        for number in range(count // 2):
            yield produced(batch, number)
            yield fetched(batch, number)

    return capture(exchanges())


@attack(10_000)
def transactions(count: int) -> Iterable[bytes]:
    """transactional IDs of one transaction each, that never ends"""

    def exchanges() -> Iterator[Exchange]:
        for number in range(count):
            name = f"txn-{number}"
            yield exchange(
                INIT_PRODUCER_ID,
                1,
                {"transactional_id": name, "transaction_timeout_ms": 60_000},
                {"producer_id": number, "producer_epoch": 0},
                number * 2,
            )
            added = [{"name": TOPIC, "partitions": (0, 1)}]
            yield exchange(
                ADD_PARTITIONS,
                1,
                {
                    "v3_and_below_transactional_id": name,
                    "v3_and_below_producer_id": number,
                    "v3_and_below_producer_epoch": 0,
                    "v3_and_below_topics": added,
                },
                {"results_by_topic_v3_and_below": []},
                number * 2 + 1,
            )

    return capture(exchanges())


@attack(60_000)
def errors(count: int) -> Iterable[bytes]:
    """answers with every error code there is, and those that there are not"""

    def exchanges() -> Iterator[Exchange]:
        for number in range(count):
            yield heartbeat()[0], raw_response(bytes(4) + struct.pack(">h", number % 65_536 - 32_768))

    return capture(exchanges())
