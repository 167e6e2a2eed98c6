"""Positions of fields of some kind in a message, derived from its declaration once for each layout.

A :class:`FieldPlan` leads only to the wanted fields, so the cost of walking a body depends on what it finds, not on
what the body holds. Layouts that earlier releases gave to the same version number are part of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import msgspec

from captures.meaning.exchange import Body
from dissectors import wire
from dissectors.apis import api
from dissectors.sides import Side

Choice = Callable[[wire.Struct], tuple[str, ...]]
"""Returns the wanted fields of a struct itself."""


class FieldPlan(msgspec.Struct):
    """The wanted fields of a struct.

    :ivar fields: wanted fields of the struct itself
    :ivar inside: fields that are structs (False) or arrays of structs (True) with wanted fields in them
    :ivar arrays: array fields of the struct, wanted or not, because fields of one name have different types
    """

    fields: tuple[str, ...] = ()
    inside: list[tuple[str, bool, FieldPlan]] = []
    arrays: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.fields or self.inside)


def layouts(key: int, version: int, side: Side) -> list[wire.Struct]:
    """Return the layouts of a message, for an unknown version those of the nearest one; empty for an unknown API."""
    known = api(key)
    if known is None:
        return []
    message = known.request if side == "request" else known.response
    made = message[message.nearest(version)]
    return [made.struct, *(older.struct for older in made.older)]


@cache
def plan(choice: Choice, key: int, version: int, side: Side) -> FieldPlan:
    """Return the plan of the fields chosen by ``choice``."""
    whole = FieldPlan()
    for struct in layouts(key, version, side):
        _add(whole, choice, struct)
    return whole


def _add(made: FieldPlan, choice: Choice, struct: wire.Struct) -> None:
    made.fields = tuple(dict.fromkeys((*made.fields, *choice(struct))))
    made.arrays |= {member.name for member in struct.all_members if isinstance(member.con, wire.Array)}
    known = {name: inner for name, _, inner in made.inside}
    for member in struct.all_members:
        found = wire.struct_inside(member.con)
        if found is not None:
            inner = known.get(member.name, FieldPlan())
            _add(inner, choice, found[0])
            if inner and member.name not in known:
                made.inside.append((member.name, found[1], inner))


@cache
def paths(choice: Choice, key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths of the fields chosen by ``choice``, for :class:`dissectors.projection.Projection`."""
    return frozenset(
        prefix + name
        for layout in layouts(key, version, side)
        for prefix, struct in wire.structs_of(layout)
        for name in choice(struct)
    )


def walk(made: FieldPlan, body: Body) -> Iterator[tuple[Body, tuple[str, ...]]]:
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
