"""Summaries of Metadata and the administration of topics, partitions and replicas."""

from __future__ import annotations

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import Bodies, SummaryWriter, items, number, ok, rows, text
from captures.meaning.words import join, listed
from dissectors.api_keys import ApiKey
from dissectors.domains import ELECTION_TYPE


def _named(x: Bodies, field: str) -> list[str]:
    return [topic_partitions.topic(row, x.names) for row in rows(x.request, field)]


# ---------------------------------------------------------------- Metadata
def _metadata_request(x: Bodies) -> str:
    if "topics" not in x.request:
        return ""
    topics = x.request["topics"]
    # version 0 has no null: an empty list requests everything (MetadataRequest.java)
    if topics is None or (not topics and x.version == 0):
        return "all topics"
    return words.some(_named(x, "topics"), 4) or "brokers only"


def _metadata_response(x: Bodies) -> str:
    topics = rows(x.response, "topics")
    count = sum(len(rows(topic, "partitions")) for topic in topics)
    asked = x.request.get("topics")
    return listed(
        (
            words.counted(len(rows(x.response, "brokers")), "broker"),
            words.counted(len(topics), "topic") if topics and not asked else "",
            words.counted(count, "partition") if topics else "",
        )
    )


def _describe_partitions_response(x: Bodies) -> str:
    topics = rows(x.response, "topics")
    count = sum(len(rows(topic, "partitions")) for topic in topics)
    more = "more to come" if x.response.get("next_cursor") else ""
    return listed((words.counted(len(topics), "topic"), words.counted(count, "partition"), more))


# ---------------------------------------------------------------- topics
def _create_request(x: Bodies) -> str:
    parts = []
    for topic in rows(x.request, "topics"):
        given = rows(topic, "assignments")
        partitions = len(given) or number(topic, "num_partitions")
        replicas = len(items(given[0], "broker_ids")) if given else number(topic, "replication_factor")
        shape = listed(
            (
                words.counted(partitions, "partition") if partitions >= 0 else "",
                words.counted(replicas, "replica") if replicas >= 0 else "",
                words.counted(len(rows(topic, "configs")), "setting") if rows(topic, "configs") else "",
            )
        )
        parts.append(
            f"{topic_partitions.topic(topic, x.names)} ({shape})"
            if shape
            else topic_partitions.topic(topic, x.names)
        )
    return join(words.phrases(parts), only_check(x))


def only_check(x: Bodies) -> str:
    """Return ``validate only`` if the request is only to be validated."""
    return "validate only" if x.request.get("validate_only") else ""


def _create_response(x: Bodies) -> str:
    return "valid" if x.request.get("validate_only") else "created"


def _create_partitions_request(x: Bodies) -> str:
    parts = [f"{text(row, 'name', '?')} to {number(row, 'count')}" for row in rows(x.request, "topics")]
    return join(words.phrases(parts), only_check(x))


# ---------------------------------------------------------------- replicas
def _elect_request(x: Bodies) -> str:
    wanted = x.request.get("topic_partitions")
    election = words.value_name(ELECTION_TYPE, number(x.request, "election_type", 0))
    everywhere = "topic_partitions" in x.request and wanted is None
    return join(
        election,
        "all partitions" if everywhere else topic_partitions.requested(x, "topic_partitions"),
    )


def _elect_response(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.response, "replica_election_results"), x.names)
    return f"{words.counted(len(pairs), 'leader')} elected"


def _reassign_request(x: Bodies) -> str:
    parts = []
    for name, row in topic_partitions.each(rows(x.request, "topics"), x.names):
        replicas = items(row, "replicas")
        parts.append(
            f"{name}-{topic_partitions.index(row)} {f'to {words.plain(replicas)}' if replicas else 'cancel'}"
        )
    return words.phrases(parts)


def _reassignments_response(x: Bodies) -> str:
    shown = topic_partitions.topics_text(rows(x.response, "topics"), x.names)
    return f"moving {shown}" if shown else "none"


def _move_request(x: Bodies) -> str:
    return listed(
        f"{topic_partitions.topics_text(rows(row, 'topics'), x.names)} to {text(row, 'path', '?')}"
        for row in rows(x.request, "dirs")
    )


def _log_dirs_request(x: Bodies) -> str:
    return topic_partitions.requested(x) or ("all topics" if "topics" in x.request else "")


def _log_dirs_response(x: Bodies) -> str:
    directories = rows(x.response, "results")
    sizes = [
        max(number(partition, "partition_size", 0), 0)
        for directory in directories
        for _, partition in topic_partitions.each(rows(directory, "topics"), x.names)
    ]
    held = f"{words.counted(len(sizes), 'replica')} {words.size(sum(sizes))}"
    return listed((words.counted(len(directories), "directory", "directories"), held))


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.METADATA: SummaryWriter(
        _metadata_request,
        _metadata_response,
        lambda x: _metadata_response(x) if rows(x.response, "brokers") else "",
    ),
    ApiKey.CREATE_TOPICS: SummaryWriter(_create_request, _create_response),
    ApiKey.DELETE_TOPICS: SummaryWriter(
        lambda x: words.some([*items(x.request, "topic_names"), *_named(x, "topics")]), lambda _: "deleted"
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: SummaryWriter(_move_request, ok),
    ApiKey.DESCRIBE_LOG_DIRS: SummaryWriter(_log_dirs_request, _log_dirs_response),
    ApiKey.CREATE_PARTITIONS: SummaryWriter(_create_partitions_request, _create_response),
    ApiKey.ELECT_LEADERS: SummaryWriter(_elect_request, _elect_response),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: SummaryWriter(_reassign_request, ok),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: SummaryWriter(
        lambda x: topic_partitions.requested(x) or "all", _reassignments_response
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: SummaryWriter(
        lambda x: words.some(_named(x, "topics"), 4) or "all topics", _describe_partitions_response
    ),
}
