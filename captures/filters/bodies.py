"""Filters on decoded exchanges: a filter becomes one Python function, made once.

What users write never gets into the source; fields come from the registry, names of body fields and all values are
constants of the function. The conditions of ``and`` and ``or`` are asked in the order of their cost: columns first,
then bodies, then what has to be decompressed.

A path means *any*: ``request.topics.partitions.partition == 3`` holds if it holds for one partition of one topic.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from captures.exchanges import Exchange
from captures.filters import binding, reads
from captures.filters.context import Context
from captures.filters.field_columns import Source
from captures.filters.fields import Field
from captures.filters.paths import Path
from captures.filters.predicates import Predicate
from dissectors.budget import of_message

Match = Callable[[Exchange, Context], bool]
Values = Callable[[Exchange, Context], list[Any]]

_VARIABLE = re.compile(r"\bv\b")


def compile_bodies(bound: binding.Bound) -> Match:
    """Return a function that tells whether an exchange fits."""
    source, names = _Writer().whole(bound)
    scope = dict(names)
    exec(compile(source, "<filter>", "exec"), scope)  # noqa: S102  our own source, see above
    made: Match = scope["match"]
    return made


def compile_values(field: Field | Path) -> Values:
    """Return a function that gives the values of a field."""
    source, names = _Writer().values(field)
    scope = dict(names)
    exec(compile(source, "<field>", "exec"), scope)  # noqa: S102  our own source, see above
    made: Values = scope["values"]
    return made


def generated_source(bound: binding.Bound) -> str:
    """Return the source that :func:`compile_bodies` compiles."""
    return _Writer().whole(bound)[0]


class _Writer:
    """Writes the source of one filter."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"each": _each, "element": _element}
        self._names |= {"batches_of": reads.batches_of, "embedded_values": reads.embedded_values}
        self._names |= {"decided": reads.decided, "of_message": of_message}
        self._functions: list[str] = []
        self._count = 0

    def whole(self, bound: binding.Bound) -> tuple[str, dict[str, Any]]:
        """Return the source of the module, and the names that it needs."""
        expression = self._expression(bound)
        last = f"def match(x, c):\n    return {expression}\n"
        return "\n".join([*self._functions, last]), self._names

    def values(self, field: Field | Path) -> tuple[str, dict[str, Any]]:
        """Return the same of a function that gives the values of a field."""
        if isinstance(field, Path):
            lines, holder, depth = self._walk("values", field)
            pad = "    " * depth
            lines.insert(1, "    out = []")
            lines += [f"{pad}if {holder} is not None:", f"{pad}    out.append({holder})", "    return out\n"]
            return "\n".join(lines), self._names
        read = self._constant(field.value)
        values = f"list({read}(x, c))" if field.many else f"[v for v in ({read}(x, c),) if v is not None]"
        return f"def values(x, c):\n    return {values}\n", self._names

    def _expression(self, bound: binding.Bound) -> str:
        match bound:
            case binding.Always():
                return "True"
            case binding.Selected(selection):
                selected = f"c.selected({self._constant(selection)}, x.number)"
                return f"(x.note.marked or {selected})" if selection == "marked" else selected
            case binding.Inverse(item):
                return f"(not {self._expression(item)})"
            case binding.AllOf(items):
                return self._joined(" and ", items)
            case binding.AnyOf(items):
                return self._joined(" or ", items)
            case binding.Test(field, predicate):
                if isinstance(field, Path):
                    return self._path(field, predicate)
                return self._many(field, predicate) if field.many else self._single(field, predicate)

    def _joined(self, word: str, items: Iterable[binding.Bound]) -> str:
        return f"({word.join(self._expression(item) for item in sorted(items, key=_cost))})"

    # ------------------------------------------------------------ names of the source
    def _constant(self, value: Any) -> str:
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _asked(self, predicate: Predicate, variable: str) -> str:
        constants = [self._constant(constant) for constant in predicate.constants]
        # predicates are about v
        return _VARIABLE.sub(variable, predicate.source).format(*constants)

    # ------------------------------------------------------------ tests
    def _single(self, field: Field, predicate: Predicate) -> str:
        variable = f"v{self._number()}"
        asked = self._asked(predicate, variable)
        read = self._constant(field.value)
        return f"(({variable} := {read}(x, c)) is not None and bool({asked}))"

    def _many(self, field: Field, predicate: Predicate) -> str:
        name, read = f"test{self._number()}", self._constant(field.value)
        self._functions.append(
            f"def {name}(x, c):\n"
            f"    for v in {read}(x, c):\n"
            f"        if {self._asked(predicate, 'v')}:\n"
            f"            return True\n"
            f"    return False\n"
        )
        return f"{name}(x, c)"

    def _path(self, path: Path, predicate: Predicate) -> str:
        name = f"test{self._number()}"
        lines, holder, depth = self._walk(name, path)
        lines += [
            f"{'    ' * depth}if {holder} is not None and {self._asked(predicate, holder)}:",
            f"{'    ' * depth}    return True",
            *(["    decided(x, reached)"] if path.records_at else []),
            "    return False\n",
        ]
        self._functions.append("\n".join(lines))
        return f"{name}(x, c)"

    def _walk(self, name: str, path: Path) -> tuple[list[str], str, int]:
        """Return the beginning of a function that goes to all values of a path.

        :returns: its lines, the variable that a value is in, and how deep the lines behind it are indented
        """
        lines = [f"def {name}(x, c):"]
        if path.records_at:
            lines.append("    reached, budget = [], of_message()")
        if path.embedded_at:
            held = ".".join(
                step if index is None else f"{step}[{index}]"
                for step, index in path.steps[: path.embedded_at]
            )
            prefix = self._constant(f"{path.side}.{held}")
            lines.append(f"    for b0 in embedded_values(x, {prefix}):")
            depth = 2
        else:
            lines += [
                f"    body = x.{path.side}",
                "    b0 = None if body is None else body.value",
            ]
            depth = 1
        holder = "b0"
        for number, (step, index) in enumerate(path.steps[path.embedded_at :], path.embedded_at + 1):
            key = self._constant(step)
            found = f"{holder}.get({key}) if {holder}.__class__ is dict else None"
            if number == path.records_at:
                found = f"batches_of({found}, c, reached, budget)"
            each = f"each({found})" if index is None else f"element({found}, {index})"
            lines.append(f"{'    ' * depth}for b{number} in {each}:")
            holder = f"b{number}"
            depth += 1
        return lines, holder, depth


def _each(value: Any) -> Any:
    """The elements of an array, or the value itself."""
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _element(value: Any, index: int) -> Any:
    """One element of an array, if it has so many."""
    if isinstance(value, list | tuple):
        return value[index : index + 1]
    return ()


def _cost(bound: binding.Bound) -> int:
    match bound:
        case binding.Test(field):
            if isinstance(field, Path):
                return 3 if field.records_at else 1
            if field.column.source is Source.TABLE:
                return 0
            return 3 if field.mentions == "records" else 2
        case binding.Inverse(item):
            return _cost(item)
        case binding.AllOf(items) | binding.AnyOf(items):
            return max(map(_cost, items))
        case _:
            return 0
