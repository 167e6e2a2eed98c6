"""Frames with other content, such as a held frame that a user has edited.

A frame keeps its API, version and correlation ID, so that the peer's pairing holds. Bodies are given as in
``kproxy read --json`` (bytes are base64 there). A records field may be given as bytes or as batches of records
(:mod:`.record_edits`); a path may lead into it.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import construct

from captures.interventions import Change
from dissectors import wire
from dissectors.budget import Budget, LimitReached
from dissectors.frames import Body, decode_request, decode_response
from dissectors.headers import SIZE_BYTES, framed
from dissectors.message_version import MessageVersion
from dissectors.visitor import replaced
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.rules.field_texts import InvalidError, payload_of, value_of
from kproxy.proxy.rules.record_edits import base64_bytes, batches_of, records_field
from kproxy.proxy.verdicts import Frame

_STEP = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
_INDEX = re.compile(r"\d+")
_ABSENT = object()
_PAYLOADS = frozenset({"key", "value"})


class FieldText(str):
    """A value as text, to be parsed by the type of its field: ``123`` is a string if the field is one."""

    __slots__ = ()


def decoded(frame: Frame) -> Body:
    """Return a frame decoded for editing.

    :raises EditError: if it cannot be read to its last byte
    """
    payload = frame.data[SIZE_BYTES:]
    if frame.side == "request":
        body = decode_request(payload)
    else:
        body = decode_response(payload, frame.api_key, frame.version)
    if body.value is None or body.problems:
        reason = body.problems[0].reason if body.problems else body.guess
        raise EditError(f"this {frame.side} cannot be edited, since it could not be read: {reason}")
    return body


def with_changes(
    frame: Frame, changes: Mapping[str, Any], budget: Budget | None = None
) -> tuple[bytes, tuple[Change, ...]]:
    """Return a frame with other values at some paths, and the differences.

    :param changes: values, or :class:`FieldText`, by path: ``topics[0].partitions[1].fetch_offset``; without an index
        the path means all elements of an array, ``topics.partitions.fetch_offset``
    :param budget: limits the cost of reading records
    :raises EditError: if a path does not exist, or its value has the wrong type
    :raises LimitReached: if reading records exceeds the budget
    """
    body = decoded(frame)
    assert body.value is not None
    layout = body.message(response=frame.side == "response")
    assert layout is not None, "what has a value was read with a layout"
    value = replaced(layout.struct, body.value, _copied)
    for path, new in changes.items():
        steps = _steps(path)
        if steps[0] == frame.side and steps[0] not in value:
            del steps[0]
        _ValueSetter(steps, new, budget).into(layout.struct, value, 0)
    return _built(frame, body, value, base64_bytes)


def with_batches(struct: wire.Struct, value: dict[str, Any]) -> dict[str, Any]:
    """Return a body for editing, its records fields as batches if they can be read."""

    def shown(member: wire.Member, field: Any, _: object) -> Any:
        if isinstance(member.con, wire.Records) and isinstance(field, bytes):
            with suppress(EditError, LimitReached):
                return batches_of(field)
        return _copied(member, field, _)

    return replaced(struct, value, shown)


def with_body(
    frame: Frame, value: Any, as_bytes: Callable[[str], bytes] = base64_bytes
) -> tuple[bytes, tuple[Change, ...]]:
    """Return a frame with another body, and the differences.

    :param as_bytes: converts text in place of bytes
    :raises EditError: if it is not a body of that API and version
    """
    return _built(frame, decoded(frame), value, as_bytes)


def with_bytes(frame: Frame, data: bytes) -> tuple[bytes, tuple[Change, ...]]:
    """Return a replacement of a frame, and the differences.

    :param data: with its size field
    :raises EditError: if it is not a frame of that API and version with the same correlation ID
    """
    if len(data) < SIZE_BYTES or int.from_bytes(data[:SIZE_BYTES]) != len(data) - SIZE_BYTES:
        raise EditError(f"the size field does not match the {max(len(data) - SIZE_BYTES, 0)} bytes after it")
    # size, then API key, version and correlation ID of a request, or the correlation ID of a response
    kept = 12 if frame.side == "request" else 8
    if data[SIZE_BYTES:kept] != frame.data[SIZE_BYTES:kept]:
        what = "API key, version and correlation ID" if frame.side == "request" else "correlation ID"
        raise EditError(f"{what} must not change")
    return data, differences(frame, data)


def differences(frame: Frame, data: bytes) -> tuple[Change, ...]:
    """Return the differences between a frame and `data`, which replaces it.

    :raises EditError: if either cannot be read
    """
    body = decoded(frame)
    layout = body.message(response=frame.side == "response")
    return _differences(body.value, decoded(replace(frame, data=data)).value, layout and layout.struct)


def _built(
    frame: Frame, body: Body, value: Any, as_bytes: Callable[[str], bytes]
) -> tuple[bytes, tuple[Change, ...]]:
    layout = body.message(response=frame.side == "response")
    assert layout is not None, "what has a value was read with a layout"
    data = framed(frame.data[SIZE_BYTES : body.start] + encoded(layout, value, as_bytes, body.value))
    after = decoded(replace(frame, data=data))
    return data, _differences(body.value, after.value, layout.struct)


def encoded(
    layout: MessageVersion, value: Any, as_bytes: Callable[[str], bytes], before: Any = None
) -> bytes:
    """Return the bytes of a body.

    :param as_bytes: converts text in place of bytes
    :param before: the body that it replaces, if any
    :raises EditError: if `value` is not a body of that API and version
    """
    try:
        data: bytes = layout.build(_buildable(layout.struct, value, before, as_bytes))
    except construct.ConstructError as error:
        # construct puts the path in front, in its own notation
        raise EditError(str(error).replace("(parsing)", "").replace("(building)", "").strip()) from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise EditError(f"this is not a {layout.message.name} v{layout.version}: {error}") from error
    return data


# ---------------------------------------------------------------- values
def _copied(_: wire.Member, value: Any, __: object) -> Any:
    return list(value) if _rows(value) else value


class _ValueSetter:
    """Sets a value at a path.

    :param budget: limits the cost of reading records
    """

    def __init__(self, steps: list[str | int], new: Any, budget: Budget | None) -> None:
        self._steps = steps
        self._new = new
        self._budget = budget

    def into(self, con: wire.WireType, holder: Any, at: int) -> Any:
        """Return the value at step `at`, with the new value set inside it."""
        con = con.struct if isinstance(con, wire.NullableStruct) else con
        if at == len(self._steps):
            return self._new
        step = self._steps[at]
        if isinstance(con, wire.Struct) and isinstance(holder, dict) and isinstance(step, str):
            member = next((each for each in con.all_members if each.name == step), None)
            if member is None:
                raise self._nothing(at)
            last = at == len(self._steps) - 1
            # a tagged field may be absent; building the message shows whether it exists at all
            if step not in holder and not last:
                raise self._nothing(at)
            holder[step] = self._value(member) if last else self.into(member.con, holder[step], at + 1)
            return holder
        if isinstance(con, wire.Array) and isinstance(holder, list):
            if isinstance(step, str):
                return [self.into(con.element, each, at) for each in holder]
            if step >= len(holder):
                raise self._nothing(at)
            holder[step] = self.into(con.element, holder[step], at + 1)
            return holder
        if isinstance(con, wire.Records) and isinstance(holder, bytes | list):
            batches = batches_of(holder, self._budget) if isinstance(holder, bytes) else holder
            return self._in_records(batches, at)
        raise self._nothing(at)

    def _value(self, member: wire.Member) -> Any:
        if not isinstance(self._new, FieldText):
            return self._new
        try:
            return value_of(member.con, member.field.type.domain, self._new)
        except InvalidError as error:
            raise EditError(f"{path_text(self._steps)}: {error}") from None

    def _in_records(self, holder: Any, at: int) -> Any:
        """Do the same in batches and their records, which are plain dictionaries and lists."""
        step = self._steps[at]
        if isinstance(holder, list):
            if isinstance(step, str):
                return [self._in_records(each, at) for each in holder]
            if step >= len(holder):
                raise self._nothing(at)
            last = at == len(self._steps) - 1
            holder[step] = self._new if last else self._in_records(holder[step], at + 1)
            return holder
        if not isinstance(holder, dict) or step not in holder:
            raise self._nothing(at)
        if at < len(self._steps) - 1:
            holder[step] = self._in_records(holder[step], at + 1)
        else:
            holder[step] = self._in_record(str(step), holder)
        if step == "records" and self._steps[-1] == "timestamp" and holder["timestamp_type"] == "create":
            holder["max_timestamp"] = max(each["timestamp"] for each in holder["records"])
            if holder["magic"] < 2:
                holder["base_timestamp"] = holder["max_timestamp"]
        return holder

    def _in_record(self, name: str, holder: Mapping[str, Any]) -> Any:
        """Return the new value of a field of a batch, a record or a header."""
        new = self._new
        if name in _PAYLOADS and not ("value" in holder and name == "key" and "offset" not in holder):
            if isinstance(new, str):
                try:
                    return payload_of(new)
                except InvalidError as error:
                    raise EditError(f"{path_text(self._steps)}: {error}") from None
            return new if new is None else json.dumps(new, ensure_ascii=False, separators=(",", ":")).encode()
        if isinstance(new, FieldText) and not isinstance(holder[name], str):
            try:
                return json.loads(new)
            except json.JSONDecodeError:
                raise EditError(f"{path_text(self._steps)}: {new!r} is not a number") from None
        return str(new) if isinstance(new, FieldText) else new

    def _nothing(self, at: int) -> EditError:
        return EditError(f"there is no {path_text(self._steps[: at + 1])} in this message")


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for part in path.split("."):
        found = _STEP.fullmatch(part)
        if found is None:
            raise EditError(f"{path!r} is not a path: topics[0].partitions[1].fetch_offset is one")
        steps += (found[1], *map(int, _INDEX.findall(found[2])))
    return steps


def path_text(steps: Sequence[str | int]) -> str:
    """Return a path as users write it: ``topics[0].partitions[1].fetch_offset``."""
    out = ""
    for step in steps:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def _buildable(con: Any, value: Any, before: Any, as_bytes: Callable[[str], bytes], path: str = "") -> Any:
    """Return a value with text in place of bytes converted, and batches encoded to records fields.

    :param before: the previous value
    :raises EditError: if building would misread a value or silently omit it: fields that the message does not have,
        values that are not objects or not lists
    """
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Records) and isinstance(value, list | tuple):
        return records_field(value, before if isinstance(before, bytes) else None, as_bytes)
    if isinstance(con, wire.Bytes) and isinstance(value, str):
        try:
            return as_bytes(value)
        except binascii.Error as error:
            raise EditError(f"bytes are written in base64, and {value[:40]!r} is not: {error}") from None
    if value is None or not isinstance(con, wire.Struct | wire.Array):
        return value
    where = path.rstrip(".") or "the body"
    if isinstance(con, wire.Array):
        if not isinstance(value, list | tuple):
            raise EditError(f"{where} is a list, and {value!r} is not")
        rows = before if _rows(before) else ()
        return [
            _buildable(
                con.element, item, rows[index] if index < len(rows) else None, as_bytes, f"{where}[{index}]."
            )
            for index, item in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        raise EditError(f"{where} has fields inside, and {value!r} has none")
    members = {member.name: member.con for member in con.all_members}
    known = before if isinstance(before, Mapping) else {}
    made = dict(value)
    for name, item in value.items():
        if name in members:
            made[name] = _buildable(members[name], item, known.get(name), as_bytes, f"{path}{name}.")
        elif name != wire.UNKNOWN_TAGS:
            raise EditError(f"there is no {path}{name} in this message")
    return made


def _differences(before: Any, after: Any, con: wire.WireType | None) -> tuple[Change, ...]:
    found: list[Change] = []
    _compare(before, after, con, "", found)
    return tuple(found)


def _compare(before: Any, after: Any, con: Any, path: str, found: list[Change]) -> None:
    if before == after:
        return
    if isinstance(con, wire.Records) and isinstance(before, bytes) and isinstance(after, bytes):
        with suppress(EditError, LimitReached):
            shown = batches_of(before), batches_of(after)
            before, after = (before, after) if shown[0] == shown[1] else shown
    con = con.struct if isinstance(con, wire.NullableStruct) else con
    if isinstance(before, dict) and isinstance(after, dict):
        members = {each.name: each.con for each in con.all_members} if isinstance(con, wire.Struct) else {}
        for name in {**before, **after}:
            inner = f"{path}.{name}" if path else name
            _compare(before.get(name, _ABSENT), after.get(name, _ABSENT), members.get(name), inner, found)
    elif _rows(before) and _rows(after) and len(before) == len(after):
        element = con.element if isinstance(con, wire.Array) else None
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, element, f"{path}[{index}]", found)
    else:
        found.append(Change(path, _shown(before), _shown(after)))


def _rows(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _shown(value: Any) -> Any:
    return None if value is _ABSENT else value
