"""JSON bodies as Kafka's ``JsonConverter`` classes write them, converted to values of a layout.

JSON has the fields of one version in declaration order, in camel case; tagged fields only if they are not the default.
Some fields had other names in earlier releases, at the same position: keys without a field of that name are matched by
position. Bytes are base64, records only a size (``recordsSizeInBytes``).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from dissectors import wire
from dissectors.left_out import placeholder

_SIZE_SUFFIX = "sizeinbytes"
_LONGEST_KEY = 200
"""Characters of the longest accepted key: matched keys are cached, and no field name is that long."""

#: returns the value of a field from its JSON value
_Read = Callable[[Any], Any]


class BodyError(ValueError):
    """A body does not match its layout; the message says where and why."""


class _Entry(NamedTuple):
    """A key of a JSON object, and its field."""

    key: str
    name: str
    read: _Read


def body_of(struct: wire.Struct, value: Any) -> dict[str, Any]:
    """Return the values of a layout from JSON.

    Values of other types than the layout's are detected when the message is built, if not here.

    :raises BodyError: if the fields are not those of the layout
    :raises ValueError: if a value is not one of its type, as is ``TypeError``
    """
    if not isinstance(value, dict):
        raise BodyError(f"{value!r} in place of fields"[:80])
    return {entry.name: entry.read(value[entry.key]) for entry in _entries(struct, tuple(value))}


@lru_cache(maxsize=4096)
def _entries(struct: wire.Struct, keys: tuple[str, ...]) -> tuple[_Entry, ...]:
    """Match the keys of an object with the fields of a struct: by name, the rest by position."""
    if any(len(key) > _LONGEST_KEY for key in keys):
        raise BodyError(f"a field whose name has over {_LONGEST_KEY} characters")
    by_name = {member.name.replace("_", ""): member for member in struct.all_members}
    found: dict[str, wire.Member] = {}
    for key in keys:
        member = by_name.get(_plain(key))
        if member is not None:
            found[key] = member
    taken = {member.name for member in found.values()}
    left = [member for member in struct.members if member.name not in taken]
    others = [key for key in keys if key not in found]
    if len(left) != len(others):
        names = ", ".join(others or [member.name for member in left])
        raise BodyError(f"{'unknown' if others else 'missing'} fields: {names}")
    found.update(zip(others, left, strict=True))
    return tuple(
        _Entry(key, found[key].name, _records if _is_records_size(key) else _reader(found[key].con))
        for key in keys
    )


def _plain(key: str) -> str:
    return key.lower().replace("_", "").removesuffix(_SIZE_SUFFIX)


def _is_records_size(key: str) -> bool:
    return key.lower().endswith(_SIZE_SUFFIX)


def _reader(con: wire.WireType) -> _Read:
    if isinstance(con, wire.NullableStruct):
        con = con.struct
    if isinstance(con, wire.Struct):
        inner = con
        return lambda value: None if value is None else body_of(inner, value)
    if isinstance(con, wire.Array):
        element = _reader(con.element)
        return lambda value: None if value is None else [element(each) for each in _elements(value)]
    if isinstance(con, wire.Records):
        return _records  # null records have the field's own key
    if isinstance(con, wire.Bytes):
        return lambda value: None if value is None else b64decode(value)
    if con.kind == "float64":
        return float  # JSON has NaN and infinity as texts
    return _same


def _elements(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BodyError(f"{value!r} in place of a list"[:80])
    return value


def _same(value: Any) -> Any:
    return value


def _records(value: Any) -> bytes | None:
    """Return a placeholder for records: the log has only their size."""
    if value is None:
        return None
    if not (isinstance(value, int) and 0 <= value < 1 << 31):
        raise BodyError(f"{value!r} bytes of records"[:80])
    return placeholder(value) if value else b""
