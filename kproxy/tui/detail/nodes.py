"""The model of the detail pane: the fields of both sides of an exchange, and the bytes they were read from.

Made in the engine thread (:mod:`kproxy.tui.detail.make`) and never changed afterwards, so that any thread may read it.
Texts are as they came from the wire, not cleaned; values that are masked are not in here at all, neither as values nor
as bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any

from dissectors.schema import Field
from dissectors.sides import Side
from kproxy.text.values import MAX_TEXT, short

_START = attrgetter("start")
_COUNTED = frozenset({"array", "records"})


class Role(Enum):
    """Where what a line says comes from; the value is the sign that it begins with."""

    FIELD = ""
    """Read from bytes of its own."""
    INNER = "="
    """Known beyond the fields, such as the protocol inside a bytes field."""
    COMMENT = "#"
    """Added by the user."""
    PROBLEM = "!"
    """Something is wrong."""
    CHANGE = "~"
    """What kproxy did."""


@dataclass(slots=True, eq=False)
class FieldNode:
    """One field, array element or struct, or something to be said beside them.

    :ivar name: of the field, or ``[0]`` for an element
    :ivar path: as filters and annotations write it: ``response.responses[0].error_code``
    :ivar kind: type on the wire, as in Kafka's message definitions; empty if there is none
    :ivar value: of a leaf; None if it is masked
    :ivar buffer: index of the bytes that ``start`` and ``end`` count in
    :ivar start: offset of its first byte
    :ivar end: offset after its last byte; where it is incomplete, after the last that can be of it
    :ivar leaf: whether it has a value, and no fields inside; what is known of its bytes may still be below it
    :ivar children: what is in it
    :ivar wire: so many of the children, the first, have bytes of their own, and are in the order of these
    :ivar remarks: what is to be said about it, in lines of their own
    :ivar opened: index of the bytes that the children count in, where these are not those of the field
    :ivar declared: the declaration it comes from
    :ivar doc: what it means
    :ivar note: what the value is called, or what else is known of it
    :ivar change: what kproxy made of the value
    :ivar error: whether the value says about an error
    :ivar troubled: whether a field inside does
    """

    name: str
    path: str
    role: Role
    kind: str
    value: Any = field(repr=False)
    buffer: int
    start: int
    end: int
    leaf: bool = False
    parent: FieldNode | None = field(default=None, repr=False)
    children: list[FieldNode] = field(default_factory=list, repr=False)
    wire: int = 0
    remarks: list[FieldNode] = field(default_factory=list, repr=False)
    opened: int | None = None
    declared: Field | None = None
    doc: str = ""
    note: str = ""
    change: str = ""
    masked: bool = False
    incomplete: bool = False
    error: bool = False
    troubled: bool = False

    @property
    def index(self) -> int | None:
        """Which element of an array it is, None if it is none."""
        return int(self.name[1:-1]) if self.name[:1] == "[" and self.name[1:-1].isdigit() else None

    @property
    def below(self) -> list[FieldNode]:
        """What is shown below it."""
        return self.remarks + self.children if self.remarks else self.children

    def text(self, most: int = MAX_TEXT) -> str:
        """Return the value in one line, as far as it has one, with its unit.

        :param most: characters before a value is cut
        """
        if self.masked:
            return "(masked)"
        if self.role not in (Role.FIELD, Role.INNER):
            return ""
        if not self.leaf:
            return f"({len(self.children)})" if self.kind in _COUNTED else ""
        if self.incomplete and self.value is None:
            return "(incomplete)"
        return f"{short(self.value, most)} {self.unit}".rstrip()

    @property
    def unit(self) -> str:
        """The unit of the value, empty if there is none; names of special values, such as -1, stand alone."""
        if self.declared is None or not isinstance(self.value, int) or (self.note and self.value <= 0):
            return ""
        unit = self.declared.type.unit_text
        return (
            "ms"
            if not unit and self.name.endswith("_ms") and not self.name.endswith("timestamp_ms")
            else unit
        )

    def ancestors(self) -> Iterator[FieldNode]:
        """Yield what it is in, from the inside out."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def walk(self) -> Iterator[FieldNode]:
        """Yield it and all that is in it, in the order of the tree."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.below))

    def child_at(self, offset: int) -> int:
        """Return the index of the child with a byte, -1 if none has it. The byte counts as the children do."""
        at = bisect_right(self.children, offset, hi=self.wire, key=_START) - 1
        return at if at >= 0 and offset < self.children[at].end else -1


@dataclass(frozen=True, slots=True)
class ByteBuffer:
    """Bytes that fields were read from.

    :ivar name: ``frame``, or what was decompressed
    :ivar data: masked bytes are zero
    :ivar root: what all these bytes belong to
    :ivar masked: begin and end of what is masked, in order
    :ivar segments: where each TCP segment begins, the first at 0; empty if that is not known
    :ivar missing: bytes that follow and were not captured
    """

    name: str
    data: bytes = field(repr=False)
    root: FieldNode
    masked: tuple[tuple[int, int], ...] = ()
    segments: tuple[int, ...] = ()
    missing: int = 0

    def begins_segment(self, offset: int) -> bool:
        """Tell whether a TCP segment begins with a byte."""
        at = bisect_right(self.segments, offset) - 1
        return at >= 0 and self.segments[at] == offset

    def is_masked(self, offset: int) -> bool:
        """Tell whether a byte is masked."""
        at = bisect_right(self.masked, offset, key=lambda each: each[0]) - 1
        return at >= 0 and offset < self.masked[at][1]


@dataclass(frozen=True, slots=True)
class SideDetail:
    """A request or a response.

    :ivar title: ``Fetch v12``
    :ivar root: the tree, None if there is no frame
    :ivar absent: why there is none
    :ivar buffers: bytes; the first are those of the frame
    :ivar nodes: all nodes by path
    """

    side: Side
    title: str
    root: FieldNode | None = None
    absent: str = ""
    buffers: tuple[ByteBuffer, ...] = ()
    nodes: dict[str, FieldNode] = field(default_factory=dict, repr=False)

    def at(self, buffer: int, offset: int) -> FieldNode | None:
        """Return the innermost field that a byte belongs to, None if there is no such byte."""
        if not 0 <= buffer < len(self.buffers) or not 0 <= offset < len(self.buffers[buffer].data):
            return None
        return self.run(buffer, offset)[0]

    def run(self, buffer: int, offset: int) -> tuple[FieldNode, int]:
        """Return the innermost field with a byte, and up to where the bytes that follow have the same."""
        node = self.buffers[buffer].root
        end = len(self.buffers[buffer].data)
        while True:
            if node.opened is not None and node.opened != buffer:  # what is inside lies in other bytes
                return node, end
            at = node.child_at(offset)
            if at < 0:
                after = bisect_right(node.children, offset, hi=node.wire, key=_START)
                return node, min(node.children[after].start, end) if after < node.wire else end
            node = node.children[at]
            end = min(end, node.end)


@dataclass(frozen=True, slots=True)
class Detail:
    """All there is to see of one exchange.

    :ivar number: of the exchange
    :ivar api: name of its API
    :ivar about: where its time went, and its place on its connection
    """

    number: int
    api: str
    request: SideDetail
    response: SideDetail
    about: tuple[str, ...] = ()

    def of(self, side: Side) -> SideDetail:
        """Return one side."""
        return self.request if side == "request" else self.response
