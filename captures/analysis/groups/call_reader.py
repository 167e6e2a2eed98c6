"""Reads calls of members from exchanges.

Fields that are missing in a body, because it was cut off or its version lacks them, keep their defaults; exchanges
without enough information are no calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.groups.calls import (
    HEARTBEATS,
    OF_MEMBERS,
    Call,
    Commit,
    HeartbeatRun,
    Join,
    Leave,
    ModernHeartbeatRun,
    Subscription,
    Sync,
    WorkerOrders,
)
from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.vocabulary import CONNECT, Kind
from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.meaning import Names
from captures.meaning.assignments import (
    assigned_partitions,
    embedded_value,
    heartbeat_tasks,
    partitions_of,
    synced,
    synced_tasks,
    tasks_of,
    worker_tasks,
)
from captures.meaning.exchange import Body, items, number, rows, text
from dissectors.api_keys import ApiKey
from dissectors.session_context import SessionContext
from dissectors.units import MS

_Found = TypeVar("_Found")


def read_call(
    exchange: Exchange, names: Names, protocol_type: str = "", *, pending: bool = False
) -> Call | None:
    """Return the call in an exchange; None if it is not a call of a member, or too little of it is known.

    :param names: resolves topic IDs
    :param protocol_type: protocol type of the group, if known from earlier calls
    :param pending: whether the exchange may still be answered
    """
    read = _READERS.get(-1 if exchange.api_key is None else exchange.api_key)
    if read is None or exchange.request is None or not exchange.request.value:
        return None
    request = exchange.request.value
    response = exchange.response_body
    common: dict[str, Any] = {
        "number": exchange.number,
        "time": exchange.time,
        "end": exchange.answered_at,
        "pending": pending and exchange.answered_at is None,
        "connection": exchange.connection,
        "client": client_name(exchange),
        "host": exchange.client.rpartition(":")[0],
        "broker": exchange.broker,
    }
    return read(common, exchange, request, response, _CallContext(names, protocol_type))


class _CallContext(msgspec.Struct, frozen=True):
    names: Names
    protocol_type: str


def _join(common: dict[str, Any], _: Exchange, request: Body, response: Body, reading: _CallContext) -> Call:
    protocol_type = text(request, "protocol_type") or reading.protocol_type
    protocols = rows(request, "protocols")
    first = protocols[0] if protocols else {}
    error = number(response, "error_code", 0)
    session = number(request, "session_timeout_ms")
    rebalance = number(request, "rebalance_timeout_ms")
    chosen = text(response, "protocol_name")
    members = rows(response, "members")
    metadata = first.get("metadata")
    member = text(request, "member_id") or text(response, "member_id")
    worker = _worker(metadata, protocol_type, text(first, "name"))
    config_offset = worker.get("config_offset")
    of_members = [(text(row, "member_id"), row.get("metadata")) for row in members]
    running = _read_each(of_members, lambda data: _running(_worker(data, protocol_type, chosen)))
    if (mine := _running(worker)) is not None:
        running[member] = mine
    return Join(
        **common,
        member=member,
        instance=request.get("group_instance_id"),
        error=error,
        asked_as=text(request, "member_id"),
        protocol_type=protocol_type,
        reason=text(request, "reason"),
        protocols=tuple(text(row, "name") for row in protocols),
        subscription=_subscription(metadata, protocol_type, text(first, "name")),
        metadata=metadata if isinstance(metadata, bytes) else b"",
        answered=-1 if error else number(response, "generation_id"),
        chosen=chosen,
        leader=text(response, "leader"),
        members={text(row, "member_id"): row.get("group_instance_id") for row in members},
        subscriptions=_read_each(of_members, lambda data: _subscription(data, protocol_type, chosen)),
        skip=bool(response.get("skip_assignment")),
        session_timeout=session * MS if session > 0 else None,
        # before KIP-62 the session timeout also limited the time to join
        rebalance_timeout=(rebalance if rebalance > 0 else session) * MS
        if max(rebalance, session) > 0
        else None,
        config_offset=config_offset if isinstance(config_offset, int) else None,
        running=running,
        one_timeout=rebalance <= 0,
    )


def _sync(common: dict[str, Any], _: Exchange, request: Body, response: Body, reading: _CallContext) -> Call:
    protocol_type = text(request, "protocol_type") or text(response, "protocol_type") or reading.protocol_type
    error = number(response, "error_code", 0)
    protocol = text(response, "protocol_name") or text(request, "protocol_name")
    leader_gives = rows(request, "assignments")
    member = text(request, "member_id")
    given = [(text(row, "member_id"), row.get("assignment")) for row in leader_gives]
    own = [(member, response.get("assignment"))] if response and not error else []
    known = _read_each(given, lambda data: synced(data, protocol_type, protocol))
    return Sync(
        **common,
        member=member,
        instance=request.get("group_instance_id"),
        generation=number(request, "generation_id"),
        error=error,
        protocol_type=protocol_type,
        protocol=protocol,
        assigned=synced(own[0][1], protocol_type, protocol) if own else None,
        given=known,
        gives_all=bool(leader_gives) and len(known) == len(leader_gives),
        orders=_read_each([*given, *own], lambda data: _orders(data, protocol_type, protocol)),
        tasks=_read_each([*given, *own], lambda data: synced_tasks(data, protocol_type, protocol)),
    )


def _read_each(
    of_members: Iterable[tuple[str, Any]], read: Callable[[Any], _Found | None]
) -> dict[str, _Found]:
    """Return member ID -> what is read from its bytes, for members of which these can be read."""
    return {member: found for member, data in of_members if (found := read(data)) is not None}


def _run(common: dict[str, Any], request: Body, generation: str) -> dict[str, Any]:
    return common | {
        "member": text(request, "member_id"),
        "instance": request.get("group_instance_id"),
        "generation": number(request, generation),
    }


def _beat(common: dict[str, Any], _: Exchange, request: Body, response: Body, __: _CallContext) -> Call:
    return HeartbeatRun(**_run(common, request, "generation_id"), error=number(response, "error_code", 0))


def _commit(
    common: dict[str, Any], exchange: Exchange, request: Body, response: Body, _: _CallContext
) -> Call:
    transactional = exchange.api_key == ApiKey.TXN_OFFSET_COMMIT
    generation = "generation_id" if transactional else "generation_id_or_member_epoch"
    codes = [
        number(row, "error_code", 0)
        for topic in rows(response, "topics")
        for row in rows(topic, "partitions")
    ]
    error = number(response, "error_code", 0) or next((code for code in codes if code), 0)
    return Commit(**_run(common, request, generation), error=error, transactional=transactional)


def _leave(common: dict[str, Any], _: Exchange, request: Body, response: Body, __: _CallContext) -> Call:
    answered = rows(response, "members")
    gone = []
    for index, row in enumerate(rows(request, "members") or [request]):
        code = number(answered[index], "error_code", 0) if index < len(answered) else 0
        gone.append((text(row, "member_id"), row.get("group_instance_id"), text(row, "reason"), code))
    first = gone[0]
    alone = len(gone) == 1
    return Leave(
        **common,
        member=first[0] if alone else "",
        instance=first[1] if alone else None,
        error=number(response, "error_code", 0) or (first[3] if alone else 0),
        gone=gone,
    )


def _modern(
    common: dict[str, Any], exchange: Exchange, request: Body, response: Body, reading: _CallContext
) -> Call:
    kind = HEARTBEATS[exchange.api_key or 0]
    error = number(response, "error_code", 0)
    interval = number(response, "heartbeat_interval_ms")
    timeout = number(request, "rebalance_timeout_ms")
    epoch = response.get("member_epoch")
    topology = request.get("topology")
    if kind is Kind.STREAMS:
        tasks = heartbeat_tasks(response)
        owned, assigned = tasks_of(request, "active_tasks"), tasks.active
        topics, pattern = _sources(topology)
    else:
        owned, tasks = partitions_of(request.get("topic_partitions"), reading.names), None
        assigned = assigned_partitions(response, reading.names)
        named = request.get("subscribed_topic_names")
        topics = tuple(items(request, "subscribed_topic_names")) if named is not None else None
        pattern = request.get("subscribed_topic_regex")
    return ModernHeartbeatRun(
        **_run(common, request, "member_epoch")
        | {
            "member": text(request, "member_id") or text(response, "member_id"),
            "instance": request.get("instance_id"),
        },
        kind=kind,
        error=error,
        epoch=epoch if not error and isinstance(epoch, int) else None,
        owned=owned,
        assigned=None if error else assigned,
        tasks=None if error else tasks,
        topics=topics,
        pattern=pattern,
        assignor=text(request, "server_assignor"),
        rack=text(request, "rack_id"),
        interval=interval * MS if interval > 0 else None,
        rebalance_timeout=timeout * MS if timeout > 0 else None,
        message=text(response, "error_message"),
        status=tuple(
            (number(row, "status_code"), text(row, "status_detail")) for row in rows(response, "status")
        ),
        topology=number(topology, "epoch") if isinstance(topology, dict) else None,
    )


def _sources(topology: Any) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the source topics and the pattern of a streams topology; both None if there is no topology."""
    if not isinstance(topology, Mapping):
        return None, None
    parts = rows(topology, "subtopologies")
    topics = {topic for row in parts for topic in items(row, "source_topics") if isinstance(topic, str)}
    patterns = {each for row in parts for each in items(row, "source_topic_regex") if isinstance(each, str)}
    return tuple(sorted(topics)), "|".join(sorted(patterns)) or None


def _subscription(data: Any, protocol_type: str, protocol: str) -> Subscription | None:
    value = embedded_value("group_metadata", data, protocol_type, protocol)
    if value is None or not isinstance(value.get("topics"), list | tuple):
        return None
    return Subscription(
        topics=tuple(sorted(topic for topic in value["topics"] if isinstance(topic, str))),
        owned=partitions_of(value.get("owned_partitions"), lambda _: None),
        generation=number(value, "generation_id"),
        rack=text(value, "rack_id"),
    )


def _worker(data: Any, protocol_type: str, protocol: str) -> Mapping[str, Any]:
    """Return the metadata of a joining worker of Kafka Connect; empty if it is none."""
    if protocol_type != CONNECT:
        return {}
    return embedded_value("group_metadata", data, protocol_type, protocol) or {}


def _running(worker: Mapping[str, Any]) -> frozenset[TopicPartition] | None:
    """Return what a joining worker runs; None if the protocol has no such field, like the eager one."""
    if "allocation" not in worker:
        return None
    allocation = worker["allocation"]
    return worker_tasks(allocation.get("assigned")) if isinstance(allocation, Mapping) else frozenset()


def _orders(data: Any, protocol_type: str, protocol: str) -> WorkerOrders | None:
    if protocol_type != CONNECT:
        return None
    value = embedded_value("group_assignment", data, protocol_type, protocol)
    if value is None:
        return None
    return WorkerOrders(
        runs=worker_tasks(value.get("assigned")),
        revoked=worker_tasks(value.get("revoked")),
        incremental="revoked" in value,  # otherwise the eager protocol, the first version
        delay=max(number(value, "delay", 0), 0) * MS,
        behind=bool(value.get("error")),
    )


_READERS = {
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.TXN_OFFSET_COMMIT: _commit,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.HEARTBEAT: _beat,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.SYNC_GROUP: _sync,
    **dict.fromkeys(HEARTBEATS, _modern),
}


def pending_calls(capture: Capture, knowledge: SessionContext) -> list[Exchange]:
    """Return the calls of members that may still be answered; they have no numbers yet, so these are 0.

    :param knowledge: session context of the reader that decodes the capture
    """
    rows = capture.unfinished_rows()
    rows = rows[np.isin(capture.table.column("api_key")[rows], sorted(OF_MEMBERS))]
    reader = ExchangeReader(capture, annotate=False, summary=False, live=True, knowledge=knowledge)
    reader.extend(rows)
    made = list(reader)
    for exchange in made:
        exchange.number = 0
    return made
