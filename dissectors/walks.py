"""Walks through decoded bodies, generated from plans that say what to do with which fields.

A :class:`Plan` is worked out once per layout; :func:`compiled` makes one function of it, with a loop for each array.
Most values have no name and need nothing done, so the path of a field is built only when there is something to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from dissectors import wire
from dissectors.domains import ERROR_CODE


class Scope(Protocol):
    """What a walk hands to actions.

    :ivar decoded: takes the names, by field path
    :ivar topic: name of the topic that the walk is inside of, if any
    """

    decoded: dict[str, Any]
    topic: str | None


#: value, path, the dict that holds it, scope -> replacement
Action = Callable[[Any, str, dict[str, Any], Any], Any]

#: body, scope
Walk = Callable[[dict[str, Any], Any], None]

_PATHS = 4096  # kept for each field: the same indexes come again in message after message


@dataclass(slots=True, frozen=True)
class Inside:
    """A field that is a struct, or an array of structs, with something to do in them.

    :ivar many: whether it is an array
    :ivar topic_of: tells the topic that an element is about; None where no action asks for it
    """

    plan: Plan
    many: bool
    topic_of: Callable[[dict[str, Any]], str | None] | None = None


@dataclass(slots=True, frozen=True)
class Plan:
    """What to do with the fields of one struct. Apart, because nearly all is naming, and most values have no name.

    :ivar errors: fields with error codes
    :ivar named: fields whose values have names, and these
    :ivar steps: fields that need more
    :ivar flexible: whether there may be tagged fields that the declaration does not know
    """

    errors: tuple[str, ...]
    named: tuple[tuple[str, Mapping[Any, str]], ...]
    steps: tuple[tuple[str, Action | Inside], ...]
    flexible: bool

    def __bool__(self) -> bool:
        return bool(self.errors or self.named or self.steps or self.flexible)


def compiled(plan: Plan, path: str) -> Walk:
    """Return the walk that a plan describes; ``path`` is that of the body."""
    writer = _Writer()
    code = compile(writer.function(plan, path), "<walk>", "exec")
    exec(code, writer.globals)  # noqa: S102  # source made below from declarations alone
    walk: Walk = writer.globals["walk"]
    return walk


# ---------------------------------------------------------------- called by generated code
def _error_name(code: int) -> str:
    return ERROR_CODE.name_of(code) or f"UNKNOWN_CODE_{code}"


def _take_tags(value: dict[str, Any], path: str, decoded: dict[str, Any]) -> None:
    """Move unknown tags out of a struct: a body holds the schema's fields and nothing else."""
    tags = value.pop(wire.UNKNOWN_TAGS)
    decoded[f"{path}.{wire.UNKNOWN_TAGS}"] = {str(tag): data for tag, data in tags.items()}


# ---------------------------------------------------------------- the generator
_INDEX = re.compile(r"\{(\w+)\}")


class _Writer:
    """Writes the walk of one plan. Field names are identifiers, so they can stand in the source as they are."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {"error_name": _error_name, "take_tags": _take_tags}
        self._lines: list[str] = []
        self._depth = 0
        self._bound = 0

    def function(self, plan: Plan, path: str) -> str:
        """Return the source of ``walk(value, scope)``."""
        with self._block("def walk(value, scope):"):
            self._line("decoded = scope.decoded")
            self._struct(plan, "value", path, 0)
        return "\n".join(self._lines)

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _bind(self, value: Any) -> str:
        self._bound += 1
        name = f"bound{self._bound}"
        self.globals[name] = value
        return name

    def _path(self, path: str) -> str:
        """Return the expression of a path: text that stands there, or a call that knows it by the indexes in it."""
        indexes = _INDEX.findall(path)
        if not indexes:
            return repr(path)
        numbers = ", ".join(indexes)
        made: Callable[..., str] = eval(f"lambda {numbers}: f{path!r}")  # noqa: S307  # names of fields and indexes
        return f"{self._bind(lru_cache(_PATHS)(made))}({numbers})"

    def _struct(self, plan: Plan, value: str, path: str, level: int) -> None:
        """Emit the walk through one struct.

        :param value: the variable that holds it
        :param path: its path, with ``{index1}`` and so on in it
        :param level: how many arrays and structs are around it
        """
        for name in plan.errors:
            self._line(f"found = {value}.get({name!r})")
            self._line(f"if found: decoded[{self._path(f'{path}.{name}')}] = error_name(found)")
        for name, names in plan.named:
            self._line(f"found = {self._bind(names)}.get({value}.get({name!r}))")
            self._line(f"if found is not None: decoded[{self._path(f'{path}.{name}')}] = found")
        for name, step in plan.steps:
            if isinstance(step, Inside):
                self._inside(step, value, name, path, level + 1)
                continue
            self._line(f"found = {value}.get({name!r})")
            action = f"{self._bind(step)}(found, {self._path(f'{path}.{name}')}, {value}, scope)"
            self._line(f"if found is not None: {value}[{name!r}] = {action}")
        if plan.flexible:
            where = self._path(path)
            self._line(f"if {wire.UNKNOWN_TAGS!r} in {value}: take_tags({value}, {where}, decoded)")

    def _inside(self, step: Inside, holder: str, name: str, path: str, level: int) -> None:
        inner = f"value{level}"
        if not step.many:
            self._line(f"{inner} = {holder}.get({name!r})")
            with self._block(f"if {inner} is not None:"):
                self._struct(step.plan, inner, f"{path}.{name}", level)
            return
        index, outer = f"index{level}", f"topic{level}"
        if step.topic_of is not None:
            self._line(f"{outer} = scope.topic")
        with self._block(f"for {index}, {inner} in enumerate({holder}.get({name!r}) or ()):"):
            if step.topic_of is not None:
                self._line(f"scope.topic = {self._bind(step.topic_of)}({inner}) or {outer}")
            self._struct(step.plan, inner, f"{path}.{name}[{{{index}}}]", level)
        if step.topic_of is not None:
            self._line(f"scope.topic = {outer}")
