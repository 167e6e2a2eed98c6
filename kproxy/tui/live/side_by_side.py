"""Two responses to the same request side by side, field by field, with differences marked.

Differences are those found by :mod:`kproxy.replay.response_comparison`. Other fields with different values are those
that have to differ, such as a throttle time, or that only one of two versions has.
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
from kproxy.replay.differences import NAMES, Difference, paired
from kproxy.replay.response_comparison import EXPECTED_TO_DIFFER
from kproxy.text.values import short
from kproxy.tui.live.replay import ReplayedExchange

# clusters differ in topic IDs, and in IDs that brokers assign
BETWEEN_CLUSTERS = tuple(name for name in NAMES if name not in EXPECTED_TO_DIFFER and name != "topic_id")
"""Fields whose values identify the same things in two clusters."""


class Mark(Enum):
    """The mark of a line; the value is its sign."""

    SAME = " "
    DIFFERENT = "≠"
    MAY_DIFFER = "~"


@dataclass(frozen=True, slots=True)
class Line:
    """One field of both responses.

    :ivar depth: nesting level
    :ivar name: of the field, or ``[0]`` or ``[orders]`` for an element of an array
    :ivar recorded: the recorded value as text; empty if it is missing, or if it has parts, which follow
    :ivar new: the new value as text; empty if it is missing, or if it has parts, which follow
    """

    depth: int
    name: str
    recorded: str
    new: str
    mark: Mark


def side_by_side(answered: ReplayedExchange) -> list[Line]:
    """Return the lines of the recorded and the new response."""
    outcome = answered.outcome
    return field_lines(answered.recorded, answered.new, outcome.differences if outcome.comparable else None)


def field_lines(
    one: Body | None,
    other: Body | None,
    found: Iterable[Difference] | None,
    naming: Sequence[str] = BETWEEN_CLUSTERS,
) -> list[Line]:
    """Return the lines of two responses, with records decoded and secrets masked. May be slow.

    :param found: the differences; None if they were not compared
    :param naming: fields that identify the structs of an array
    """
    before, after = _Side(one), _Side(other)
    fields = None if found is None else frozenset(each.field for each in found)
    return list(_Walk(before, after, fields, naming).lines(before.value, after.value))


class _Side:
    """A response prepared for display."""

    def __init__(self, body: Body | None) -> None:
        self.value: Any = UNSET
        self._known = Annotations()
        if body is not None:
            # annotating modifies a body, so use a copy
            shown = decode_response(body.raw, body.key, body.asked)
            Annotator(SessionContext()).annotate(shown, "response", self._known)
            self.value = UNSET if shown.value is None else shown.value
        self._masked = frozenset(self._known.masked)

    def text(self, value: Any, path: str) -> str:
        """Return a value without parts as text; empty if it is missing."""
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
        """Yield the lines of the parts of two values.

        :param paths: of both, with indexes
        :param field: their common path without indexes
        """
        if isinstance(one, Mapping) or isinstance(other, Mapping):
            first, second = _mapping(one), _mapping(other)
            for name in dict.fromkeys((*first, *second)):
                inner = tuple(f"{path}.{name}" if path else str(name) for path in paths)
                parts = first.get(name, UNSET), second.get(name, UNSET)
                within = f"{field}.{name}" if field else str(name)
                yield from self._part(str(name), parts, (inner[0], inner[1]), within, depth)
        else:
            for name, (at, value), (there, counterpart) in paired(
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
    """Return the text beside the name of a value with parts."""
    if value is None:
        return "null"
    return f"({len(value)})" if isinstance(value, list | tuple) else ""
