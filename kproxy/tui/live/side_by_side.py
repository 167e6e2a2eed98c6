"""Two responses to the same request beside each other, field by field, with what differs marked.

What counts as a difference is what :mod:`kproxy.replay.response_comparison` found. A field that differs all the same
is one that has to, such as a throttle time, or that only one of the two versions has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from msgspec import UNSET

from dissectors.annotate import Annotations, Annotator
from dissectors.frames import Body, decode_response
from dissectors.session_context import SessionContext
from kproxy.replay.differences import NAMES, Difference
from kproxy.replay.response_comparison import HAS_TO_DIFFER
from kproxy.text.values import short
from kproxy.tui.live.replay import ReplayedExchange

# IDs of topics differ from one cluster to another, and so do those that brokers give
BETWEEN_CLUSTERS = tuple(name for name in NAMES if name not in HAS_TO_DIFFER and name != "topic_id")
"""Fields that name the same things in two clusters."""


class Mark(Enum):
    """What a line says of a field; the value is its sign."""

    SAME = " "
    DIFFERENT = "≠"
    MAY_DIFFER = "~"


@dataclass(frozen=True, slots=True)
class Line:
    """One field of both responses.

    :ivar depth: how deep it is
    :ivar name: of the field, or ``[0]`` or ``[orders]`` for an element of a list
    :ivar recorded: the value as text; empty if there is none, or if it has parts, which follow
    :ivar new: likewise
    """

    depth: int
    name: str
    recorded: str
    new: str
    mark: Mark


def side_by_side(answered: ReplayedExchange) -> list[Line]:
    """Return the recorded and the new response, as :func:`field_lines` does."""
    outcome = answered.outcome
    return field_lines(answered.recorded, answered.new, outcome.differences if outcome.comparable else None)


def field_lines(
    one: Body | None,
    other: Body | None,
    found: Iterable[Difference] | None,
    naming: Sequence[str] = BETWEEN_CLUSTERS,
) -> list[Line]:
    """Return both responses, line by line, records decoded and secrets masked. It may take a while.

    :param found: what differs; None if they were not compared
    :param naming: fields by which structs of a list are told apart
    """
    before, after = _Side(one), _Side(other)
    fields = None if found is None else frozenset(each.field for each in found)
    return list(_Walk(before, after, fields, naming).lines(before.value, after.value))


class _Side:
    """A response as it is shown."""

    def __init__(self, body: Body | None) -> None:
        self.value: Any = UNSET
        self._known = Annotations()
        if body is not None:
            # annotating changes a body, so another one is made
            shown = decode_response(body.raw, body.key, body.asked)
            Annotator(SessionContext()).annotate(shown, "response", self._known)
            self.value = UNSET if shown.value is None else shown.value
        self._masked = frozenset(self._known.masked)

    def text(self, value: Any, path: str) -> str:
        """Return a value without parts as it is shown; empty if it is not there."""
        if value is UNSET:
            return ""
        if f"response.{path}" in self._masked:
            return "(masked)"
        named = self._known.decoded.get(f"response.{path}")
        return f"{short(value)}  {named}" if isinstance(named, str) else short(value)


class _Walk:
    def __init__(
        self, before: _Side, after: _Side, found: frozenset[str] | None, naming: Sequence[str]
    ) -> None:
        self._naming = naming
        self._before = before
        self._after = after
        self._found = found

    def lines(
        self, one: Any, other: Any, paths: tuple[str, str] = ("", ""), field: str = "", depth: int = 0
    ) -> Iterator[Line]:
        """Yield the lines of what two values are made of.

        :param paths: of both, with positions
        :param field: the same without any
        """
        if isinstance(one, Mapping) or isinstance(other, Mapping):
            first, second = _mapping(one), _mapping(other)
            for name in dict.fromkeys((*first, *second)):
                inner = tuple(f"{path}.{name}" if path else str(name) for path in paths)
                parts = first.get(name, UNSET), second.get(name, UNSET)
                within = f"{field}.{name}" if field else str(name)
                yield from self._part(str(name), parts, (inner[0], inner[1]), within, depth)
        else:
            for name, (at, value), (there, counterpart) in _paired(
                _sequence(one), _sequence(other), self._naming
            ):
                inner = (f"{paths[0]}[{at}]", f"{paths[1]}[{there}]")
                yield from self._part(f"[{name}]", (value, counterpart), inner, field, depth)

    def _part(
        self, name: str, parts: tuple[Any, Any], paths: tuple[str, str], field: str, depth: int
    ) -> Iterator[Line]:
        one, other = parts
        if _has_parts(one) or _has_parts(other):
            whole = one is UNSET or other is UNSET or one is None or other is None
            mark = self._mark(one, other, field) if whole else Mark.SAME
            yield Line(depth, name, _about(one), _about(other), mark)
            yield from self.lines(one, other, paths, field, depth + 1)
        else:
            texts = self._before.text(one, paths[0]), self._after.text(other, paths[1])
            yield Line(depth, name, *texts, self._mark(one, other, field))

    def _mark(self, one: Any, other: Any, field: str) -> Mark:
        if self._found is None or one == other:
            return Mark.SAME
        counts = any(field == each or field.startswith(f"{each}.") for each in self._found)
        return Mark.DIFFERENT if counts else Mark.MAY_DIFFER


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _has_parts(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _about(value: Any) -> str:
    """Return what stands beside the name of something with parts."""
    if value is None:
        return "null"
    return f"({len(value)})" if isinstance(value, list | tuple) else ""


def _paired(
    first: Sequence[Any], second: Sequence[Any], naming: Sequence[str]
) -> Iterator[tuple[str, tuple[int, Any], tuple[int, Any]]]:
    """Yield the elements of two lists that belong together, with their names and positions."""
    one, other = _named(first, second, naming), _named(second, first, naming)
    nothing = -1, UNSET
    for name in dict.fromkeys((*one, *other)):
        yield name, one.get(name, nothing), other.get(name, nothing)


def _named(items: Sequence[Any], others: Sequence[Any], naming: Sequence[str]) -> dict[str, tuple[int, Any]]:
    """Return elements by what names them, else by their position."""
    every = [*items, *others]
    told_by = [
        name
        for name in naming
        if all(isinstance(item, Mapping) and item.get(name) is not None for item in every)
    ]
    found: dict[str, tuple[int, Any]] = {}
    for index, item in enumerate(items):
        name = "/".join(str(item[each]) for each in told_by) if told_by else str(index)
        found[name if name not in found else f"{name}#{index}"] = index, item
    return found
