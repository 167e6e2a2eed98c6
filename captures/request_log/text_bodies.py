"""Bodies as text, as brokers before 2.8 log them (``Struct.toString`` of Kafka's clients), as the values of a layout.

A text has all untagged fields of one version in the order of the wire: ``{name=value,list=[{..},{..}],..}``. Names
changed between releases, so fields are matched by position. Strings are not quoted; what ends one is what the layout
has next, so that commas and braces inside do no harm. Of bytes and records there is a size at most.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from captures.request_log.bodies import BodyError
from dissectors import wire
from dissectors.left_out import placeholder

_NAME = re.compile(r"[a-z_]\w*=")
_INNER = re.compile(r"[a-z_]\w*=\{(?=[a-z_]\w*=)")
"""Start of a struct that Kafka had for fields that the layout has one after another: ``partition_header={..}``."""
_NUMBER = re.compile(r"-?\d+")
_FLOAT = re.compile(r"-?\d+\.\d+(?:E-?\d+)?|NaN|-?Infinity")
_TAGS = re.compile(r",?_tagged_fields=\{([^{}]*)\}")
_BUFFER = re.compile(r"java\.nio\.\w+\[pos=(\d+) lim=(\d+) cap=\d+\]")
_RECORDS = re.compile(r"(?:[A-Za-z.]+(?:@[0-9a-f]+|\(.*?\))|\[.*?\])(?=[,}])")
_RECORDS_SIZE = re.compile(r"size=(\d+)|start=(\d+), end=(\d+)")
_PRODUCE = re.compile(r"\{acks=(-?\d+),timeout=(-?\d+),(?:numPartitions=\d+|partitionSizes=\[(.*)\])\}")
"""``ProduceRequest.toString``: the sizes of partitions at TRACE, their number at DEBUG."""
_STARTS = {
    "bool": "(?:true|false)(?=[,}])",
    "array": r"\[|null",
    "struct": r"\{|null",
    "string": "",
    "uuid": "",
}
_STARTS |= {"bytes": r"java\.nio|null", "records": r"[A-Za-z]|\[", "float64": _FLOAT.pattern}
_INTEGER_STARTS = r"-?\d+(?=[,}])"

_END_OF_TEXT = r"\}\Z"
_END_OF_ELEMENT = r",|\](?=[,}])"
_END_OF_STRUCT = r"\}(?=\}|,[a-z_]\w*=)"
_END_OF_STRUCT_IN_ARRAY = r"\}(?=,\{|\])"


class _Value(NamedTuple):
    """A value, and the position after it."""

    value: Any
    end: int


def text_body_of(struct: wire.Struct, text: str) -> dict[str, Any]:
    """Return the values of a layout from text.

    :raises BodyError: if the text does not match the layout
    """
    found = _struct(struct, text, 0, _END_OF_TEXT)
    if found.end != len(text):
        raise _error(text, found.end, "the end")
    values: dict[str, Any] = found.value
    return values


def produced(text: str, response: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a Produce request.

    Its text lacks the transactional ID, and at DEBUG the partitions: those are the ones that the response lists.

    :raises BodyError: if the text has another form
    """
    found = _PRODUCE.fullmatch(text)
    if found is None:
        raise _error(text, 0, "a Produce request")
    acks, timeout, sizes = found.groups()
    if sizes is None:
        partitions = [
            (topic["name"], partition["index"], 0)
            for topic in response.get("responses", ())
            for partition in topic["partition_responses"]
        ]
    else:
        partitions = [_sized_partition(each) for each in sizes.split(",") if each]
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, index, size in partitions:
        topics.setdefault(topic, []).append({"index": index, "records": _left_out(size)})
    topic_data = [{"name": topic, "partition_data": each} for topic, each in topics.items()]
    return {"transactional_id": None, "acks": int(acks), "timeout_ms": int(timeout), "topic_data": topic_data}


def _sized_partition(text: str) -> tuple[str, int, int]:
    place, _, size = text.rpartition("=")
    topic, _, index = place.rpartition("-")
    return topic, int(index), int(size)


def _struct(struct: wire.Struct, text: str, at: int, end: str) -> _Value:
    """Read a struct.

    :param end: pattern of what closes it
    """
    at = _expect(text, at, "{")
    values: dict[str, Any] = {}
    depth = 0
    for number, (member, follows) in enumerate(zip(struct.members, _following(struct), strict=False)):
        if number:
            at = _expect(text, at, ",")
        if not isinstance(member.con, _MAY_START_SO) and (opened := _INNER.match(text, at)):
            at, depth = opened.end(), depth + 1
        name = _NAME.match(text, at)
        if name is None:
            raise _error(text, at, f"the field {member.name}")
        after = rf"\}}{{0,{depth}}},{follows}" if follows else end
        values[member.name], at = _read(member.con, text, name.end(), after)
        while depth and text.startswith("}", at):
            at, depth = at + 1, depth - 1
    if struct.tagged is not None and (tags := _TAGS.match(text, at)):
        at = tags.end()
        values |= _tagged(struct.tagged, tags[1])
    return _Value(values, _expect(text, at, "}"))


@lru_cache(maxsize=1024)
def _following(struct: wire.Struct) -> list[str]:
    """Return for each field the pattern of what follows it in the struct; empty if nothing does."""
    fields = [rf"(?:[a-z_]\w*=\{{)?[a-z_]\w*=(?:{_starts(each.con)})" for each in struct.members[1:]]
    return [*fields, "" if struct.tagged is None else r"_tagged_fields=\{"]


def _tagged(members: dict[int, wire.Member], text: str) -> dict[str, Any]:
    values = {}
    for each in filter(None, text.split(", ")):
        tag, _, value = each.partition("=")
        member = members.get(int(tag)) if tag.isdecimal() else None
        if member is None or not isinstance(member.con, wire.FixedWidth):
            raise BodyError(f"a tagged field as {each!r}, which does not tell its value"[:80])
        values[member.name] = _read(member.con, value, 0, "").value
    return values


def _read(con: wire.WireType, text: str, at: int, after: str) -> _Value:
    """Read a value.

    :param after: pattern of what follows a string
    """
    if isinstance(con, wire.String):
        return _string(text, at, after)
    if text.startswith("null", at) and not isinstance(con, wire.FixedWidth | wire.Uuid):
        return _Value(None, at + 4)
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Struct):
        return _struct(con, text, at, _END_OF_STRUCT)
    if isinstance(con, wire.Array):
        return _array(con, text, at)
    if isinstance(con, wire.Records):
        return _records(text, at)
    if isinstance(con, wire.Bytes):
        buffer = _match(_BUFFER, text, at, "bytes")
        return _Value(_left_out(int(buffer[2]) - int(buffer[1])), buffer.end())
    if con.kind == "bool":
        word = _match(_BOOL, text, at, "true or false")
        return _Value(word[0] == "true", word.end())
    if con.kind == "uuid":
        word = _match(_UUID, text, at, "a UUID")
        return _Value(word[0], word.end())
    number = _match(_FLOAT if con.kind == "float64" else _NUMBER, text, at, "a number")
    return _Value(float(number[0]) if con.kind == "float64" else int(number[0]), number.end())


_MAY_START_SO = (wire.String, wire.Struct, wire.NullableStruct)
_BOOL = re.compile("true|false")
_UUID = re.compile(r"[\w-]{22}")


def _array(con: wire.Array, text: str, at: int) -> _Value:
    at = _expect(text, at, "[")
    values: list[Any] = []
    if text.startswith("]", at):
        return _Value(values, at + 1)
    element = con.element
    while True:
        if not isinstance(element, wire.Struct) and (alone := _ALONE.match(text, at)):
            found = _read(element, text, alone.end(), _END_OF_STRUCT_IN_ARRAY)
            found = found._replace(end=_expect(text, found.end, "}"))
        elif isinstance(element, wire.Struct) and not text.startswith("{", at) and len(element.members) == 1:
            [member] = element.members
            found = _read(member.con, text, at, _END_OF_ELEMENT)
            found = found._replace(value={member.name: found.value})
        elif isinstance(element, wire.Struct):
            found = _struct(element, text, at, _END_OF_STRUCT_IN_ARRAY)
        else:
            found = _read(element, text, at, _END_OF_ELEMENT)
        values.append(found.value)
        if text.startswith("]", found.end):
            return _Value(values, found.end + 1)
        at = _expect(text, found.end, ",")


_ALONE = re.compile(r"\{[a-z_]\w*=")
"""A struct of one field, where the layout has the field by itself."""


def _string(text: str, at: int, after: str) -> _Value:
    end = _pattern(after).search(text, at)
    if end is None:
        raise _error(text, at, "a string with an end")
    value = text[at : end.start()]
    return _Value(None if value == "null" else value, end.start())


def _records(text: str, at: int) -> _Value:
    found = _match(_RECORDS, text, at, "records")
    size = _RECORDS_SIZE.search(found[0])
    length = 0 if size is None else int(size[1] or int(size[3]) - int(size[2]))
    return _Value(_left_out(length), found.end())


def _left_out(size: int) -> bytes:
    if not 0 <= size < 1 << 31:
        raise BodyError(f"{size} bytes")
    return placeholder(size) if size else b""


def _starts(con: wire.WireType) -> str:
    """Return the pattern of how values of a type start."""
    return _STARTS.get(con.kind, _INTEGER_STARTS)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _match(pattern: re.Pattern[str], text: str, at: int, what: str) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise _error(text, at, what)
    return found


def _expect(text: str, at: int, mark: str) -> int:
    if not text.startswith(mark, at):
        raise _error(text, at, repr(mark))
    return at + len(mark)


def _error(text: str, at: int, what: str) -> BodyError:
    return BodyError(f"{text[at : at + 40]!r} in place of {what} (character {at})")
