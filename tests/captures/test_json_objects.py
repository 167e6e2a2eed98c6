"""Results as JSON: keys, order and forms of values come from their declarations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from captures.analysis.findings.finding import Severity
from captures.json_objects import NotNegative, OrNull, Range, Rounded, Time, Word, hint, to_json

SECOND = 1_000_000_000


class Place(NamedTuple):
    topic: str
    partition: int


@dataclass
class Inner:
    JSON = "topic=place.topic at_ns=at client"

    place: Place
    at: int
    client: OrNull[str] = ""


@dataclass
class Result:
    JSON = (
        "begin end last age score severity versions offered inner client=inner.client none=nothing.client "
        "places body twice absent"
    )

    begin: Time = SECOND
    end: Time | None = None
    last: OrNull[Time] = 0
    age: NotNegative = -1
    score: Rounded = 1.23456
    severity: Word[Severity] = Severity.HIGH
    versions: list[Range] = field(default_factory=lambda: [(0, 3)])
    offered: Range | None = None
    inner: Inner = field(default_factory=lambda: Inner(Place("orders", 1), 5))
    nothing: Inner | None = None
    places: frozenset[Place] = frozenset({Place("b", 0), Place("a", 1)})
    body: Any = b"\x00"
    absent: int | UnsetType = UNSET

    @property
    def twice(self) -> list[int]:
        return [1, 1]


def test_keys_and_values() -> None:
    shape = to_json(Result())
    assert list(shape.items()) == [
        ("begin", "1970-01-01T00:00:01.000000000Z"),
        ("end", None),
        ("last", None),
        ("age", None),
        ("score", 1.235),
        ("severity", "high"),
        ("versions", [{"min": 0, "max": 3}]),
        ("offered", None),
        ("inner", {"topic": "orders", "at_ns": 5, "client": None}),
        ("client", None),
        ("none", None),
        ("places", [{"topic": "a", "partition": 1}, {"topic": "b", "partition": 0}]),
        ("body", b"\x00"),
        ("twice", [1, 1]),
    ]
    assert msgspec.json.encode(shape).startswith(b'{"begin":"1970')


def test_what_is_there_is_told() -> None:
    told = Result(last=2 * SECOND, age=7, offered=(1, 2), inner=Inner(Place("x", 0), 1, "me"), absent=3)
    shape = to_json(told)
    assert (shape["last"], shape["age"], shape["offered"]) == (
        "1970-01-01T00:00:02.000000000Z",
        7,
        {"min": 1, "max": 2},
    )
    assert (shape["client"], shape["absent"]) == ("me", 3)


def test_the_type_of_an_attribute_of_something_that_may_be_none() -> None:
    assert hint(Result, "inner.client") == OrNull[str]
    assert hint(Result, "nothing.at") == int | None


def test_what_has_no_form_is_an_error() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        to_json([object()])
