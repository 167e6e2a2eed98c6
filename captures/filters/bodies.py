"""Filters on decoded exchanges: a filter is compiled once to a Python function.

User input never becomes part of the source; fields come from the registry, names of body fields and all values are
constants of the function. The conditions of ``and`` and ``or`` are evaluated in the order of their cost: columns first,
then bodies, then data that has to be decompressed.

A path means *any*: ``request.topics.partitions.partition == 3`` holds if it holds for one partition of one topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from captures.exchanges import Exchange
from captures.filters import binding, nodes, reads
from captures.filters.context import Context
from captures.filters.field_columns import DecidedBy
from captures.filters.fields import Field
from captures.filters.paths import Path
from captures.filters.predicates import Predicate
from dissectors.budget import message_budget
from dissectors.source_writer import SourceWriter

Match = Callable[[Exchange, Context], bool]
Values = Callable[[Exchange, Context], list[Any]]

_VARIABLE = re.compile(r"\bv\b")


def compile_bodies(bound: binding.Bound) -> Match:
    """Return a function that returns whether an exchange matches."""
    made: Match = _Writer().test(bound).compiled("match", "<filter>")
    return made


def compile_values(field: Field | Path) -> Values:
    """Return a function that returns the values of a field."""
    made: Values = _Writer().values(field).compiled("values", "<field>")
    return made


class _Writer(SourceWriter):
    """Writes the functions of one filter."""

    def __init__(self) -> None:
        super().__init__(
            {
                "each": _each,
                "element": _element,
                "batches_of": reads.batches_of,
                "embedded_values": reads.embedded_values,
                "decided": reads.decided,
                "message_budget": message_budget,
            }
        )

    def test(self, bound: binding.Bound) -> _Writer:
        expression = self._expression(bound)
        with self._block("def match(x, c):"):
            self._line(f"return {expression}")
        return self

    def values(self, field: Field | Path) -> _Writer:
        with self._block("def values(x, c):"):
            if isinstance(field, Path):
                self._line("out = []")
                with self._walk(field) as found, self._block(f"if {found} is not None:"):
                    self._line(f"out.append({found})")
                self._line("return out")
            else:
                read = self._bind("k", field.value)
                single = f"[v for v in ({read}(x, c),) if v is not None]"
                self._line(f"return {f'list({read}(x, c))' if field.many else single}")
        return self

    def _expression(self, bound: binding.Bound) -> str:
        match bound:
            case nodes.MatchAll():
                return "True"
            case binding.Selection(selection):
                selected = f"c.selected({self._bind('k', selection)}, x.number)"
                return f"(x.note.marked or {selected})" if selection == "marked" else selected
            case nodes.Not(item):
                return f"(not {self._expression(item)})"
            case nodes.And(items):
                return self._joined(" and ", items)
            case nodes.Or(items):
                return self._joined(" or ", items)
            case binding.Test(field, predicate):
                if isinstance(field, Path):
                    return self._path(field, predicate)
                return self._many(field, predicate) if field.many else self._single(field, predicate)

    def _joined(self, word: str, items: Iterable[binding.Bound]) -> str:
        return f"({word.join(self._expression(item) for item in sorted(items, key=_cost))})"

    def _asked(self, predicate: Predicate, variable: str) -> str:
        constants = [self._bind("k", constant) for constant in predicate.constants]
        # predicates are about v
        return _VARIABLE.sub(variable, predicate.source).format(*constants)

    # ------------------------------------------------------------ tests
    def _single(self, field: Field, predicate: Predicate) -> str:
        variable = self._name("v")
        asked = self._asked(predicate, variable)
        read = self._bind("k", field.value)
        return f"(({variable} := {read}(x, c)) is not None and bool({asked}))"

    def _many(self, field: Field, predicate: Predicate) -> str:
        name, read = self._name("test"), self._bind("k", field.value)
        with self._block(f"def {name}(x, c):"):
            with self._block(f"for v in {read}(x, c):"):
                self._line(f"if {self._asked(predicate, 'v')}: return True")
            self._line("return False")
        return f"{name}(x, c)"

    def _path(self, path: Path, predicate: Predicate) -> str:
        name = self._name("test")
        with self._block(f"def {name}(x, c):"):
            with self._walk(path) as found:
                self._line(f"if {found} is not None and {self._asked(predicate, found)}: return True")
            if path.records_at:
                self._line("decided(x, reached)")
            self._line("return False")
        return f"{name}(x, c)"

    @contextmanager
    def _walk(self, path: Path) -> Iterator[str]:
        """Write loops over all values of a path; code written in this context is inside them. Yield the variable of a
        value.
        """
        if path.records_at:
            self._line("reached, budget = [], message_budget()")
        with ExitStack() as loops:
            holder = "b0"
            if path.embedded_at:
                held = ".".join(
                    step if index is None else f"{step}[{index}]"
                    for step, index in path.steps[: path.embedded_at]
                )
                prefix = self._bind("k", f"{path.side}.{held}")
                loops.enter_context(self._block(f"for b0 in embedded_values(x, {prefix}):"))
            else:
                self._line(f"b0 = None if (body := x.{path.side}) is None else body.value")
            for number, (step, index) in enumerate(path.steps[path.embedded_at :], path.embedded_at + 1):
                found = f"{holder}.get({self._bind('k', step)}) if {holder}.__class__ is dict else None"
                if number == path.records_at:
                    found = f"batches_of({found}, c, reached, budget)"
                each = f"each({found})" if index is None else f"element({found}, {index})"
                holder = f"b{number}"
                loops.enter_context(self._block(f"for {holder} in {each}:"))
            yield holder


def _each(value: Any) -> Any:
    """Return the elements of an array, or a tuple of the value itself."""
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _element(value: Any, index: int) -> Any:
    """Return a list of one element of an array, empty if the array is shorter."""
    if isinstance(value, list | tuple):
        return value[index : index + 1]
    return ()


def _cost(bound: binding.Bound) -> int:
    match bound:
        case binding.Test(field):
            if isinstance(field, Path):
                return 3 if field.records_at else 1
            if field.column.source is DecidedBy.TABLE:
                return 0
            return 3 if field.mentions == "records" else 2
        case nodes.Not(item):
            return _cost(item)
        case nodes.And(items) | nodes.Or(items):
            return max(map(_cost, items))
        case _:
            return 0
