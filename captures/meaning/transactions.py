"""Summaries of idempotent and transactional producers."""

from __future__ import annotations

from collections import Counter

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, fields, items, number, ok, rows, text
from captures.meaning.words import join, listed
from dissectors.api_keys import ApiKey


def producer(body: Body) -> str:
    """Return producer ID and epoch; empty if there is none."""
    identity = number(body, "producer_id")
    return f"producer {identity} epoch {number(body, 'producer_epoch')}" if identity >= 0 else ""


def _transaction(x: Bodies) -> str:
    return text(x.request, "transactional_id")


def _init_request(x: Bodies) -> str:
    request = x.request
    if "transactional_id" not in request:
        return ""
    known = producer(request)
    return join(
        _transaction(x) or "idempotent only",
        f"again {known}" if known else "",
        "two-phase" if request.get("enable_2pc") else "",
        "keep prepared" if request.get("keep_prepared_txn") else "",
    )


def _init_response(x: Bodies) -> str:
    ongoing = number(x.response, "ongoing_txn_producer_id")
    return listed(
        (producer(x.response), f"prepared transaction of producer {ongoing}" if ongoing >= 0 else "")
    )


def _add_partitions_request(x: Bodies) -> str:
    batch = rows(x.request, "transactions")
    if not batch:
        name = text(x.request, "v3_and_below_transactional_id")
        return join(name, topic_partitions.requested(x, "v3_and_below_topics"))
    parts = [
        join(text(row, "transactional_id"), topic_partitions.topics_text(rows(row, "topics"), x.names))
        for row in batch
    ]
    checks = sum(bool(row.get("verify_only")) for row in batch)
    rest = len(parts) - words.SHOWN
    return join(
        ", ".join(parts[: words.SHOWN]),
        f"+{rest} transactions" if rest > 0 else "",
        "verify only" if checks == len(batch) else "",
    )


def _add_offsets_request(x: Bodies) -> str:
    name = text(x.request, "group_id")
    return join(_transaction(x), f"offsets of group {name}" if name else "")


def _end_request(x: Bodies) -> str:
    committed = x.request.get("committed")
    return join(_transaction(x), "" if committed is None else "commit" if committed else "abort")


def _end_response(x: Bodies) -> str:
    # Transactions v2 increment the epoch with every end (KIP-890)
    then = producer(x.response)
    return f"ok, now {then}" if then else "ok"


def _markers_request(x: Bodies) -> str:
    markers = rows(x.request, "markers")
    if len(markers) == 1:
        marker = markers[0]
        return join(
            _outcome(marker), producer(marker), topic_partitions.topics_text(rows(marker, "topics"), x.names)
        )
    outcomes = Counter(_outcome(marker) for marker in markers)
    return listed(f"{count} × {name}" for name, count in outcomes.items())


def _outcome(marker: Body) -> str:
    result = marker.get("transaction_result")
    return "?" if result is None else "commit" if result else "abort"


def _offset_commit_request(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.request, "topics"), x.names)
    return join(_transaction(x), text(x.request, "group_id"), topic_partitions.at(pairs, "committed_offset"))


def _describe_request(x: Bodies) -> str:
    return words.some(items(x.request, "transactional_ids"))


def _describe_response(x: Bodies) -> str:
    found = rows(x.response, "transaction_states")
    if len(found) == 1:
        return join(
            listed((text(found[0], "transaction_state", "?"), producer(found[0]))),
            topic_partitions.topics_text(rows(found[0], "topics"), x.names),
        )
    return states(found)


def states(found: list[Body]) -> str:
    """Return the number of transactions in each state."""
    by_state = Counter(text(row, "transaction_state", "?") for row in found)
    return listed(f"{count} {state}" for state, count in by_state.most_common()) or "none"


def _list_request(x: Bodies) -> str:
    longer = number(x.request, "duration_filter")
    return (
        join(
            words.some(items(x.request, "state_filters")),
            words.some(f"producer {identity}" for identity in items(x.request, "producer_id_filters")),
            f"open for {words.duration(longer)}" if longer >= 0 else "",
            text(x.request, "transactional_id_pattern"),
        )
        or "all transactions"
    )


def _list_response(x: Bodies) -> str:
    return states(rows(x.response, "transaction_states"))


def _allocate_response(x: Bodies) -> str:
    start, count = number(x.response, "producer_id_start"), number(x.response, "producer_id_len", 0)
    return f"producers {start}-{start + count - 1}" if count > 0 else "none"


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.INIT_PRODUCER_ID: SummaryWriter(_init_request, _init_response),
    ApiKey.ADD_PARTITIONS_TO_TXN: SummaryWriter(_add_partitions_request, ok),
    ApiKey.ADD_OFFSETS_TO_TXN: SummaryWriter(_add_offsets_request, ok),
    ApiKey.END_TXN: SummaryWriter(_end_request, _end_response),
    ApiKey.WRITE_TXN_MARKERS: SummaryWriter(_markers_request, ok),
    ApiKey.TXN_OFFSET_COMMIT: SummaryWriter(
        _offset_commit_request,
        ok,
        unread=fields("request", "topics.partitions", "committed_leader_epoch", "committed_metadata"),
        inserted=fields("request", "topics.partitions", "committed_offset"),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: SummaryWriter(_describe_request, _describe_response),
    ApiKey.LIST_TRANSACTIONS: SummaryWriter(_list_request, _list_response),
    ApiKey.ALLOCATE_PRODUCER_IDS: SummaryWriter(
        lambda x: f"broker {number(x.request, 'broker_id')}", _allocate_response
    ),
}
