"""The entities named by values, by declaration: as in Kafka's definitions, with additions listed here."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from dissectors import schema, wire
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.entities import PARTITION_FIELDS, TOPIC_FIELDS, fields_naming, topic_fields
from tests.definitions import facts
from tests.definitions.declared import declaration
from tests.definitions.layouts import flat, in_snake_case

ROOT = Path(__file__).parents[2]

ADDITIONS = {
    "clusterId": ("Kafka has no entity type for it", {"cluster_id"}),
    "topicName": (
        "records of internal topics, and what members subscribe to",
        {
            *("topic", "topic_name", "topics", "source_topics", "repartition_sink_topics"),
            *("subscribed_topic_names", "state_changelog_topics.name", "repartition_source_topics.name"),
        },
    ),
    "groupId": ("records of internal topics, and requests between coordinators", {"group", "group_id"}),
    "transactionalId": ("records of __transaction_state", {"transactional_id"}),
    "producerId": (
        "records of __transaction_state and __cluster_metadata",
        {"producer_id", "previous_producer_id", "next_producer_id"},
    ),
    "brokerId": (
        "nodes of a cluster have one ID each, as brokers and as controllers; Kafka marks most of them",
        {
            *("broker_id", "controller_id", "leader_id", "isr", "voter_id", "preferred_successors"),
            *("replica_id", "node_id"),
        },
    ),
}
"""Entity type -> why we add it, and to which fields: by name, or by the ends of their paths."""

PRIMITIVES = {
    "topicName": "string",
    "groupId": "string",
    "transactionalId": "string",
    "clusterId": "string",
    "producerId": "int64",
    "brokerId": "int32",
}

MESSAGES = {
    identity: message
    for identity, message in facts.kept().messages.items()
    if declaration(message) is not None
}


@cache
def declared(identity: facts.Identity) -> dict[str, schema.Type]:
    """Our primitive fields by path, and arrays of primitives, including those of earlier forms."""
    message = declaration(MESSAGES[identity])
    assert message is not None
    return {path: type_ for form in (message, *message.older) for path, type_ in primitives(form.fields)}


def primitives(fields: Sequence[schema.Field], inside: str = "") -> Iterator[tuple[str, schema.Type]]:
    for field in fields:
        inner = field.type.element if isinstance(field.type, schema.Array) else field.type
        if isinstance(inner, schema.Struct):
            yield from primitives(inner.fields, f"{inside}{field.name}.")
        else:
            yield inside + field.name, field.type


@cache
def kafkas(identity: facts.Identity) -> dict[str, str]:
    """Kafka's entity types by path, from any release, because the oldest definitions had few."""
    return {
        path: field.entity
        for layouts in MESSAGES[identity].layouts.values()
        for layout in layouts
        for path, field in flat(in_snake_case(layout.fields))
        if field.entity
    }


def added(path: str, type_: schema.Type) -> str | None:
    """The entity type that we add to a field for which Kafka has none."""
    kind = type_.element.kind if isinstance(type_, schema.Array) else type_.kind
    for entity, (_, names) in ADDITIONS.items():
        if kind == PRIMITIVES[entity] and any(f".{path}".endswith(f".{name}") for name in names):
            return entity
    return None


@pytest.mark.sample(3)
@pytest.mark.parametrize("identity", MESSAGES, ids=lambda identity: MESSAGES[identity].name)
def test_entities_are_kafkas_and_ours(identity: facts.Identity) -> None:
    theirs, ours = kafkas(identity), declared(identity)
    assert theirs.keys() <= ours.keys()
    wanted = {path: theirs.get(path) or added(path, type_) for path, type_ in ours.items()}
    assert {path: type_.entity for path, type_ in ours.items()} == wanted


@pytest.mark.parametrize("entity", ADDITIONS)
def test_every_addition_is_needed(entity: str) -> None:
    _, names = ADDITIONS[entity]
    ours = {
        f".{path}"
        for identity in MESSAGES
        for path, type_ in declared(identity).items()
        if type_.entity == entity and path not in kafkas(identity)
    }
    assert {name for name in names if any(path.endswith(f".{name}") for path in ours)} == names


def test_the_values_are_of_one_type() -> None:
    types = [type_ for identity in MESSAGES for type_ in declared(identity).values() if type_.entity]
    kinds = {
        (each.entity, each.element.kind if isinstance(each, schema.Array) else each.kind) for each in types
    }
    assert kinds == set(PRIMITIVES.items())


def test_a_struct_with_partitions_names_its_topic_by_one_of_the_known_fields() -> None:
    named = Counter[tuple[str, ...]]()
    for key in ApiKey:
        known = api(key)
        assert known is not None
        for message in (known.request, known.response):
            for version in range(message.versions.first, message.versions.last + 1):
                for _, struct in wire.structs_of(message[version].struct):
                    names = {member.name for member in struct.all_members}
                    if "topic_id" in names or any("partition" in name for name in names):
                        named[topic_fields(struct)] += 1
                        arrays = {
                            each.name for each in struct.all_members if isinstance(each.con, wire.Array)
                        }
                        assert {*topic_fields(struct)} == {*fields_naming(struct, "topicName")} - arrays
    assert {*TOPIC_FIELDS} == {name for names in named for name in names}
    assert max(map(len, named)) == 1  # so that their order does not matter


@pytest.mark.turns(1)
@pytest.mark.slow
@pytest.mark.parametrize("floor", ["dissectors", "captures", "kproxy"])
def test_no_other_module_lists_these_fields(floor: str) -> None:
    found = []
    for path in sorted((ROOT / floor).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Tuple | ast.Set | ast.List) and path.name != "entities.py":
                names = {each.value for each in node.elts if isinstance(each, ast.Constant)}
                if any(len(names & {*listed}) > 1 for listed in (TOPIC_FIELDS, PARTITION_FIELDS)):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
