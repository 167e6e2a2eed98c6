"""Summaries of Produce, Fetch and the APIs about offsets in a log."""

from __future__ import annotations

from collections.abc import Sequence

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import (
    Bodies,
    Body,
    SummaryWriter,
    fields,
    inner,
    items,
    number,
    replica_of,
    rows,
    text,
)
from captures.meaning.payload import payload
from captures.meaning.words import join, listed
from dissectors.api_keys import ApiKey
from dissectors.domains import LIST_OFFSETS_TIMESTAMP

READ_COMMITTED = 1
ACKS_ALL = -1
_LONG_POLL_SHARE = 0.8


def offsets(pairs: Sequence[tuple[str, Body]], field: str, alone: str) -> str:
    """Return offsets by partition; for a single partition, which the request has named, only the offset."""
    if len(pairs) == 1:
        return f"{alone} {pairs[0][1].get(field, '?')}"
    return topic_partitions.at(pairs, field)


# ---------------------------------------------------------------- Produce
def _produce_request(x: Bodies) -> str:
    topics = rows(x.request, "topic_data")
    acks = number(x.request, "acks", ACKS_ALL)
    transaction = text(x.request, "transactional_id")
    return join(
        topic_partitions.topics_text(topics, x.names),
        "" if acks == ACKS_ALL else f"acks={acks}",
        payload([row.get("records") for _, row in topic_partitions.each(topics, x.names)]).text(),
        f"in {transaction}" if transaction else "",
    )


def _produce_response(x: Bodies) -> str:
    return (
        offsets(topic_partitions.each(rows(x.response, "responses"), x.names), "base_offset", "at offset")
        or "ok"
    )


def _produce_errors(x: Bodies) -> str:
    rejected = 0
    for _, row in topic_partitions.each(rows(x.response, "responses"), x.names):
        rejected += len(rows(row, "record_errors"))
    return listed((leaders(x), f"{words.counted(rejected, 'record')} rejected" if rejected else ""))


def leaders(x: Bodies) -> str:
    """Return the leaders that the response names instead (KIP-951, KIP-595)."""
    found = {
        number(inner(row, "current_leader"), "leader_id")
        for _, row in topic_partitions.each(rows(x.response, "responses"), x.names)
        if row.get("error_code")
    }
    found.discard(-1)
    return f"leader is broker {words.plain(sorted(found))}" if found else ""


# ---------------------------------------------------------------- Fetch
def _fetch_request(x: Bodies) -> str:
    request = x.request
    replica = replica_of(request)
    level = number(request, "isolation_level", 0)
    return join(
        f"replica {replica}" if replica >= 0 else "",
        session(x, number(request, "session_id", 0), number(request, "session_epoch")),
        wait(request),
        "read_committed" if level == READ_COMMITTED else "",
    )


def session(x: Bodies, session_id: int, epoch: int) -> str:
    """Return the fetched partitions; in a session, unchanged ones may be omitted (KIP-227)."""
    named = topic_partitions.requested(x)
    dropped = topic_partitions.requested(x, "forgotten_topics_data")
    forgotten = listed((named, f"without {dropped}" if dropped else ""))
    if epoch == -1 and session_id:
        return listed((forgotten, "end of session"))
    if forgotten or "topics" not in x.request:
        return forgotten
    return "as before" if epoch > 0 else "nothing"


def wait(request: Body) -> str:
    """Return how long the broker may hold back the response."""
    longest = request.get("max_wait_ms")
    if longest is None:
        return ""
    return f"wait {longest}ms" if longest > 0 else "no wait"


def _fetch_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "responses"), x.names)
    return listed((records_text(pairs) or empty(x), *aside(pairs)))


def records_text(pairs: Sequence[tuple[str, Body]]) -> str:
    """Return the text of all records in a response, with their partitions; empty if there are none."""
    full: dict[str, list[int]] = {}
    for name, row in pairs:
        if row.get("records"):
            full.setdefault(name, []).append(number(row, "partition_index"))
    if not full:
        return ""
    records = payload([row.get("records") for _, row in pairs]).text() or "records"
    return f"{records} {topic_partitions.groups_text(full)}"


def empty(x: Bodies) -> str:
    """Return the text of a response without records; it mentions a long poll."""
    longest = number(x.request, "max_wait_ms", 0)
    waited = round(x.latency_ns / 1_000_000)
    if longest > 0 and waited >= longest * _LONG_POLL_SHARE:
        return f"empty (waited {waited})"
    return "empty"


def aside(pairs: Sequence[tuple[str, Body]]) -> list[str]:
    """Return the instructions in the response: read from another replica, truncate, load a snapshot."""
    out = []
    for name, row in pairs:
        replica = number(row, "preferred_read_replica")
        if replica >= 0:
            out.append(f"read {name} from broker {replica}")
        diverging = number(inner(row, "diverging_epoch"), "end_offset")
        if diverging >= 0:
            out.append(f"{name} diverges: truncate to {diverging}")
        snapshot = number(inner(row, "snapshot_id"), "end_offset")
        if snapshot >= 0:
            out.append(f"{name} begins at a snapshot: {snapshot}")
        if len(out) >= words.SHOWN:
            break
    return list(dict.fromkeys(out))


def _fetch_errors(x: Bodies) -> str:
    topics = rows(x.response, "responses")
    good = any(row.get("records") for _, row in topic_partitions.each(topics, x.names))
    return listed((leaders(x), _fetch_response(x) if good else ""))


# ---------------------------------------------------------------- offsets in a log
def _list_offsets_request(x: Bodies) -> str:
    topics = rows(x.request, "topics")
    times = {
        row["timestamp"]
        for _, row in topic_partitions.each(topics, x.names)
        if isinstance(row.get("timestamp"), int)
    }
    special = LIST_OFFSETS_TIMESTAMP
    parts = [
        words.value_name(special, time) if time in special.values else f"at {words.moment(time)}"
        for time in sorted(times, reverse=True)
    ]
    level = number(x.request, "isolation_level", 0)
    return join(
        topic_partitions.topics_text(topics, x.names),
        words.some(parts),
        "read_committed" if level == READ_COMMITTED else "",
    )


def _list_offsets_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "topics"), x.names)
    if not any("offset" in row for _, row in pairs):
        return old_offsets(pairs)
    if len(pairs) == 1 and pairs[0][1].get("offset") == -1:
        return "no offset"
    return offsets(pairs, "offset", "offset")


def old_offsets(pairs: Sequence[tuple[str, Body]]) -> str:
    """Return the text of a version 0 response, which lists the starts of segments."""
    if len(pairs) == 1:
        found = items(pairs[0][1], "old_style_offsets")
        return f"offset {words.plain(found[: words.SHOWN])}" if found else "no offset"
    return words.counted(len(pairs), "partition") if pairs else "nothing"


def _leader_epoch_request(x: Bodies) -> str:
    topics = rows(x.request, "topics")
    epochs = {number(row, "leader_epoch") for _, row in topic_partitions.each(topics, x.names)}
    replica = number(x.request, "replica_id")
    return join(
        f"replica {replica}" if replica >= 0 else "",
        topic_partitions.topics_text(topics, x.names),
        f"end of epoch {words.ranges(epochs)}" if epochs else "",
    )


def _leader_epoch_response(x: Bodies) -> str:
    return (
        offsets(topic_partitions.each(rows(x.response, "topics"), x.names), "end_offset", "ends at")
        or "nothing"
    )


def _delete_records_request(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.request, "topics"), x.names)
    if len(pairs) == 1 and pairs[0][1].get("offset") == -1:
        return f"{topic_partitions.requested(x)}  all"
    shown = topic_partitions.at(pairs, "offset")
    return f"before {shown}" if shown else ""


def _delete_records_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "topics"), x.names)
    return offsets(pairs, "low_watermark", "log begins at") or "ok"


def _describe_producers_response(x: Bodies) -> str:
    producers = [
        producer
        for _, row in topic_partitions.each(rows(x.response, "topics"), x.names)
        for producer in rows(row, "active_producers")
    ]
    open_ones = sum(number(producer, "current_txn_start_offset") >= 0 for producer in producers)
    counted = words.counted(len(producers), "producer")
    return f"{counted}, {words.counted(open_ones, 'open transaction')}" if open_ones else counted


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.PRODUCE: SummaryWriter(
        _produce_request,
        _produce_response,
        _produce_errors,
        unread=fields("response", "responses.partition_responses", "log_append_time_ms", "log_start_offset"),
        inserted=fields("response", "responses.partition_responses", "base_offset"),
    ),
    ApiKey.FETCH: SummaryWriter(
        _fetch_request,
        _fetch_response,
        _fetch_errors,
        unread=fields(
            "request",
            "topics.partitions",
            "current_leader_epoch",
            "fetch_offset",
            "last_fetched_epoch",
            "log_start_offset",
        )
        | fields("response", "", "session_id")
        | fields(
            "response",
            "responses.partitions",
            "high_watermark",
            "last_stable_offset",
            "log_start_offset",
            "aborted_transactions.producer_id",
            "aborted_transactions.first_offset",
        ),
        inserted=fields("request", "", "session_id", "session_epoch"),
    ),
    ApiKey.LIST_OFFSETS: SummaryWriter(
        _list_offsets_request,
        _list_offsets_response,
        unread=fields("response", "topics.partitions", "timestamp", "leader_epoch"),
        inserted=fields("response", "topics.partitions", "offset"),
    ),
    ApiKey.DELETE_RECORDS: SummaryWriter(_delete_records_request, _delete_records_response),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: SummaryWriter(_leader_epoch_request, _leader_epoch_response),
    ApiKey.DESCRIBE_PRODUCERS: SummaryWriter(topic_partitions.requested, _describe_producers_response),
}
