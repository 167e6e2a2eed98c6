"""Decoders of chosen fields; all others are skipped without being decoded.

A :class:`Projection` of one version of a message takes field paths such as ``responses.partitions.error_code`` and
gives the same dicts as the full decoder, with these fields only. Its code is generated like that of the full decoder
(:mod:`dissectors.codegen`), from the same declaration and the tree of wanted fields. Nothing is read after the last of
them, unless the end of the message is asked for.

In the bytes that it reads, a projection detects the errors that the full decoder detects; the full decoder then reports
what is wrong and where. It checks lengths, and null where none is allowed. It does not check that a skipped string is
UTF-8, nor unwanted tagged fields.
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
    """Return paths such as ``topics.partitions.index`` as a tree; a path includes everything below it."""
    root: Tree = {}
    for path in sorted(paths, key=len):  # a path comes before those below it
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
    """Return the fields of a decoded struct that a projection gives."""
    return {name: _picked(value[name], inner) for name, inner in wanted.items() if name in value}


def _picked(value: Any, wanted: Tree | None) -> Any:
    if wanted is None or value is None:
        return value
    if isinstance(value, list):
        return [None if item is None else pick(item, wanted) for item in value]
    return pick(value, wanted)


class Projection:
    """Decoder of chosen fields of one version of one message.

    :param layout: the message in its version, such as ``FetchResponse[12]``
    :param paths: paths of the wanted fields, without indexes; fields that this version lacks are ignored
    """

    def __init__(self, layout: MessageVersion, paths: Iterable[str]) -> None:
        self.layout = layout
        self.wanted = known(layout.struct, tree(paths))

    def __repr__(self) -> str:
        return f"<projection of {self.layout!r}>"

    @cached_property
    def _decode_wanted(self) -> Decoder:
        return decoder(truncated_to(self.layout.struct, self.wanted), self.wanted)

    @cached_property
    def _decode_wanted_counted(self) -> Decoder:
        struct = truncated_to(self.layout.struct, self.wanted)
        return CountingDecoder(decoder(struct, self.wanted, counting=True))

    @cached_property
    def _decode_whole(self) -> Decoder:
        return decoder(self.layout.struct, self.wanted)

    def parse(self, data: bytes, pos: int = 0) -> dict[str, Any]:
        """Decode the wanted fields of ``layout.decode(data, pos)``; bytes after them are not checked.

        :raises LimitReached: if the wanted fields exceed the limit ``message_objects``
        :raises DecodeError: as the full decoder does, if the bytes up to the last wanted field are malformed or end
            early
        """
        if not self.layout.older:
            try:
                few = len(data) <= IN_FORCE["message_objects"]
                value, end = (self._decode_wanted if few else self._decode_wanted_counted)(data, pos)
            except LimitReached:
                raise
            except MALFORMED:
                end = len(data) + 1
            if end <= len(data):
                return value  # type: ignore[no-any-return]  # a decoder of a struct returns a dict
        # the full decoder reports what is wrong, or which of several layouts matches
        return pick(self.layout.decode(data, pos)[0], self.wanted)

    def exactly(self, data: bytes, pos: int = 0) -> dict[str, Any] | None:
        """Decode the wanted fields if this layout accounts for every byte from ``pos`` on, else return None."""
        try:
            value, end = self._decode_whole(data, pos)
        except MALFORMED:
            return None
        return value if end == len(data) else None


# ---------------------------------------------------------------- matching trees and structs
def known(con: wire.WireType, wanted: Tree) -> Tree:
    """Return the part of a tree of wanted fields that a struct, or the struct inside an array, has."""
    inside = wire.struct_inside(con)
    found: Tree = {}
    for member in inside[0].all_members if inside else ():
        if member.name in wanted:
            inner = wanted[member.name]
            below = None if inner is None else known(member.con, inner)
            if below or inner is None:
                found[member.name] = below
    return found


def truncated_to(struct: wire.Struct, wanted: Tree) -> wire.Struct:
    """Return a struct without the members after its last wanted field."""
    if any(member.name in wanted for member in (struct.tagged or {}).values()):
        return struct
    count = max(
        (index + 1 for index, member in enumerate(struct.members) if member.name in wanted), default=0
    )
    return wire.Struct(struct.members[:count], None)
