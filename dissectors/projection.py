"""Decoders of chosen fields: all others are skipped, not decoded.

A :class:`Projection` of one version of a message takes field paths, ``responses.partitions.error_code``, and gives
the same dicts as the full decoder with these fields alone. Its code is generated like that of the full decoder
(:mod:`dissectors.codegen`), from the same declaration and the tree of wanted fields. Nothing is read behind the last of
them, unless the end of the message is asked for.

Where a projection looks it finds the errors that the full decoder finds: that one then tells what is wrong and where.
It looks at lengths, and at null where none is allowed; not whether a string that it skips is UTF-8, nor into
tagged fields that are not wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from dissectors import wire
from dissectors.budget import IN_FORCE, LimitReached
from dissectors.codegen import MALFORMED, CountingDecoder, Decoder, decoder
from dissectors.message_version import MessageVersion

Tree: TypeAlias = "dict[str, Tree | None]"
"""Wanted fields by name: None for the whole value, else the wanted fields of the struct or structs in it."""


def tree(paths: Iterable[str]) -> Tree:
    """Return paths such as ``topics.partitions.index`` as a tree; a path includes all that is below it."""
    root: Tree = {}
    for path in sorted(paths, key=len):  # what includes others comes before them
        here = root
        *holders, last = path.split(".")
        for name in holders:
            inner = here.setdefault(name, {})
            if inner is None:
                break
            here = inner
        else:
            here.setdefault(last, None)
    return root


def pick(value: Mapping[str, Any], wanted: Tree) -> dict[str, Any]:
    """Return of a decoded struct what a projection gives of it."""
    return {name: _picked(value[name], inner) for name, inner in wanted.items() if name in value}


def _picked(value: Any, wanted: Tree | None) -> Any:
    if wanted is None or value is None:
        return value
    if isinstance(value, list):
        return [None if item is None else pick(item, wanted) for item in value]
    return pick(value, wanted)


class Projection:
    """Chosen fields of one version of one message.

    :param layout: the message in its version, such as ``FetchResponse[12]``
    :param paths: of the wanted fields, without indexes; those that this version does not have are left out
    """

    def __init__(self, layout: MessageVersion, paths: Iterable[str]) -> None:
        self.layout = layout
        self.wanted = known(layout.struct, tree(paths))

    def __repr__(self) -> str:
        return f"<projection of {self.layout!r}>"

    @cached_property
    def _first(self) -> Decoder:
        return decoder(up_to_the_last(self.layout.struct, self.wanted), self.wanted)

    @cached_property
    def _first_counted(self) -> Decoder:
        struct = up_to_the_last(self.layout.struct, self.wanted)
        return CountingDecoder(decoder(struct, self.wanted, counting=True))

    @cached_property
    def _whole(self) -> Decoder:
        return decoder(self.layout.struct, self.wanted)

    def parse(self, data: bytes, pos: int = 0) -> dict[str, Any]:
        """Decode the wanted fields, those of ``layout.decode(data, pos)``; what comes after them is not looked at.

        :raises LimitReached: if the wanted fields are more than the limit ``message_objects`` allows
        :raises DecodeError: as the full decoder does, if the bytes are malformed or end early before that
        """
        if not self.layout.older:
            try:
                few = len(data) <= IN_FORCE["message_objects"]
                value, end = (self._first if few else self._first_counted)(data, pos)
            except LimitReached:
                raise
            except MALFORMED:
                end = len(data) + 1
            if end <= len(data):
                return value  # type: ignore[no-any-return]  # a decoder of a struct returns a dict
        # the full decoder says what is wrong, or which of several layouts fits
        return pick(self.layout.decode(data, pos)[0], self.wanted)

    def exactly(self, data: bytes, pos: int = 0) -> dict[str, Any] | None:
        """Decode the wanted fields if this layout accounts for every byte from ``pos`` on, else return None."""
        try:
            value, end = self._whole(data, pos)
        except MALFORMED:
            return None
        return value if end == len(data) else None


# ---------------------------------------------------------------- what of a tree a struct has
def known(con: wire.WireType, wanted: Tree) -> Tree:
    """Return what of a tree there is in a struct, or in what is inside an array."""
    inside = wire.struct_inside(con)
    found: Tree = {}
    for member in inside[0].all_members if inside else ():
        if member.name in wanted:
            inner = wanted[member.name]
            below = None if inner is None else known(member.con, inner)
            if below or inner is None:
                found[member.name] = below
    return found


def up_to_the_last(struct: wire.Struct, wanted: Tree) -> wire.Struct:
    """Return a struct without what comes after its last wanted field."""
    if any(member.name in wanted for member in (struct.tagged or {}).values()):
        return struct
    count = max(
        (index + 1 for index, member in enumerate(struct.members) if member.name in wanted), default=0
    )
    return wire.Struct(struct.members[:count], None)
