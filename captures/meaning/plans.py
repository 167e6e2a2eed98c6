"""Where the fields of a kind lie in a message, worked out from its declaration once for each layout.

A :class:`Plan` leads to the wanted fields and to nothing else, so walking a body costs what it finds, not what it
holds. Layouts that earlier releases gave to the same version number are part of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from captures.meaning.exchange import Body
from dissectors import wire
from dissectors.apis import api
from dissectors.sides import Side

Choice = Callable[[str, wire.Struct], tuple[str, ...]]
"""Name of the array or struct field that holds a struct ("" for the body), the struct -> wanted fields of it."""


@dataclass(slots=True)
class Plan:
    """The wanted fields of a struct.

    :ivar fields: wanted fields of the struct itself
    :ivar inside: fields that are structs (False) or arrays of structs (True) with wanted fields in them
    :ivar arrays: fields of the struct that are arrays, wanted or not: fields of one name are of several types
    """

    fields: tuple[str, ...] = ()
    inside: list[tuple[str, bool, Plan]] = field(default_factory=list)
    arrays: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.fields or self.inside)


def layouts(key: int, version: int, side: Side) -> list[wire.Struct]:
    """Return the layouts of a message, the nearest known version's for an unknown one; empty for an unknown API."""
    known = api(key)
    if known is None:
        return []
    message = known.request if side == "request" else known.response
    made = message[message.nearest(version)]
    return [made.struct, *(older.struct for older in made.older)]


@cache
def plan(choice: Choice, key: int, version: int, side: Side) -> Plan:
    """Return the plan to the fields that ``choice`` picks."""
    whole = Plan()
    for struct in layouts(key, version, side):
        _merge(whole, _plan(choice, "", struct))
    return whole


def _plan(choice: Choice, held_by: str, struct: wire.Struct) -> Plan:
    arrays = frozenset(member.name for member in struct.all_members if isinstance(member.con, wire.Array))
    made = Plan(choice(held_by, struct), arrays=arrays)
    for member in struct.all_members:
        found = wire.struct_inside(member.con)
        if found is not None:
            inner = _plan(choice, member.name, found[0])
            if inner:
                made.inside.append((member.name, found[1], inner))
    return made


def _merge(into: Plan, other: Plan) -> None:
    into.fields = tuple(dict.fromkeys((*into.fields, *other.fields)))
    into.arrays |= other.arrays
    known = {name: inner for name, _, inner in into.inside}
    for name, many, inner in other.inside:
        if name in known:
            _merge(known[name], inner)
        else:
            into.inside.append((name, many, inner))


@cache
def paths(choice: Choice, key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths of the fields that ``choice`` picks, for :class:`dissectors.projection.Projection`."""
    return frozenset(_paths(plan(choice, key, version, side), ""))


def _paths(made: Plan, prefix: str) -> Iterator[str]:
    for name in made.fields:
        yield prefix + name
    for name, _, inner in made.inside:
        yield from _paths(inner, f"{prefix}{name}.")


def walk(made: Plan, body: Body) -> Iterator[tuple[Body, tuple[str, ...]]]:
    """Yield every struct that has wanted fields, outer ones first, with the names of these fields."""
    if made.fields:
        yield body, made.fields
    for name, many, inner in made.inside:
        value = body.get(name)
        if not value:
            continue
        for row in value if many else (value,):
            if isinstance(row, dict):
                if inner.inside:
                    yield from walk(inner, row)
                else:  # the usual case, without a generator for each row
                    yield row, inner.fields
