"""Topics, partitions and the brokers that hold them: kafka-topics, kafka-get-offsets, kafka-cluster and the like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from dissectors.api_keys import ApiKey
from kproxy.copy_as.request import Makers, RequestToCopy, exactly, has_id, tool, unnamed, with_value
from kproxy.copy_as.shell import Command

_MASKED = "secret settings are masked"
_SIZES = (("--partitions", "num_partitions"), ("--replication-factor", "replication_factor"))
_SPECIAL_TIMES = {
    -1: "latest",
    -2: "earliest",
    -3: "max-timestamp",
    -4: "earliest-local",
    -5: "latest-tiered",
    -6: "earliest-pending-upload",
}


def _metadata(request: RequestToCopy) -> Iterator[Command]:
    describe = tool(request, "kafka-topics", "--describe")
    asked_for = list(request.topics())
    if not asked_for:
        if request.value["topics"] is None or not request.exchange.version:
            yield Command(describe)
        else:  # only brokers were requested
            yield Command(tool(request, "kafka-broker-api-versions"))
    for name, topic, _ in asked_for:
        if name is not None:
            yield Command([*describe, *with_value("--topic", exactly(name))])
        elif has_id(topic):
            yield Command([*describe, *with_value("--topic-id", topic["topic_id"])])


def _describe_topic_partitions(request: RequestToCopy) -> Iterator[Command]:
    describe = tool(request, "kafka-topics", "--describe")
    names = [name for name, _, _ in request.topics() if name is not None]
    if not names:
        yield Command(describe)
    for name in names:
        yield Command([*describe, *with_value("--topic", exactly(name))])


def _create_topics(request: RequestToCopy) -> Iterator[Command]:
    if request.value.get("validate_only"):  # the tool has no dry run: it would create them
        return
    for name, topic, path in request.topics():
        if name is None:
            continue
        words = tool(request, "kafka-topics", "--create", *with_value("--topic", name))
        notes = []
        if topic["assignments"]:
            ordered = sorted(topic["assignments"], key=lambda each: int(each["partition_index"]))
            words += ["--replica-assignment", _assignment(ordered)]
        else:
            for option, field in _SIZES:
                if topic[field] > 0:
                    words += [option, str(topic[field])]
        for index, config in enumerate(topic["configs"]):
            if request.is_masked(f"{path}.configs[{index}].value"):
                notes.append(_MASKED)
            else:
                words += with_value("--config", f"{config['name']}={config['value']}")
        yield Command(words, notes=notes[:1])


def _assignment(partitions: list[dict[str, Any]]) -> str:
    return ",".join(":".join(map(str, each["broker_ids"])) for each in partitions)


def _create_partitions(request: RequestToCopy) -> Iterator[Command]:
    if request.value.get("validate_only"):
        return
    for name, topic, _ in request.topics():
        if name is None:
            continue
        words = tool(
            request,
            "kafka-topics",
            "--alter",
            *with_value("--topic", exactly(name)),
            "--partitions",
            str(topic["count"]),
        )
        notes = []
        if topic["assignments"]:
            notes.append(f"replicas of the new partitions were chosen: {_assignment(topic['assignments'])}")
        yield Command(words, notes=notes)


def _delete_topics(request: RequestToCopy) -> Iterator[Command]:
    names = list(request.value.get("topic_names") or ())
    for name, topic, _ in request.topics():
        if name is None:
            yield Command((), notes=[unnamed(topic)])
        else:
            names.append(name)
    for name in names:
        yield Command(tool(request, "kafka-topics", "--delete", *with_value("--topic", exactly(name))))


def _delete_records(request: RequestToCopy) -> Iterator[Command]:
    places = [
        {"topic": name, "partition": partition["partition_index"], "offset": partition["offset"]}
        for name, topic, _ in request.topics()
        for partition in topic["partitions"]
    ]
    yield Command(
        tool(request, "kafka-delete-records"),
        file_option="--offset-json-file",
        file=json.dumps({"partitions": places, "version": 1}),
    )


def _list_offsets(request: RequestToCopy) -> Iterator[Command]:
    places = [
        (partition["timestamp"], f"{exactly(str(name))}:{partition['partition_index']}")
        for name, topic, _ in request.topics()
        for partition in topic["partitions"]
    ]
    for time, same in groupby(sorted(places), key=lambda place: place[0]):
        words = tool(request, "kafka-get-offsets", "--topic-partitions", ",".join(place for _, place in same))
        yield Command([*words, "--time", _SPECIAL_TIMES.get(time, str(time))])


def _elect_leaders(request: RequestToCopy) -> Iterator[Command]:
    kind = "unclean" if request.value.get("election_type") == 1 else "preferred"
    words = tool(request, "kafka-leader-election", "--election-type", kind)
    if request.value["topic_partitions"] is None:
        yield Command([*words, "--all-topic-partitions"])
    for name, topic, _ in request.topics("topic_partitions"):
        for partition in topic["partitions"]:
            yield Command([*words, *with_value("--topic", name), "--partition", str(partition)])


def _reassign(request: RequestToCopy) -> Iterator[Command]:
    places: list[dict[str, Any]] = []
    cancelled = 0
    for name, topic, _ in request.topics():
        for partition in topic["partitions"]:
            if partition["replicas"] is None:
                cancelled += 1
                continue
            places.append(
                {
                    "topic": name,
                    "partition": partition["partition_index"],
                    "replicas": list(partition["replicas"]),
                }
            )
    if places:
        notes = [f"left out: {cancelled} moves that were cancelled"] if cancelled else []
        yield Command(
            tool(request, "kafka-reassign-partitions", "--execute"),
            file_option="--reassignment-json-file",
            file=json.dumps({"version": 1, "partitions": places}),
            notes=notes,
        )


def _list_reassignments(request: RequestToCopy) -> Iterator[Command]:
    yield Command(tool(request, "kafka-reassign-partitions", "--list"))


_CONTROLLERS = 2


def _api_versions(request: RequestToCopy) -> Iterator[Command]:
    yield Command(tool(request, "kafka-broker-api-versions"))


def _describe_cluster(request: RequestToCopy) -> Iterator[Command]:
    where = "--bootstrap-server"
    if request.value.get("endpoint_type") == _CONTROLLERS:
        where = "--bootstrap-controller"
    words = ["kafka-cluster.sh", "list-endpoints", where, request.broker]
    if request.value.get("include_fenced_brokers"):
        words.append("--include-fenced-brokers")
    yield Command(words)


def _describe_log_dirs(request: RequestToCopy) -> Iterator[Command]:
    words = tool(request, "kafka-log-dirs", "--describe")
    topics = request.value["topics"]
    if topics:
        words += with_value("--topic-list", ",".join(topic["topic"] for topic in topics))
    yield Command(words, notes=["asks all brokers; the request asked this one"])


def _describe_quorum(request: RequestToCopy) -> Iterator[Command]:
    yield Command(tool(request, "kafka-metadata-quorum", "describe", "--replication"))


MAKERS: Makers = {
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
}
