"""Groups, their offsets, and transactions: kafka-consumer-groups and its kin, kafka-transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dissectors.api_keys import ApiKey
from kproxy.copy_as.request import Makers, RequestToCopy, tool, unnamed, with_value
from kproxy.copy_as.shell import Command

_GROUP, _TRANSACTION = 0, 1


def _list(request: RequestToCopy) -> Iterator[Command]:
    words = tool(request, "kafka-consumer-groups", "--list")
    for option, field in (("--state", "states_filter"), ("--type", "types_filter")):
        if request.value.get(field):
            words += with_value(option, ",".join(request.value[field]))
    yield Command(words)


def _describe(program: str, field: str) -> Callable[[RequestToCopy], Iterator[Command]]:
    def make(request: RequestToCopy) -> Iterator[Command]:
        for group in request.value[field]:
            yield Command(
                tool(request, program, "--describe", *with_value("--group", group), "--members", "--verbose")
            )

    return make


def _delete(request: RequestToCopy) -> Iterator[Command]:
    for group in request.value["groups_names"]:
        yield Command(tool(request, "kafka-consumer-groups", "--delete", *with_value("--group", group)))


def _find_coordinator(request: RequestToCopy) -> Iterator[Command]:
    value = request.value
    kind = value.get("key_type", _GROUP)
    for key in value.get("coordinator_keys") or [value.get("key")]:
        if kind == _GROUP:
            words = tool(
                request, "kafka-consumer-groups", "--describe", *with_value("--group", key), "--state"
            )
        elif kind == _TRANSACTION:
            words = tool(request, "kafka-transactions", "describe", *with_value("--transactional-id", key))
        else:
            continue
        yield Command(words)


def _offset_fetch(request: RequestToCopy) -> Iterator[Command]:
    value = request.value
    groups = value.get("groups") or [value]
    for group in groups:
        words = tool(
            request,
            "kafka-consumer-groups",
            "--describe",
            *with_value("--group", group["group_id"]),
            "--offsets",
        )
        notes = ["shows all partitions of the group"] if group.get("topics") else []
        yield Command(words, notes=notes)


def _offset_commit(request: RequestToCopy) -> Iterator[Command]:
    value = request.value
    notes = ["commits need a group without members; metadata and leader epochs are not kept"]
    for name, topic, _ in request.topics():
        if name is None:
            yield Command((), notes=[unnamed(topic)])
            continue
        for partition in topic["partitions"]:
            words = tool(
                request, "kafka-consumer-groups", "--reset-offsets", *with_value("--group", value["group_id"])
            )
            words += with_value("--topic", f"{name}:{partition['partition_index']}")
            words += ["--to-offset", str(max(partition["committed_offset"], 0)), "--execute"]
            yield Command(words, notes=notes)
            notes = []


def _offset_delete(request: RequestToCopy) -> Iterator[Command]:
    for name, topic, _ in request.topics():
        words = tool(
            request,
            "kafka-consumer-groups",
            "--delete-offsets",
            *with_value("--group", request.value["group_id"]),
        )
        numbers = ",".join(str(partition["partition_index"]) for partition in topic["partitions"])
        yield Command([*words, *with_value("--topic", f"{name}:{numbers}")])


def _list_transactions(request: RequestToCopy) -> Iterator[Command]:
    value = request.value
    words = tool(request, "kafka-transactions", "list")
    if value.get("duration_filter", -1) >= 0:
        words += ["--duration-filter", str(value["duration_filter"])]
    if value.get("transactional_id_pattern"):
        words += with_value("--transactional-id-pattern", value["transactional_id_pattern"])
    filters = bool(value["state_filters"] or value["producer_id_filters"])
    yield Command(
        words, notes=["of all states and producer IDs; the request asked for some"] if filters else ()
    )


def _describe_transactions(request: RequestToCopy) -> Iterator[Command]:
    for transaction in request.value["transactional_ids"]:
        words = tool(request, "kafka-transactions", "describe")
        yield Command([*words, *with_value("--transactional-id", transaction)])


def _describe_producers(request: RequestToCopy) -> Iterator[Command]:
    for name, topic, _ in request.topics():
        for partition in topic["partition_indexes"]:
            words = tool(request, "kafka-transactions", "describe-producers", *with_value("--topic", name))
            yield Command([*words, "--partition", str(partition)])


MAKERS: Makers = {
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.DESCRIBE_GROUPS: _describe("kafka-consumer-groups", "groups"),
    ApiKey.LIST_GROUPS: _list,
    ApiKey.DELETE_GROUPS: _delete,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe("kafka-consumer-groups", "group_ids"),
    ApiKey.SHARE_GROUP_DESCRIBE: _describe("kafka-share-groups", "group_ids"),
    ApiKey.STREAMS_GROUP_DESCRIBE: _describe("kafka-streams-groups", "group_ids"),
}
