"""Frames with other content: what a user made of a held one.

A frame stays what it was: the same API in the same version, with the same correlation ID, so that the peer's pairing
holds. Bodies are given as in ``kproxy read --json`` (bytes are base64 there); records fields are bytes here, not
batches.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import construct

from captures.interventions import Change
from dissectors import wire
from dissectors.frames import Body, decode_request, decode_response
from kproxy.proxy.framing import SIZE_BYTES
from kproxy.proxy.rules.answers import rebuilt
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.verdicts import Frame

_STEP = re.compile(r"([^.\[\]]+)((?:\[\d+\])*)")
_ABSENT = object()


def decoded(frame: Frame) -> Body:
    """Return a frame decoded, to be edited.

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


def with_changes(frame: Frame, changes: Mapping[str, Any]) -> tuple[bytes, tuple[Change, ...]]:
    """Return a frame with other values at some paths, and what has changed.

    :param changes: values by path: ``topics[0].partitions[1].fetch_offset``
    :raises EditError: if there is no such path, or the value does not fit it
    """
    body = decoded(frame)
    assert body.value is not None
    value = _copied(body.value)
    for path, new in changes.items():
        _put(value, path, new)
    return _built(frame, body, value)


def with_body(frame: Frame, value: Mapping[str, Any]) -> tuple[bytes, tuple[Change, ...]]:
    """Return a frame with another body, and what has changed.

    :raises EditError: if it is not a body of that API and version
    """
    return _built(frame, decoded(frame), value)


def with_bytes(frame: Frame, data: bytes) -> tuple[bytes, tuple[Change, ...]]:
    """Return another frame instead of a frame, and what has changed.

    :param data: with its size field
    :raises EditError: if it is not a frame of that API and version with the same correlation ID
    """
    if len(data) < SIZE_BYTES or int.from_bytes(data[:SIZE_BYTES]) != len(data) - SIZE_BYTES:
        raise EditError(f"the size field does not match the {max(len(data) - SIZE_BYTES, 0)} bytes behind it")
    # size, then API key, version and correlation ID of a request, or the correlation ID of a response
    kept = 12 if frame.side == "request" else 8
    if data[SIZE_BYTES:kept] != frame.data[SIZE_BYTES:kept]:
        what = "API key, version and correlation ID" if frame.side == "request" else "correlation ID"
        raise EditError(f"{what} have to stay as they are")
    return data, differences(frame, data)


def differences(frame: Frame, data: bytes) -> tuple[Change, ...]:
    """Return what of a frame is otherwise in other bytes for it.

    :raises EditError: if either cannot be read
    """
    return _differences(decoded(frame).value, decoded(replace(frame, data=data)).value)


def _built(frame: Frame, body: Body, value: Mapping[str, Any]) -> tuple[bytes, tuple[Change, ...]]:
    layout = body.message(response=frame.side == "response")
    assert layout is not None, "what has a value was read with a layout"
    try:
        binary = _buildable(layout.struct, value)
        data = rebuilt(frame.data, body, binary, response=frame.side == "response")
    except construct.ConstructError as error:
        # construct puts the path in front, in its own words
        raise EditError(str(error).replace("(parsing)", "").replace("(building)", "").strip()) from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise EditError(f"this is no {layout.message.name} v{layout.version}: {error}") from error
    after = decoded(replace(frame, data=data))
    return data, _differences(body.value, after.value)


# ---------------------------------------------------------------- values
def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def _put(value: Any, path: str, new: Any) -> None:
    holder: Any = value
    steps = list(_steps(path))
    if not steps:
        raise EditError("a path is missing")
    for at, step in enumerate(steps):
        last = at == len(steps) - 1
        try:
            if last:
                # a tagged field may be absent; whether it exists at all shows when the message is built
                if isinstance(step, int) or not isinstance(holder, dict):
                    holder[step]
                holder[step] = new
            else:
                holder = holder[step]
        except (KeyError, IndexError, TypeError):
            raise EditError(f"there is no {_path(steps[: at + 1])} in this message") from None


def _steps(path: str) -> Iterator[str | int]:
    for part in path.split("."):
        found = _STEP.fullmatch(part)
        if found is None:
            raise EditError(f"{path!r} is not a path: topics[0].partitions[1].fetch_offset is one")
        yield found[1]
        yield from map(int, re.findall(r"\d+", found[2]))


def _path(steps: list[str | int]) -> str:
    out = ""
    for step in steps:
        out += f"[{step}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def _buildable(con: Any, value: Any, path: str = "") -> Any:
    """Return a value in which bytes that JSON carries as base64 are bytes.

    :raises EditError: for what building would take for something else, or leave out in silence: fields that the message
        does not have, and what is not an object or no list
    """
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Bytes) and isinstance(value, str):
        try:
            return b64decode(value, validate=True)
        except binascii.Error as error:
            raise EditError(f"bytes are written in base64, and {value[:40]!r} is none: {error}") from None
    if value is None or not isinstance(con, wire.Struct | wire.Array):
        return value
    where = path.rstrip(".") or "the body"
    if isinstance(con, wire.Array):
        if not isinstance(value, list | tuple):
            raise EditError(f"{where} is a list, and {value!r} is none")
        return [_buildable(con.element, item, f"{where}[{index}].") for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        raise EditError(f"{where} has fields inside, and {value!r} has none")
    members = {member.name: member.con for member in con.all_members}
    made = dict(value)
    for name, item in value.items():
        if name in members:
            made[name] = _buildable(members[name], item, f"{path}{name}.")
        elif name != wire.UNKNOWN_TAGS:
            raise EditError(f"there is no {path}{name} in this message")
    return made


def _differences(before: Any, after: Any) -> tuple[Change, ...]:
    found: list[Change] = []
    _compare(before, after, "", found)
    return tuple(found)


def _compare(before: Any, after: Any, path: str, found: list[Change]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            inner = f"{path}.{name}" if path else name
            _compare(before.get(name, _ABSENT), after.get(name, _ABSENT), inner, found)
    elif _rows(before) and _rows(after) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            _compare(one, other, f"{path}[{index}]", found)
    elif before != after:
        found.append(Change(path, _shown(before), _shown(after)))


def _rows(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _shown(value: Any) -> Any:
    return None if value is _ABSENT else value
