"""Two responses to the same request compared, the recorded one and the new one.

Values that always differ between times or clusters do not count as differences (:data:`EXPECTED_TO_DIFFER`). Topics are
compared by name, whatever their IDs; record sets by their records, not by their bytes; and fields that only one of two
versions has are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

from captures.meaning import Names
from captures.meaning.words import counted
from dissectors import wire
from dissectors.budget import message_budget
from dissectors.embedded.secrets import SENSITIVITY, api_may_hold_secrets, secret_config
from dissectors.entities import topic_fields
from dissectors.frames import Body
from dissectors.records import record_set
from kproxy.replay.differences import NAMES, Difference, differences

EXPECTED_TO_DIFFER: Final[Mapping[str, str]] = {
    "throttle_time_ms": "quota delay of the moment",
    "session_id": "fetch session, given by the broker",
    "member_id": "given by the coordinator",
    "leader": "member ID of the group's leader",
    "client_instance_id": "given by the broker",
    "subscription_id": "given by the broker",
    "generation_id": "counts the group's rebalances",
    "member_epoch": "counts the group's rebalances",
    "group_epoch": "counts the group's rebalances",
    "assignment_epoch": "counts the group's rebalances",
    "producer_id": "given by the coordinator",
    "producer_epoch": "given by the coordinator",
    "leader_epoch": "counts elections",
    "committed_leader_epoch": "counts elections",
    "finalized_features_epoch": "counts changes",
    "cluster_id": "which cluster it is",
    "host": "where a broker is",
    "port": "where a broker is",
    "client_host": "where a client is",
}
"""Response fields expected to differ -> reason. All timestamps are expected to differ too."""

_TIMESTAMPS = "timestamps"
_SECRET = "(secret)"  # noqa: S105  # placeholder


class ResponseComparison(NamedTuple):
    """The result of comparing two responses.

    :ivar found: the differences
    :ivar expected: names of fields whose difference is expected
    """

    found: list[Difference]
    expected: frozenset[str]


def compared(
    recorded: Body,
    new: Body,
    recorded_names: Names,
    new_names: Names,
    *,
    differing: Mapping[str, str] = EXPECTED_TO_DIFFER,
) -> ResponseComparison:
    """Compare two responses to requests of the same API, each in the version in which it was decoded.

    :param recorded_names: returns the name of a topic ID in the recorded cluster
    :param new_names: returns the name of a topic ID in the live cluster
    :param differing: fields expected to differ; if it is empty, timestamps are not expected to differ either
    """
    first, second = recorded.message(response=True), new.message(response=True)
    if first is None or second is None or recorded.value is None or new.value is None:
        return ResponseComparison(_undecoded(recorded, new), frozenset())
    before = comparable(first.struct, second.struct, recorded.value, recorded_names)
    after = comparable(second.struct, first.struct, new.value, new_names)
    found, expected = [], set()
    for each in differences(before, after, [name for name in NAMES if name not in differing]):
        name = each.field.rpartition(".")[2]
        if name in differing:
            expected.add(name)
        else:
            found.append(each)
    times = _timestamps(first.struct) if differing else frozenset()
    expected.update(_TIMESTAMPS for each in found if each.field in times)
    return ResponseComparison([each for each in found if each.field not in times], frozenset(expected))


def _undecoded(recorded: Body, new: Body) -> list[Difference]:
    """Return whether the bytes of two responses differ, and how unless they may contain secrets."""
    before, after = recorded.raw[4:], new.raw[4:]
    if before != after and api_may_hold_secrets(recorded.key, response=True):
        return [Difference("", "", _SECRET, _SECRET)]
    return list(differences(before, after))


def comparable(
    struct: wire.Struct, other: wire.Struct, value: Mapping[str, Any], names: Names, *, secret: bool = False
) -> dict[str, Any]:
    """Return a struct in comparable form, with only those fields that another version has too.

    :param other: the struct in that version
    :param names: returns the name of a topic ID
    :param secret: whether it belongs to a secret configuration
    """
    secret = secret or (SENSITIVITY in value and secret_config(value))
    others = {member.name: member for member in other.all_members}
    tagged = {member.name for member in (struct.tagged or {}).values()}
    topics = topic_fields(struct)
    made: dict[str, Any] = {}
    for member in struct.all_members:
        name = member.name
        if name not in value:
            continue
        if member.field.type.content == "topic_id":
            if not any(value.get(each) for each in topics):
                made["topic"] = names(value[name]) or value[name]
        elif name in others:
            found = value[name]
            if name in tagged and found == member.field.default_value(member.con):
                continue  # the same as absent
            made[name] = _leaf_or_inner(member, others[name], value, names, secret=secret)
        elif name in topics and "topic_id" in others:
            made["topic"] = value[name]
    return made


def _leaf_or_inner(
    member: wire.Member, other: wire.Member, entry: Mapping[str, Any], names: Names, *, secret: bool
) -> Any:
    value = entry[member.name]
    if value is None:
        return None
    if member.field.type.is_secret or (
        member.field.type.content == "config_value" and (secret or secret_config(entry))
    ):
        return _SECRET
    one, two = wire.struct_inside(member.con), wire.struct_inside(other.con)
    if one is not None and two is not None and one[1] == two[1]:
        if one[1]:
            return [comparable(one[0], two[0], each, names, secret=secret) for each in value]
        return comparable(one[0], two[0], value, names, secret=secret)
    if isinstance(member.con, wire.Array) and isinstance(other.con, wire.Array):
        return list(value)
    if isinstance(member.con, wire.Records):
        return _records(value)
    return value


def _records(data: bytes) -> str | None:
    """Return the content of a record set: the number of records, and a checksum of their keys, values and headers."""
    crc = count = 0
    budget = message_budget()
    for batch in record_set(data).batches:
        for record in batch.read(budget).records:
            count += 1
            for part in (record.key, record.value, *(part for header in record.headers for part in header)):
                text = part.encode() if isinstance(part, str) else part or b""
                # lengths make boundaries between parts count, and distinguish null from empty
                crc = crc32(text, crc32(b"%d:" % (-1 if part is None else len(text)), crc))
    return f"{counted(count, 'record')}, checksum {crc:08x}" if count else None


def _timestamps(struct: wire.Struct) -> frozenset[str]:
    return frozenset(
        prefix + member.name
        for prefix, inner in wire.structs_of(struct)
        for member in inner.all_members
        if member.field.type.domain is not None and member.field.type.domain.rest == "timestamp_ms"
    )
