"""Requests in a version that a live broker offers.

A recorded request is sent in the version in which it was recorded, if the broker offers it. Otherwise in the nearest
offered version in which nothing of the request is lost: every field that differs from its default must be present when
the encoded bytes are decoded again.

A few APIs express the same in a different shape in other versions; their requests are converted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from construct import ConstructError

from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.apis import api, api_name
from dissectors.entities import TOPIC_FIELDS, topic_fields
from dissectors.errors import DecodeError
from dissectors.headers import request_frame
from dissectors.records import record_set
from dissectors.schema import Message

Body = dict[str, Any]


_FIRST_WITHOUT_AUTO_CREATION = 4  # Metadata: allow_auto_topic_creation
_FIRST_OF_BATCHES = 3  # from v3 on, Produce accepts only magic 2


class NotSendableError(Exception):
    """A request cannot be sent to this broker; the message says why, in a few words."""


class TopicIds(Protocol):
    """Topic IDs of the live cluster."""

    def topic_id(self, name: str) -> str | None:
        """Return the ID of a topic, None if it has none or does not exist."""

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic by its ID, None if it is unknown."""


class EncodedRequest(NamedTuple):
    """A request ready to be sent.

    :ivar version: of the encoding
    :ivar body: in the shape of that version
    :ivar data: the body's bytes
    """

    version: int
    body: Body
    data: bytes


def encoded(
    key: int, version: int, body: Body, offered: Mapping[int, tuple[int, int]], topics: TopicIds
) -> EncodedRequest:
    """Return a request in the version nearest to the recorded one that a broker offers and that loses nothing.

    :param version: in which the body was decoded
    :param offered: lowest and highest version by API key, from ApiVersions
    :param topics: maps topic names to IDs and back, if the versions differ in that
    :raises NotSendableError: if there is no such version
    """
    known = api(key)
    if known is None:
        raise NotSendableError("no API that kproxy knows")
    if key == ApiKey.METADATA:
        body = _without_auto_creation(body, version)
    reason = ""
    for other in _candidates(key, version, body, known.request, offered):
        try:
            return _in_version(known.request, version, body, other, topics)
        except NotSendableError as error:
            reason = reason or str(error)
    raise NotSendableError(reason or _not_offered(key, version, body, offered))


def frame(header: Mapping[str, Any], correlation_id: int, key: int, built: EncodedRequest) -> bytes:
    """Return a request frame, including the size field.

    :param header: as recorded; API, version and correlation ID are replaced
    """
    known = api(key)
    assert known is not None
    replaced = {"request_api_version": built.version, "correlation_id": correlation_id}
    return request_frame(
        known.request[built.version], {**header, "request_api_key": key, **replaced}, built.data
    )


def _candidates(
    key: int, version: int, body: Body, request: Message, offered: Mapping[int, tuple[int, int]]
) -> list[int]:
    """Return the versions in which a request may be encoded, the nearest first."""
    if key == ApiKey.API_VERSIONS:
        return [version]  # even an unknown version is answered (KIP-511)
    if key not in offered:
        return []
    low = max(offered[key][0], request.versions.first)
    high = min(offered[key][1], request.versions.last)
    if key == ApiKey.METADATA and body["topics"]:
        low = max(low, _FIRST_WITHOUT_AUTO_CREATION)
    if key == ApiKey.PRODUCE:
        # Kafka 4 announces Produce from v0 on but closes the connection below v3 (KAFKA-18659), and each version
        # accepts only its own message format
        if _magic(body) == 2:
            low = max(low, _FIRST_OF_BATCHES)
        else:
            high = min(high, _FIRST_OF_BATCHES - 1)
    return sorted(range(low, high + 1), key=lambda other: (abs(other - version), other))


def _magic(body: Body) -> int:
    for topic in body["topic_data"]:
        for partition in topic["partition_data"]:
            batches = record_set(partition["records"] or b"").batches
            if batches:
                return int(batches[0].magic)
    return 2


def _not_offered(key: int, version: int, body: Body, offered: Mapping[int, tuple[int, int]]) -> str:
    if key not in offered:
        return f"the broker has no {api_name(key)}"
    low, high = offered[key]
    if key == ApiKey.METADATA and body["topics"] and high < _FIRST_WITHOUT_AUTO_CREATION:
        return f"below version {_FIRST_WITHOUT_AUTO_CREATION} it would create missing topics"
    if key == ApiKey.PRODUCE:
        return f"its message format {_magic(body)} goes with no version that the broker offers"
    return f"the broker offers versions {low}-{high}"


def _without_auto_creation(body: Body, version: int) -> Body:
    if not version and not body["topics"]:
        return {"topics": None}  # v0 asks for all topics by naming none
    return body | {"allow_auto_topic_creation": False}


# ------------------------------------------------------------ one version to another
def _in_version(request: Message, version: int, body: Body, other: int, topics: TopicIds) -> EncodedRequest:
    layout = request[other]
    if other != version:
        body = _reshaped(request.key, body, other)
        body = _topics_in(layout.struct, body, topics)
    try:
        data: bytes = layout.build(body)
        parsed = layout.parse(data)
    except (ConstructError, DecodeError, ValueError) as error:
        raise NotSendableError(f"it has no form in version {other}: {error}") from None
    if other != version:
        lost = next(_lost(request[version].struct, body, parsed, ""), None)
        if lost is not None:
            raise NotSendableError(f"the broker offers version {other}, which has no {lost}")
    return EncodedRequest(other, body, data)


def _lost(
    struct_: wire.Struct, value: Mapping[str, Any], parsed: Mapping[str, Any], path: str
) -> Iterator[str]:
    """Yield paths of values that differ from their default and are missing when decoded again."""
    if value.get(wire.UNKNOWN_TAGS) and wire.UNKNOWN_TAGS not in parsed:
        yield f"{path}{wire.UNKNOWN_TAGS}"
    for member in struct_.all_members:
        name = member.name
        if name not in value or _is_other_name(member, parsed):
            continue
        found = value[name]
        if name not in parsed:
            if found != member.field.default_value(member.con):
                yield f"{path}{name}"
            continue
        inside = wire.struct_inside(member.con)
        if inside is not None and found and parsed[name]:
            inner, many = inside
            pairs = zip(found, parsed[name], strict=False) if many else [(found, parsed[name])]
            for one, other in pairs:
                yield from _lost(inner, one, other, f"{path}{name}.")
        elif found != parsed[name] and not (
            isinstance(found, tuple | list) and list(found) == list(parsed[name])
        ):
            yield f"{path}{name}"


def _is_other_name(member: wire.Member, parsed: Mapping[str, Any]) -> bool:
    """Return whether a field identifies a topic that the decoded value identifies otherwise: by name or by ID."""
    if member.name in parsed:
        return False
    if member.field.type.entity == "topicName":
        return "topic_id" in parsed
    return member.field.type.content == "topic_id" and any(other in parsed for other in TOPIC_FIELDS)


def _topics_in(struct_: wire.Struct, body: Body, topics: TopicIds) -> Body:
    """Return a body in which each topic has the name or ID that the layout requires."""
    made = dict(body)
    names = {member.name for member in struct_.members}
    wanted = topic_fields(struct_)
    if "topic_id" in names and "topic_id" not in made and not wanted:
        name = next((made[each] for each in TOPIC_FIELDS if made.get(each)), None)
        found = topics.topic_id(name) if name else None
        if found is None:
            raise NotSendableError(f"topic {name} has no ID in the live cluster")
        made["topic_id"] = found
    if wanted and "topic_id" in made and "topic_id" not in names:
        name = topics.topic_name(made["topic_id"])
        if name is None and not any(made.get(each) for each in wanted):
            raise NotSendableError(f"no topic of the live cluster has the ID {made['topic_id']}")
        made.update(dict.fromkeys((each for each in wanted if not made.get(each)), name))
    for member in struct_.members:
        value = made.get(member.name)
        if isinstance(member.con, wire.Array) and isinstance(member.con.element, wire.Struct) and value:
            element = member.con.element
            made[member.name] = [_topics_in(element, each, topics) for each in value]
    return made


def _find_coordinator(body: Body, version: int) -> Body:
    if version >= 4 and "key" in body:
        return {"key_type": body.get("key_type", 0), "coordinator_keys": [body["key"]]}
    if version < 4 and "coordinator_keys" in body:
        return {"key_type": body["key_type"], "key": _only(body["coordinator_keys"], "coordinator_keys")}
    return body


def _offset_fetch(body: Body, version: int) -> Body:
    stable = {"require_stable": body.get("require_stable", False)}
    if version >= 8 and "group_id" in body:
        return stable | {"groups": [{"group_id": body["group_id"], "topics": body["topics"]}]}
    if version < 8 and "groups" in body:
        group = _only(body["groups"], "groups")
        if group.get("member_id") is not None:
            raise NotSendableError("it names a group member, which only later versions do")
        return stable | {"group_id": group["group_id"], "topics": group["topics"]}
    return body


def _leave_group(body: Body, version: int) -> Body:
    if version >= 3 and "members" not in body:
        return {"group_id": body["group_id"], "members": [{"member_id": body["member_id"]}]}
    if version < 3 and "members" in body:
        member = _only(body["members"], "members")
        if member["group_instance_id"] is not None or member.get("reason") is not None:
            raise NotSendableError("it names a static member or a reason, which only later versions do")
        return {"group_id": body["group_id"], "member_id": member["member_id"]}
    return body


def _only(items: Sequence[Any], field: str) -> Any:
    """Return the only element of a list, for earlier versions that take one value instead of a list."""
    if len(items) != 1:
        raise NotSendableError(f"it has {len(items)} {field}, earlier versions take one")
    return items[0]


_SHAPES: dict[int, Callable[[Body, int], Body]] = {
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.LEAVE_GROUP: _leave_group,
}


def _reshaped(key: int | None, body: Body, version: int) -> Body:
    shape = _SHAPES.get(-1 if key is None else key)
    return body if shape is None else shape(body, version)
