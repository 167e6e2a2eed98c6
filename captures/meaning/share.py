"""Summaries of share groups (KIP-932): membership, delivery, acknowledgement, and their state at the coordinator."""

from __future__ import annotations

from collections import Counter

from captures.meaning import topic_partitions, words
from captures.meaning.data import empty, offsets, records_text, wait
from captures.meaning.exchange import Bodies, Body, SummaryWriter, items, number, ok, rows, text
from captures.meaning.groups import describe_response, group, groups_request, modern_request, modern_response
from captures.meaning.words import join, listed, member
from dissectors.api_keys import ApiKey

_ACKNOWLEDGE = {0: "gap", 1: "accept", 2: "release", 3: "reject", 4: "renew"}


# ---------------------------------------------------------------- delivery
def _who(x: Bodies) -> str:
    return " ".join(part for part in (group(x), member(x.request.get("member_id"))) if part)


def acknowledged(x: Bodies) -> str:
    """Return the number of offsets by type of acknowledgement: ``accept 35, release 2``.

    A single type applies to all offsets of a batch, several types to one offset each (ShareAcknowledgeRequest.json).
    """
    totals: Counter[str] = Counter()
    for _, row in topic_partitions.each(rows(x.request, "topics"), x.names):
        for batch in rows(row, "acknowledgement_batches"):
            types = items(batch, "acknowledge_types")
            if len(types) == 1:
                length = number(batch, "last_offset", 0) - number(batch, "first_offset", 0) + 1
                totals[_ACKNOWLEDGE.get(types[0], "?")] += max(length, 0)
            else:
                totals.update(_ACKNOWLEDGE.get(kind, "?") for kind in types)
    return listed(f"{kind} {count:,}" for kind, count in totals.items() if count)


def session(x: Bodies) -> str:
    """Return the fetched partitions; a running share session omits unchanged ones."""
    named = topic_partitions.requested(x)
    dropped = topic_partitions.requested(x, "forgotten_topics_data")
    epoch = number(x.request, "share_session_epoch", 0)
    return listed(
        (
            named or ("as before" if epoch > 0 and "topics" in x.request else ""),
            f"without {dropped}" if dropped else "",
            "end of session" if epoch == -1 else "",
        )
    )


def _fetch_request(x: Bodies) -> str:
    return join(_who(x), session(x), acknowledged(x), wait(x.request))


def _fetch_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "responses"), x.names)
    held = records_text(pairs)
    if not held:
        return empty(x)
    acquired = sum(
        max(number(run, "last_offset", 0) - number(run, "first_offset", 0) + 1, 0)
        for _, row in pairs
        for run in rows(row, "acquired_records")
    )
    return listed((held, f"{acquired:,} acquired"))


def _acknowledge_request(x: Bodies) -> str:
    named = topic_partitions.requested(x)
    end = "end of session" if number(x.request, "share_session_epoch", 0) == -1 else ""
    return join(_who(x), listed((named, end)), acknowledged(x))


# ---------------------------------------------------------------- state at the share coordinator
def _state_request(x: Bodies) -> str:
    return join(group(x), topic_partitions.requested(x))


def _initialize_request(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.request, "topics"), x.names)
    return join(_state_request(x), offsets(pairs, "start_offset", "from") if len(pairs) == 1 else "")


def _write_request(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.request, "topics"), x.names)
    batches = sum(len(rows(row, "state_batches")) for _, row in pairs)
    return join(
        _state_request(x),
        start(pairs[0][1]) if len(pairs) == 1 else "",
        words.counted(batches, "state batch", "state batches") if batches else "",
    )


def start(row: Body) -> str:
    """Return the first offset in flight; empty for -1, which leaves it unchanged."""
    offset = number(row, "start_offset")
    return f"from {offset}" if offset >= 0 else ""


def _read_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "results"), x.names)
    if len(pairs) != 1:
        return "ok"
    row = pairs[0][1]
    batches = len(rows(row, "state_batches"))
    return listed(
        (
            start(row) or "not initialised",
            words.counted(batches, "state batch", "state batches") if batches else "",
        )
    )


# ---------------------------------------------------------------- administration
def _describe_offsets_request(x: Bodies) -> str:
    parts = []
    for row in rows(x.request, "groups"):
        topics = topic_partitions.topics_text(rows(row, "topics"), x.names)
        parts.append(join(text(row, "group_id", "?"), topics or "all topics"))
    return words.some(parts)


def _describe_offsets_response(x: Bodies) -> str:
    pairs = [
        pair
        for row in rows(x.response, "groups")
        for pair in topic_partitions.each(rows(row, "topics"), x.names)
    ]
    lag = sum(max(number(row, "lag"), 0) for _, row in pairs)
    known = any(number(row, "lag") >= 0 for _, row in pairs)
    return listed(
        (topic_partitions.at(pairs, "start_offset") or "no offsets", f"lag {lag:,}" if known else "")
    )


def _alter_offsets_request(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.request, "topics"), x.names)
    return join(group(x), topic_partitions.at(pairs, "start_offset"))


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: SummaryWriter(modern_request, modern_response),
    ApiKey.SHARE_GROUP_DESCRIBE: SummaryWriter(groups_request, describe_response),
    ApiKey.SHARE_FETCH: SummaryWriter(_fetch_request, _fetch_response),
    ApiKey.SHARE_ACKNOWLEDGE: SummaryWriter(_acknowledge_request, ok),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: SummaryWriter(_initialize_request, ok),
    ApiKey.READ_SHARE_GROUP_STATE: SummaryWriter(_state_request, _read_response),
    ApiKey.WRITE_SHARE_GROUP_STATE: SummaryWriter(_write_request, ok),
    ApiKey.DELETE_SHARE_GROUP_STATE: SummaryWriter(_state_request, ok),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: SummaryWriter(_state_request, _read_response),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: SummaryWriter(_describe_offsets_request, _describe_offsets_response),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: SummaryWriter(_alter_offsets_request, ok),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: SummaryWriter(_state_request, ok),
}
