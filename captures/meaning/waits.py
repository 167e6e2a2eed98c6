"""Latency by design, told apart from slowness.

Kafka has requests that are held back on purpose: long polls, barriers of group members, quotas. What is given here is
the part of an exchange's latency that its messages account for; the rest is work, network, or trouble. Where messages
cannot tell (acks=all waits for followers, CreateTopics for brokers), nothing is taken off.
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
"""A shorter wait cannot be distinguished from work, and does not count as one."""

POLLS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_NOTHING: Body = {}
_PARKED_ERRORS = frozenset({
    ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
})  # fmt: skip
"""A member leaves the barrier with these: done, coordinator moved, expelled, overtaken, fenced. Others come at once."""
_ENDING_ERRORS = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
})  # fmt: skip
"""What ends a Fetch that is held already: topic gone, leader moved, disk failed, epoch fenced (DelayedFetch.scala)."""

Wait = tuple[int, str]
Read = tuple[int, bool]
"""Bytes of records in a response, and whether all of them were only just written."""
NO_WAIT: Wait = (0, "")
THROTTLED = "throttled by a quota"
_FOR_EVER = 1 << 62
"""ns; the message does not say how long."""


_POLL_ASKED = frozenset({
    "max_wait_ms", "min_bytes", "replica_id", "replica_state.replica_id", "topics.topic", "topics.topic_id",
})  # fmt: skip
_POLL_ANSWERED = frozenset({
    "error_code", "responses.topic", "responses.topic_id", "responses.partitions.error_code",
    "responses.partitions.high_watermark", "responses.partitions.records",
})  # fmt: skip
_ASKED: dict[int, frozenset[str]] = {
    ApiKey.FETCH: _POLL_ASKED,
    ApiKey.JOIN_GROUP: frozenset({"rebalance_timeout_ms", "session_timeout_ms"}),
    ApiKey.SYNC_GROUP: frozenset({"assignments.member_id"}),
    ApiKey.SHARE_FETCH: _POLL_ASKED,
}
_ANSWERED: dict[int, frozenset[str]] = {
    ApiKey.FETCH: _POLL_ANSWERED,
    ApiKey.JOIN_GROUP: frozenset({"error_code", "generation_id"}),
    ApiKey.SYNC_GROUP: frozenset({"error_code"}),
    ApiKey.SHARE_FETCH: _POLL_ANSWERED,
}
_THROTTLE = frozenset({"throttle_time_ms"})


def wait_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return what :func:`designed_wait_ns` reads of a body."""
    if side == "request":
        return _ASKED.get(key, frozenset())
    return _ANSWERED.get(key, frozenset()) | _THROTTLE


def designed_wait_ns(
    key: int,
    version: int,
    request_body: Body | None,
    response_body: Body | None,
    latency_ns: int,
) -> Wait:
    """Return how much of a latency is waiting by design, in ns, and why; ``(0, "")`` if none is.

    The wait is never more than the latency, so ``latency_ns - wait`` is the excess.

    :param version: of the request
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
    """Return how long a response was held back at most because of a quota.

    Brokers before 2.0 hold the answer back; later ones answer at once and mute the connection (KIP-219). The latency
    tells which it was.
    """
    return number(response, "throttle_time_ms", 0) * MS


def longest_wait(key: int, version: int, request: Body, response: Body, read: Read | None = None) -> Wait:
    """Return how long an exchange may have waited by design, throttling apart, in ns, and why.

    :param read: what the records fields of a poll hold, where that is known; it is looked up if None
    """
    if key in POLLS:
        return _poll(key, request, response, read)
    if key == ApiKey.JOIN_GROUP:
        return _barrier(version, request, response)
    return _follower(request, response) if key == ApiKey.SYNC_GROUP else NO_WAIT


def _poll(key: int, request: Body, response: Body, read: Read | None) -> Wait:
    """Fetch and ShareFetch are held until ``min_bytes`` are there or ``max_wait_ms`` are over."""
    if response.get("error_code"):
        return NO_WAIT
    longest = number(request, "max_wait_ms", 0) * MS
    raft = _of_the_quorum(request) or _of_the_quorum(response)
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
            at_the_end = at_the_end and _only_just_written(key, row, data)
    if read is not None:
        got, at_the_end = read
    at_the_end = at_the_end or raft
    if got < least:
        follower = replica_of(request) >= 0
        return longest, "replica waiting for new records" if follower else "long poll: nothing new to read"
    # A single batch up to the high watermark is what ends the poll of a reader who had everything else before. Where
    # more lies ready, the answer had nothing to wait for.
    return (longest, "waiting for new records") if at_the_end else NO_WAIT


def least_bytes(request: Body, response: Body) -> int:
    """Return how many bytes end a poll; it waits for none if they are not more than 0."""
    if _of_the_quorum(request) or _of_the_quorum(response):
        # the quorum's leader waits for new records whatever min_bytes says (KafkaRaftClient.java)
        return 1
    return number(request, "min_bytes", 0)


def _partitions(response: Body) -> list[Body]:
    return [row for topic in rows(response, "responses") for row in rows(topic, "partitions")]


def _of_the_quorum(body: Body) -> bool:
    for topic in rows(body, "topics") or rows(body, "responses"):
        return topic.get("topic_id") == CLUSTER_METADATA_ID or topic.get("topic") == "__cluster_metadata"
    return False


def _only_just_written(key: int, row: Body, data: bytes) -> bool:
    batches = headers(data)
    if len(batches) != 1:
        return False
    # ShareFetch tells no high watermark
    return key == ApiKey.SHARE_FETCH or batches[0].last_offset + 1 >= number(row, "high_watermark", 0)


def _barrier(version: int, request: Body, response: Body) -> Wait:
    """JoinGroup is answered when all members have joined, or their time to do so is over."""
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


def _follower(request: Body, response: Body) -> Wait:
    """SyncGroup is answered when the leader has sent its own, which carries the assignments."""
    if number(response, "error_code", 0) not in _PARKED_ERRORS or rows(request, "assignments"):
        return NO_WAIT
    return _FOR_EVER, "waiting for the group leader's assignments"
