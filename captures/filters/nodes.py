"""The syntax tree of a filter, as written. Nodes compare equal regardless of their positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL = "==", "<", "<=", ">", ">="
MATCHES, CONTAINS = "~", "contains"

Tree = TypeVar("Tree")
"""What connectives join: filters as written, or with their fields and predicates."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value as written.

    :ivar text: without quotes; in a regular expression backslashes are those of the expression
    """

    text: str
    quoted: bool = False
    position: int = field(default=0, compare=False)
    length: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A field name as written."""

    text: str
    position: int = field(default=0, compare=False)

    @property
    def length(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Compare:
    """Field, operator, value; ``!=`` and ``not contains`` are the negation of the positive test.

    :ivar position: position of the operator, which has ``length`` characters
    """

    name: Name
    operator: str
    value: Value
    negated: bool = False
    position: int = field(default=0, compare=False)
    length: int = field(default=1, compare=False)


class OneOf(msgspec.Struct, frozen=True):
    """Membership of a field's value in a list."""

    name: Name
    values: tuple[Value, ...]
    negated: bool = False


class FieldPresent(msgspec.Struct, frozen=True):
    """A field alone: its value is not empty."""

    name: Name


class Exists(msgspec.Struct, frozen=True):
    """Existence of a field, even if it is empty."""

    name: Name


@dataclass(frozen=True, slots=True)
class Selector:
    """``@marked`` and the like; ``text`` is without the sign."""

    text: str
    position: int = field(default=0, compare=False)


class MatchAll(msgspec.Struct, frozen=True):
    """A condition that every exchange meets: an empty filter, ``~all``."""


class Not(msgspec.Struct, Generic[Tree], frozen=True):
    """A negation."""

    item: Tree


class And(msgspec.Struct, Generic[Tree], frozen=True):
    """A conjunction."""

    items: tuple[Tree, ...]


class Or(msgspec.Struct, Generic[Tree], frozen=True):
    """A disjunction."""

    items: tuple[Tree, ...]


Node: TypeAlias = (
    "Compare | OneOf | FieldPresent | Exists | Selector | MatchAll | Not[Node] | And[Node] | Or[Node]"
)
"""A filter as written; :data:`captures.filters.binding.Bound` is one with its fields and predicates."""


def leaves(node: Any) -> Iterator[Any]:
    """Yield the conditions that a filter joins, in written order."""
    match node:
        case Not(item):
            yield from leaves(item)
        case And(items) | Or(items):
            for item in items:
                yield from leaves(item)
        case _:
            yield node
