"""Summaries of replica management between controllers and brokers, including the ZooKeeper-era APIs."""

from __future__ import annotations

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, items, number, ok, rows, text
from captures.meaning.words import join, listed
from dissectors.api_keys import ApiKey


def _controller(x: Bodies) -> str:
    found = x.request.get("controller_id")
    return "" if found is None else f"controller {found} epoch {number(x.request, 'controller_epoch')}"


def states(x: Bodies) -> str:
    """Return the partitions of a request, from either of the two layouts."""
    return topic_partitions.topics_text(
        [*rows(x.request, "topic_states"), *rows(x.request, "ungrouped_partition_states")], x.names
    )


def _stop_replica_request(x: Bodies) -> str:
    topics = [
        *rows(x.request, "topic_states"),
        *rows(x.request, "topics"),
        *rows(x.request, "ungrouped_partitions"),
    ]
    deletes = bool(x.request.get("delete_partitions")) or any(
        row.get("delete_partition")
        for _, row in topic_partitions.each(rows(x.request, "topic_states"), x.names)
    )
    return join(_controller(x), topic_partitions.topics_text(topics, x.names), "delete" if deletes else "")


def _update_metadata_request(x: Bodies) -> str:
    brokers = rows(x.request, "live_brokers")
    return join(_controller(x), states(x), words.counted(len(brokers), "broker") if brokers else "")


def _broker(x: Bodies) -> str:
    found = x.request.get("broker_id")
    return "" if found is None else f"broker {found}"


def _shutdown_response(x: Bodies) -> str:
    left = topic_partitions.topics_text(rows(x.response, "remaining_partitions"), x.names)
    return f"still leads {left}" if left else "ok, leads nothing"


def _alter_partition_request(x: Bodies) -> str:
    parts = []
    for name, row in topic_partitions.each(rows(x.request, "topics"), x.names):
        parts.append(f"{name}-{topic_partitions.index(row)} isr {words.plain(new_isr(row))}")
    rest = len(parts) - words.SHOWN
    return join(_broker(x), listed(parts[: words.SHOWN]), f"+{rest} partitions" if rest > 0 else "")


def new_isr(row: Body) -> list[int]:
    """Return the in-sync replicas proposed by the leader; with broker epochs since version 3 (KIP-903)."""
    with_epochs = rows(row, "new_isr_with_epochs")
    return [number(replica, "broker_id") for replica in with_epochs] or items(row, "new_isr")


def _alter_partition_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "topics"), x.names)
    if len(pairs) != 1:
        return "ok"
    row = pairs[0][1]
    return f"isr {words.plain(items(row, 'isr'))}, leader {number(row, 'leader_id')}"


def _assign_dirs_request(x: Bodies) -> str:
    parts = [
        f"{topic_partitions.topics_text(rows(row, 'topics'), x.names)} in {words.topic_id(text(row, 'id', '?'))}"
        for row in rows(x.request, "directories")
    ]
    return join(_broker(x), listed(parts[: words.SHOWN]))


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.LEADER_AND_ISR: SummaryWriter(lambda x: join(_controller(x), states(x)), ok),
    ApiKey.STOP_REPLICA: SummaryWriter(_stop_replica_request, ok),
    ApiKey.UPDATE_METADATA: SummaryWriter(_update_metadata_request, ok),
    ApiKey.CONTROLLED_SHUTDOWN: SummaryWriter(_broker, _shutdown_response),
    ApiKey.ALTER_PARTITION: SummaryWriter(_alter_partition_request, _alter_partition_response),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: SummaryWriter(_assign_dirs_request, ok),
}
