"""Groups, their offsets, and transactions: kafka-consumer-groups and its kin, kafka-transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kproxy.copying.asked import Asked, unnamed, with_value
from kproxy.copying.shell import Command
from kproxy.copying.tools.common import Makers, tool

_GROUP, _TRANSACTION = 0, 1


def _list(request: Asked) -> Iterator[Command]:
    words = tool(request, "kafka-consumer-groups", "--list")
    for option, field in (("--state", "states_filter"), ("--type", "types_filter")):
        if request.value.get(field):
            words += with_value(option, ",".join(request.value[field]))
    yield Command(words)


def _describe(program: str, field: str) -> Callable[[Asked], Iterator[Command]]:
    def make(request: Asked) -> Iterator[Command]:
        for group in request.value[field]:
            yield Command(
                tool(request, program, "--describe", *with_value("--group", group), "--members", "--verbose")
            )

    return make


def _delete(request: Asked) -> Iterator[Command]:
    for group in request.value["groups_names"]:
        yield Command(tool(request, "kafka-consumer-groups", "--delete", *with_value("--group", group)))


def _find_coordinator(request: Asked) -> Iterator[Command]:
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


def _offset_fetch(request: Asked) -> Iterator[Command]:
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


def _offset_commit(request: Asked) -> Iterator[Command]:
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


def _offset_delete(request: Asked) -> Iterator[Command]:
    for name, topic, _ in request.topics():
        words = tool(
            request,
            "kafka-consumer-groups",
            "--delete-offsets",
            *with_value("--group", request.value["group_id"]),
        )
        numbers = ",".join(str(partition["partition_index"]) for partition in topic["partitions"])
        yield Command([*words, *with_value("--topic", f"{name}:{numbers}")])


def _list_transactions(request: Asked) -> Iterator[Command]:
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


def _describe_transactions(request: Asked) -> Iterator[Command]:
    for transaction in request.value["transactional_ids"]:
        words = tool(request, "kafka-transactions", "describe")
        yield Command([*words, *with_value("--transactional-id", transaction)])


def _describe_producers(request: Asked) -> Iterator[Command]:
    for name, topic, _ in request.topics():
        for partition in topic["partition_indexes"]:
            words = tool(request, "kafka-transactions", "describe-producers", *with_value("--topic", name))
            yield Command([*words, "--partition", str(partition)])


MAKERS: Makers = {
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    15: _describe("kafka-consumer-groups", "groups"),
    16: _list,
    42: _delete,
    47: _offset_delete,
    61: _describe_producers,
    65: _describe_transactions,
    66: _list_transactions,
    69: _describe("kafka-consumer-groups", "group_ids"),
    77: _describe("kafka-share-groups", "group_ids"),
    89: _describe("kafka-streams-groups", "group_ids"),
}
