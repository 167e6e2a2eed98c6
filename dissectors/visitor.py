"""The visitor of decoded values: names values, and does what has to be done with which fields.

A :class:`VisitPlan` is worked out once per layout (:func:`plan_of`); :func:`compiled` makes one function of it, with a
loop for each array. Most values have no name and need nothing done, so the path of a field is built only when there is
something to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from dissectors import wire
from dissectors.domains import ERROR_CODE, Domain, FlagDomain
from dissectors.source_writer import SourceWriter


class Scope(Protocol):
    """What a visitor hands to actions.

    :ivar decoded: takes the names, by field path
    :ivar topic: name of the topic that the visitor is inside of, if any
    """

    decoded: dict[str, Any]
    topic: str | None


#: value, path, the dict that holds it, scope -> replacement
Action = Callable[[Any, str, dict[str, Any], Any], Any]

#: a field that is not a struct, nor an array of structs, and the struct it is in -> what to do with its values
Choice = Callable[[wire.Member, wire.Struct], Action | None]

#: tells the topic that a struct is about
TopicOf = Callable[[dict[str, Any]], str | None]

#: body, scope
Visitor = Callable[[dict[str, Any], Any], None]

_PATHS = 4096  # kept for each field: the same indexes come again in message after message


@dataclass(slots=True, frozen=True)
class NestedStruct:
    """A field that is a struct, or an array of structs, with something to do in them.

    :ivar many: whether it is an array
    :ivar topic_of: tells the topic that an element is about; None where no action asks for it
    """

    plan: VisitPlan
    many: bool
    topic_of: TopicOf | None = None


@dataclass(slots=True, frozen=True)
class VisitPlan:
    """What to do with the fields of one struct. Apart, because nearly all is naming, and most values have no name.

    :ivar errors: fields with error codes
    :ivar named: fields whose values have names, and these
    :ivar steps: fields that need more
    :ivar flexible: whether there may be tagged fields that the declaration does not know, to be moved out
    """

    errors: tuple[str, ...]
    named: tuple[tuple[str, Mapping[Any, str]], ...]
    steps: tuple[tuple[str, Action | NestedStruct], ...]
    flexible: bool

    def __bool__(self) -> bool:
        return bool(self.errors or self.named or self.steps or self.flexible)


def plan_of(
    struct: wire.Struct,
    choose: Choice,
    topic_of: Callable[[wire.Struct, VisitPlan], TopicOf | None] | None = None,
    *,
    keep_tags: bool = False,
) -> VisitPlan:
    """Return what to do with the fields of a struct, and of those inside it.

    :param choose: called once for each field that is not a struct and has no named values
    :param topic_of: tells for the elements of an array with something to do in them how to know their topic
    :param keep_tags: leave unknown tags where they are
    """
    errors: list[str] = []
    named: list[tuple[str, Mapping[Any, str]]] = []
    steps: list[tuple[str, Action | NestedStruct]] = []
    for member in struct.all_members:
        domain = member.field.type.domain
        inside = wire.struct_inside(member.con)
        step: Action | NestedStruct | None = None
        if inside is not None:
            inner, many = inside
            plan = plan_of(inner, choose, topic_of, keep_tags=keep_tags)
            if plan:
                step = NestedStruct(plan, many, topic_of(inner, plan) if many and topic_of else None)
        elif domain is ERROR_CODE and isinstance(member.con, wire.FixedWidth):
            errors.append(member.name)
        elif (
            isinstance(member.con, wire.FixedWidth)
            and domain is not None
            and not isinstance(domain, FlagDomain)
        ):
            named.append((member.name, domain.values))
        else:
            step = choose(member, struct)
        if step is not None:
            steps.append((member.name, step))
    return VisitPlan(tuple(errors), tuple(named), tuple(steps), struct.tagged is not None and not keep_tags)


def domain_name(domain: Domain) -> Action:
    """Return what notes the names of values that a plan does not name by itself, such as sets of flags."""

    def name(value: Any, path: str, holder: dict[str, Any], scope: Any) -> Any:
        found = domain.name_of(value)
        if found is not None:
            scope.decoded[path] = found
        return value

    return name


def compiled(plan: VisitPlan, path: str) -> Visitor:
    """Return the visitor that a plan describes; ``path`` is that of the body, empty where paths begin in it."""
    visit: Visitor = _Writer().function(plan, path).made("visit", "<visitor>")
    return visit


# ---------------------------------------------------------------- called by generated code
def _error_name(code: int) -> str:
    return ERROR_CODE.name_of(code) or f"UNKNOWN_CODE_{code}"


def _take_tags(value: dict[str, Any], path: str, decoded: dict[str, Any]) -> None:
    """Move unknown tags out of a struct: a body holds the schema's fields and nothing else."""
    tags = value.pop(wire.UNKNOWN_TAGS)
    decoded[_join(path, wire.UNKNOWN_TAGS)] = {str(tag): data for tag, data in tags.items()}


# ---------------------------------------------------------------- the generator
_INDEX = re.compile(r"\{(\w+)\}")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class _Writer(SourceWriter):
    """Writes the visitor of one plan. Field names are identifiers, so they can stand in the source as they are."""

    def __init__(self) -> None:
        super().__init__({"error_name": _error_name, "take_tags": _take_tags})

    def function(self, plan: VisitPlan, path: str) -> _Writer:
        """Write ``visit(value, scope)``."""
        with self._block("def visit(value, scope):"):
            self._line("decoded = scope.decoded")
            self._struct(plan, "value", path, 0)
        return self

    def _path(self, path: str) -> str:
        """Return the expression of a path: text that stands there, or a call that knows it by the indexes in it."""
        indexes = _INDEX.findall(path)
        if not indexes:
            return repr(path)
        numbers = ", ".join(indexes)
        made: Callable[..., str] = eval(f"lambda {numbers}: f{path!r}")  # noqa: S307  # names of fields and indexes
        return f"{self._bind('bound', lru_cache(_PATHS)(made))}({numbers})"

    def _struct(self, plan: VisitPlan, value: str, path: str, level: int) -> None:
        """Emit the visit of one struct.

        :param value: the variable that holds it
        :param path: its path, with ``{index1}`` and so on in it
        :param level: how many arrays and structs are around it
        """
        for name in plan.errors:
            self._line(f"found = {value}.get({name!r})")
            self._line(f"if found: decoded[{self._path(_join(path, name))}] = error_name(found)")
        for name, names in plan.named:
            self._line(f"found = {self._bind('bound', names)}.get({value}.get({name!r}))")
            self._line(f"if found is not None: decoded[{self._path(_join(path, name))}] = found")
        for name, step in plan.steps:
            if isinstance(step, NestedStruct):
                self._inside(step, value, name, path, level + 1)
                continue
            self._line(f"found = {value}.get({name!r})")
            action = f"{self._bind('bound', step)}(found, {self._path(_join(path, name))}, {value}, scope)"
            self._line(f"if found is not None: {value}[{name!r}] = {action}")
        if plan.flexible:
            where = self._path(path)
            self._line(f"if {wire.UNKNOWN_TAGS!r} in {value}: take_tags({value}, {where}, decoded)")

    def _inside(self, step: NestedStruct, holder: str, name: str, path: str, level: int) -> None:
        inner = f"value{level}"
        if not step.many:
            self._line(f"{inner} = {holder}.get({name!r})")
            with self._block(f"if {inner} is not None:"):
                self._struct(step.plan, inner, _join(path, name), level)
            return
        index, outer = f"index{level}", f"topic{level}"
        if step.topic_of is not None:
            self._line(f"{outer} = scope.topic")
        with self._block(f"for {index}, {inner} in enumerate({holder}.get({name!r}) or ()):"):
            if step.topic_of is not None:
                self._line(f"scope.topic = {self._bind('bound', step.topic_of)}({inner}) or {outer}")
            self._struct(step.plan, inner, f"{_join(path, name)}[{{{index}}}]", level)
        if step.topic_of is not None:
            self._line(f"scope.topic = {outer}")
