"""Results as JSON: one conversion from our values to values for a JSON encoder.

A JSON object has the fields of a struct, dataclass or named tuple, by name and in order. A class whose object differs
declares ``JSON``: the keys in order, separated by spaces, each with the attribute or property of its value if that has
another name: ``"topic=tp.topic partition=tp.partition end_ns=end"``. The type determines how a value is written:
:data:`Time`, :data:`OrNull`, a tuple with :class:`KeyNames`, ``Any`` for values that are ready for the encoder. A value
that is :data:`msgspec.UNSET` has no key. The JSON Schemas of the documentation are generated from the same
declarations.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache, cached_property, lru_cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET

from dissectors.units import SECOND

T = TypeVar("T")
Writers = list[tuple[str, Callable[[Any], Any]]]
"""Keys, and the functions that convert their values."""


class Form(Enum):
    """How a value is written, if its Python type does not determine it."""

    TIME = "time"
    EMPTY_IS_NULL = "empty is null"
    NEGATIVE_IS_NULL = "negative is null"
    ROUNDED = "rounded"
    WORD = "word"


Time = Annotated[int, Form.TIME]
"""Nanoseconds since 1970; in JSON RFC 3339 in UTC."""
OrNull = Annotated[T, Form.EMPTY_IS_NULL]
"""A value that is null in JSON if it is empty or 0."""


NotNegative = Annotated[int, Form.NEGATIVE_IS_NULL]
"""A number that is null in JSON if it is negative, which means unknown."""
Rounded = Annotated[float, Form.ROUNDED]
"""A number that has three decimals in JSON."""
Word = Annotated[T, Form.WORD]
"""An enumeration member that is written by its name, in lower case."""


class KeyNames(tuple[str, ...]):
    """In an annotation: the JSON keys of the values of a tuple."""

    def __new__(cls, *names: str) -> KeyNames:
        return super().__new__(cls, names)


Range = Annotated[tuple[int, int], KeyNames("min", "max")]
"""A minimum and a maximum, such as of versions."""
Sides = Annotated[tuple[int, int], KeyNames("client", "broker")]
"""A value for the client and one for the broker."""


def rfc3339(time: int) -> str:
    """Return a time in UTC with nanoseconds (RFC 3339)."""
    seconds, nanoseconds = divmod(time, SECOND)
    return f"{_to_the_second(seconds)}.{nanoseconds:09d}Z"


@lru_cache(maxsize=16)
def _to_the_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def to_json(value: Any) -> Any:
    """Return a value as dictionaries, lists and values that a JSON encoder knows, including bytes.

    :raises TypeError: if a value in it has no JSON form
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [to_json(each) for each in value]
    if parts := _parts(kind):
        names, get, writers = parts
        shape = dict(zip(names, get(value), strict=True))
        for name, write in writers:
            if shape[name] is UNSET:
                del shape[name]
            else:
                shape[name] = write(shape[name])
        return shape
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if isinstance(value, Set):
        return [to_json(each) for each in sorted(value)]
    if isinstance(value, str):
        return value
    raise TypeError(f"{kind.__qualname__} has no form in JSON")


_PLAIN = frozenset({int, str, bool, float, bytes, NoneType})


def keys(kind: type) -> dict[str, str]:
    """Return the JSON keys of a class, each with the attribute of its value; empty if it is not written as object."""
    if declared := getattr(kind, "JSON", ""):
        pairs = (each.partition("=") for each in declared.split())
        return {key: attribute or key for key, _, attribute in pairs}
    if is_dataclass(kind):
        return {each.name: each.name for each in fields(kind)}
    names = getattr(kind, "_fields", ()) or getattr(kind, "__struct_fields__", ())
    return {name: name for name in names}


def hint(kind: Any, path: str) -> Any:
    """Return the annotation of an attribute or property; names imported only for type checking become Any.

    :param path: path of the attribute, with dots: ``tp.topic``
    """
    name, _, rest = path.partition(".")
    found = getattr(kind, name, None)
    if isinstance(found, property | cached_property):
        annotated = _hints(found.fget if isinstance(found, property) else found.func)["return"]
    else:
        annotated = _hints(kind)[name]
    if not rest or annotated is object:
        return annotated
    owners = [each for each in get_args(annotated) or (annotated,) if each is not NoneType]
    inner = hint(owners[0], rest)
    return inner if owners == [annotated] else inner | None


@cache
def _hints(annotated: Any) -> dict[str, Any]:
    return get_type_hints(
        annotated, localns=_Names(vars(sys.modules[annotated.__module__])), include_extras=True
    )


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, object)


@cache
def _parts(
    kind: Any,
) -> tuple[list[str], Callable[[Any], Any], list[tuple[str, Callable[[Any], Any]]]] | None:
    """Return the keys of a class, a getter of all their values, and converters of those that are not plain."""
    named = keys(kind)
    if not named:
        return None
    paths: list[str] = []
    writers: Writers = []
    for key, path in named.items():
        owner, _, name = path.rpartition(".")
        held = hint(kind, owner) if owner else None
        if held is object or NoneType in get_args(held):
            paths.append(owner)
            writers.append((key, partial(_write_attribute, name)))
            continue
        paths.append(path)
        if not _is_plain(annotated := hint(kind, path)):
            writers.append((key, _written(annotated)))
    if len(paths) == 1:
        paths *= 2  # attrgetter returns a tuple only for several names
    return list(named), attrgetter(*paths), writers


def _is_plain(annotated: Any) -> bool:
    """Return whether an encoder takes values of a type as they are."""
    origin = get_origin(annotated)
    if origin in (list, dict, Union, UnionType):
        return all(map(_is_plain, get_args(annotated)))
    return annotated is Any or annotated in _PLAIN


def _write_attribute(name: str, owner: Any) -> Any:
    kind: Any = type(owner)
    return None if owner is None else _of_attribute(kind, name)(getattr(owner, name))


@cache
def _of_attribute(kind: Any, name: str) -> Callable[[Any], Any]:
    return _written(hint(kind, name))


def _written(annotated: Any) -> Callable[[Any], Any]:
    """Return the function that converts a value of a type; at most one type of a union has a form."""
    if annotated is Any:
        return _as_it_is
    forms, inside = getattr(annotated, "__metadata__", ()), get_args(annotated)
    if Form.EMPTY_IS_NULL in forms:
        filled = _written(Annotated[(inside[0], *rest)] if (rest := forms[:-1]) else inside[0])
        return lambda value: filled(value) if value else None
    if forms:
        return _FORMS.get(forms[0]) or (lambda value: dict(zip(forms[0], value, strict=True)))
    written = [found for each in inside if (found := _written(each)) not in (to_json, _as_it_is)]
    if not written:
        return to_json
    origin, (one,) = get_origin(annotated), written
    if origin in (Union, UnionType):
        return lambda value: None if value is None else one(value)
    if origin is dict:
        return lambda value: {key: one(each) for key, each in value.items()}
    return lambda value: [one(each) for each in value]


def _as_it_is(value: Any) -> Any:
    return value


_FORMS: dict[Any, Callable[[Any], Any]] = {
    Form.TIME: rfc3339,
    Form.NEGATIVE_IS_NULL: lambda value: value if value >= 0 else None,
    Form.ROUNDED: lambda value: round(value, 3),
    Form.WORD: lambda value: value.name.lower(),
}
