"""Latency by design, as distinct from slowness.

Kafka holds back some requests on purpose: long polls, barriers of group members, quotas. These functions return
the part of an exchange's latency that its messages account for; the rest is work, network, or trouble. If the messages
cannot show it (acks=all waits for followers, CreateTopics for brokers), nothing is subtracted.
"""

from __future__ import annotations

from captures.meaning.exchange import Body, number, replica_of, rows
from captures.meaning.payload import headers
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.session_context import CLUSTER_METADATA_ID
from dissectors.sides import Side
from dissectors.units import MS

LEAST_WAIT_NS = 5_000_000
"""A shorter wait cannot be distinguished from work and does not count."""

POLLS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_NOTHING: Body = {}
_PARKED_ERRORS = frozenset({
    ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
})  # fmt: skip
"""Errors after the barrier: none, coordinator moved, expelled, overtaken, fenced. Others are returned at once."""
_ENDING_ERRORS = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
})  # fmt: skip
"""Errors that end a held Fetch: topic deleted, leader moved, disk failed, epoch fenced (DelayedFetch.scala)."""

Wait = tuple[int, str]
Read = tuple[int, bool]
"""Bytes of records in a response, and whether all of them were just written."""
NO_WAIT: Wait = (0, "")
THROTTLED = "throttled by a quota"
_FOR_EVER = 1 << 62
"""ns; the message does not limit the wait."""


_POLL_REQUEST_FIELDS = frozenset({
    "max_wait_ms", "min_bytes", "replica_id", "replica_state.replica_id", "topics.topic", "topics.topic_id",
})  # fmt: skip
_POLL_RESPONSE_FIELDS = frozenset({
    "error_code", "responses.topic", "responses.topic_id", "responses.partitions.error_code",
    "responses.partitions.high_watermark", "responses.partitions.records",
})  # fmt: skip
_REQUEST_FIELDS: dict[int, frozenset[str]] = {
    ApiKey.FETCH: _POLL_REQUEST_FIELDS,
    ApiKey.JOIN_GROUP: frozenset({"rebalance_timeout_ms", "session_timeout_ms"}),
    ApiKey.SYNC_GROUP: frozenset({"assignments.member_id"}),
    ApiKey.SHARE_FETCH: _POLL_REQUEST_FIELDS,
}
_RESPONSE_FIELDS: dict[int, frozenset[str]] = {
    ApiKey.FETCH: _POLL_RESPONSE_FIELDS,
    ApiKey.JOIN_GROUP: frozenset({"error_code", "generation_id"}),
    ApiKey.SYNC_GROUP: frozenset({"error_code"}),
    ApiKey.SHARE_FETCH: _POLL_RESPONSE_FIELDS,
}
_THROTTLE = frozenset({"throttle_time_ms"})


def wait_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths that :func:`designed_wait_ns` reads in a body."""
    if side == "request":
        return _REQUEST_FIELDS.get(key, frozenset())
    return _RESPONSE_FIELDS.get(key, frozenset()) | _THROTTLE


def designed_wait_ns(
    key: int,
    version: int,
    request_body: Body | None,
    response_body: Body | None,
    latency_ns: int,
) -> Wait:
    """Return the part of a latency that is waiting by design, in ns, and the reason; ``(0, "")`` if there is none.

    The wait is never more than the latency, so ``latency_ns - wait`` is the excess.

    :param version: version of the request
    :param latency_ns: first byte of the request to the last of the response; -1 if unknown
    """
    if latency_ns < LEAST_WAIT_NS or not response_body:
        return NO_WAIT
    limit, why = longest_wait(key, version, request_body or _NOTHING, response_body)
    throttled = throttle_ns(response_body)
    if LEAST_WAIT_NS <= throttled <= latency_ns and throttled > limit:
        limit, why = throttled, THROTTLED
    wait = min(limit, latency_ns)
    return (wait, why) if wait >= LEAST_WAIT_NS else NO_WAIT


def throttle_ns(response: Body) -> int:
    """Return the maximum time that a quota held back a response, in ns.

    Brokers before 2.0 hold back the response; later ones answer at once and mute the connection (KIP-219). The latency
    shows which one it was.
    """
    return number(response, "throttle_time_ms", 0) * MS


def longest_wait(key: int, version: int, request: Body, response: Body, read: Read | None = None) -> Wait:
    """Return how long an exchange may have waited by design, apart from throttling, in ns, and the reason.

    :param read: summary of a poll's records fields, if known; computed if None
    """
    if key in POLLS:
        return _poll(key, request, response, read)
    if key == ApiKey.JOIN_GROUP:
        return _barrier(version, request, response)
    return _leader_wait(request, response) if key == ApiKey.SYNC_GROUP else NO_WAIT


def _poll(key: int, request: Body, response: Body, read: Read | None) -> Wait:
    """Return the wait of Fetch and ShareFetch, held until ``min_bytes`` are available or ``max_wait_ms`` passed."""
    if response.get("error_code"):
        return NO_WAIT
    longest = number(request, "max_wait_ms", 0) * MS
    raft = _is_quorum(request) or _is_quorum(response)
    least = least_bytes(request, response)
    if longest <= 0 or least <= 0:
        return NO_WAIT
    got, at_the_end = 0, True
    for row in _partitions(response):
        code = row.get("error_code")
        if code in _ENDING_ERRORS:
            return longest, "long poll, ended by a change of leader"
        if code:
            return NO_WAIT
        data = row.get("records") if read is None else None
        if data and isinstance(data, bytes):
            got += len(data)
            at_the_end = at_the_end and _reaches_log_end(key, row, data)
    if read is not None:
        got, at_the_end = read
    at_the_end = at_the_end or raft
    if got < least:
        follower = replica_of(request) >= 0
        return longest, "replica waiting for new records" if follower else "long poll: nothing new to read"
    # A single batch up to the high watermark ends the poll of a reader that had everything before it. If
    # more is available, the response had nothing to wait for.
    return (longest, "waiting for new records") if at_the_end else NO_WAIT


def least_bytes(request: Body, response: Body) -> int:
    """Return the number of bytes that end a poll; if it is not positive, the poll does not wait."""
    if _is_quorum(request) or _is_quorum(response):
        # the quorum's leader waits for new records regardless of min_bytes (KafkaRaftClient.java)
        return 1
    return number(request, "min_bytes", 0)


def _partitions(response: Body) -> list[Body]:
    return [row for topic in rows(response, "responses") for row in rows(topic, "partitions")]


def _is_quorum(body: Body) -> bool:
    for topic in rows(body, "topics") or rows(body, "responses"):
        return topic.get("topic_id") == CLUSTER_METADATA_ID or topic.get("topic") == "__cluster_metadata"
    return False


def _reaches_log_end(key: int, row: Body, data: bytes) -> bool:
    batches = headers(data)
    if len(batches) != 1:
        return False
    # ShareFetch has no high watermark
    return key == ApiKey.SHARE_FETCH or batches[0].last_offset + 1 >= number(row, "high_watermark", 0)


def _barrier(version: int, request: Body, response: Body) -> Wait:
    """Return the wait of JoinGroup, which is answered when all members have joined or their time is over."""
    if number(response, "error_code", 0) not in _PARKED_ERRORS:
        return NO_WAIT
    # Version 0 has no timeout of its own for rebalances (KIP-62)
    longest = number(request, "rebalance_timeout_ms" if version else "session_timeout_ms", 0)
    first = number(response, "generation_id") == 1
    why = (
        "first generation: group.initial.rebalance.delay.ms"
        if first
        else "waiting for the group's members to join"
    )
    return max(longest, 0) * MS, why


def _leader_wait(request: Body, response: Body) -> Wait:
    """Return the wait of SyncGroup, which is answered once the leader has sent its own with the assignments."""
    if number(response, "error_code", 0) not in _PARKED_ERRORS or rows(request, "assignments"):
        return NO_WAIT
    return _FOR_EVER, "waiting for the group leader's assignments"
