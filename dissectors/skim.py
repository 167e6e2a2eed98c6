"""Walks over encoded messages that find the bytes of chosen fields, in whole messages or as the bytes come.

A decoder gives values, a trace gives every field. This gives, for a few fields, where their bytes are, so that
:mod:`dissectors.splice` can put others in their place; and it tells where a late part of a message begins, while the
message streams through and nothing of it is kept.

A :class:`Route` is worked out once for a layout. It is a chain of steps; each reads one length, count or wanted
value, and knows how many bytes of fixed-width fields lie before it:

* strings, bytes, records, and arrays whose elements are all as wide, are passed over by their length;
* a step moves on only when all of what it reads is there, so a walk can stop at any byte and resume there;
* nothing is read behind the last wanted field.

What is passed over is not looked at: not whether a string is UTF-8, nor into tagged fields that are not wanted.
Positions and offsets count from the first byte handed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dissectors import wire
from dissectors.budget import Budget
from dissectors.errors import DecodeError
from dissectors.headers import ResponseHeader, response_header_version
from dissectors.schema import Message
from dissectors.skim_steps import Pass, Spot, Step, TaggedField, through, to_fields

__all__ = ["Route", "Spot", "TaggedField", "Walk", "response_structs"]


def response_structs(message: Message, version: int) -> tuple[wire.Struct, wire.Struct]:
    """Return header and body of a response, as they follow the size of its frame."""
    header = ResponseHeader[response_header_version(message, version)]
    return header.struct, message[version].struct


class Route:
    """The way through a message; made by :meth:`to_fields` or :meth:`up_to`."""

    def __init__(self, first: Step) -> None:
        self.first = first

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be read, as where none of the wanted fields is in that version."""
        return isinstance(self.first, Pass)

    @classmethod
    def to_fields(cls, structs: Sequence[wire.Struct], paths: Iterable[str]) -> Route:
        """Return the way past all occurrences of some fields.

        :param structs: what follows one another: the struct of a message, or those of its header and its body
        :param paths: of wanted fields of the last struct: numbers, strings or bytes, without indexes. Those that it
            does not have are left out
        """
        return cls(to_fields(structs, paths))

    @classmethod
    def through(cls, structs: Sequence[wire.Struct]) -> Route:
        """Return the way to the end of what follows one another, past every array that cannot be skipped."""
        return cls(through(structs, Pass(None)))

    @classmethod
    def up_to(cls, structs: Sequence[wire.Struct], part: str) -> Route:
        """Return the way to the first byte of a top-level field of the last struct, or, for ``_tags``, of the tag
        section that closes it.

        :raises ValueError: if the struct has no such field
        """
        *before, last = structs
        names = [member.name for member in last.members]
        if last.tagged is not None:
            names.append(wire.UNKNOWN_TAGS)
        members = last.members[: names.index(part)]
        return cls(through([*before, wire.Struct(members, None)], Pass(None)))

    def find(self, data: bytes, pos: int = 0, budget: Budget | None = None) -> list[Spot]:
        """Return the wanted fields of a whole message, in the order of their bytes.

        :param budget: for ``addresses``, elements of arrays with wanted fields, and ``elements``, those of others
        :raises DecodeError: if the bytes are malformed or end early
        :raises LimitReached: if there are more elements than the budget has
        """
        walk = Walk(self, budget=budget)
        step: Step | None = self.first
        try:
            while step is not None:
                pos, step = step.go(walk, data, pos)
        except IndexError:
            pos = len(data) + 1
        except DecodeError as error:
            if not error.truncated:
                raise
            pos = len(data) + 1
        if pos > len(data):
            raise DecodeError("the bytes end early", len(data), truncated=True)
        return walk.spots


class Walk:
    """The way through one message whose bytes come in pieces.

    What is kept between pieces is the beginning of a length or of a wanted value, and the fixed-width fields before it.

    :param skip: bytes to pass over before the message begins
    :param budget: what elements of arrays are counted against
    :ivar spots: wanted fields met so far, in the order of their bytes
    :ivar base: offset of the first byte of what is kept, or of the next piece; this and what follows is for the steps
    :ivar indexes: of the current element in each array around the current step
    :ivar counts: elements of each of these arrays
    :ivar tags: fields left in each tag section around the current step
    :ivar inside: the innermost wanted tagged field around the current step
    """

    __slots__ = ("_kept", "_skip", "_step", "base", "budget", "counts", "indexes", "inside", "spots", "tags")

    def __init__(self, route: Route, skip: int = 0, budget: Budget | None = None) -> None:
        self.spots: list[Spot] = []
        self.budget = budget
        self.base = 0
        self.indexes: list[int] = []
        self.counts: list[int] = []
        self.tags: list[int] = []
        self.inside: TaggedField | None = None
        self._step: Step | None = route.first
        self._kept = b""
        self._skip = skip  # bytes to pass over from ``base`` on

    def feed(self, data: bytes) -> int | None:
        """Take the next bytes; return the offset at which the route ends, None as long as that is not known.

        The offset may lie behind the bytes that came so far. Nothing is to be fed after it is known.

        :raises DecodeError: if the bytes are malformed
        """
        if self._skip >= len(data) and not self._kept:
            self._skip -= len(data)
            self.base += len(data)
            return None
        buf = self._kept + data
        pos, step = self._skip, self._step
        try:
            while step is not None:
                pos, step = step.go(self, buf, pos)
        except IndexError:
            pass
        except DecodeError as error:
            if not error.truncated:
                raise DecodeError(error.reason, self.base + error.offset) from None
        self._step = step
        end = self.base + pos
        self._kept = buf[pos:]
        self._skip = max(pos - len(buf), 0)
        self.base = end - self._skip
        return end if step is None else None
