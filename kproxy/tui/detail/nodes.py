"""The model of the detail pane: the fields of both sides of an exchange, and the bytes they were read from.

Made in the engine thread (:mod:`kproxy.tui.detail.make`) and never changed afterwards, so any thread may read it. Texts
are as on the wire, not escaped; masked values are absent, both as values and as bytes.
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
    """The origin of a line; the value is the sign that the line starts with."""

    FIELD = ""
    """A field with bytes of its own."""
    INNER = "="
    """Decoded content of a field, such as the protocol inside a bytes field."""
    COMMENT = "#"
    """Added by the user."""
    PROBLEM = "!"
    """A problem."""
    CHANGE = "~"
    """An action of kproxy."""


@dataclass(slots=True, eq=False)
class FieldNode:
    """One field, array element or struct, or a remark beside them.

    :ivar name: of the field, or ``[0]`` for an element
    :ivar path: as in filters and annotations: ``response.responses[0].error_code``
    :ivar kind: type on the wire, as in Kafka's message definitions; empty if there is none
    :ivar value: of a leaf; None if it is masked
    :ivar buffer: index of the byte buffer that ``start`` and ``end`` refer to
    :ivar start: offset of its first byte
    :ivar end: offset after its last byte; if incomplete, after the last byte that can belong to it
    :ivar leaf: whether it has a value and no fields inside; the decoded content of its bytes may still be below it
    :ivar children: the nodes in it
    :ivar wire: number of leading children that have bytes of their own, in the order of these bytes
    :ivar remarks: remarks about it, in lines of their own
    :ivar opened: index of the byte buffer that the children refer to, if it is not the field's own
    :ivar declared: its declaration
    :ivar doc: meaning of the field
    :ivar note: name of the value, or what else is known about it
    :ivar change: kproxy's change of the value
    :ivar error: whether the value indicates an error
    :ivar troubled: whether a field inside indicates an error
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
        """Index in an array, None if it is not an element."""
        return int(self.name[1:-1]) if self.name[:1] == "[" and self.name[1:-1].isdigit() else None

    @property
    def below(self) -> list[FieldNode]:
        """The nodes shown below it."""
        return self.remarks + self.children if self.remarks else self.children

    def text(self, most: int = MAX_TEXT) -> str:
        """Return the value with its unit in one line, empty if it has none.

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
        """The unit of the value, empty if there is none; names of special values, such as -1, have none."""
        if self.declared is None or not isinstance(self.value, int) or (self.note and self.value <= 0):
            return ""
        unit = self.declared.type.unit_text
        return (
            "ms"
            if not unit and self.name.endswith("_ms") and not self.name.endswith("timestamp_ms")
            else unit
        )

    def ancestors(self) -> Iterator[FieldNode]:
        """Yield its ancestors, from the inside out."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def walk(self) -> Iterator[FieldNode]:
        """Yield the node and all its descendants, in the order of the tree."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.below))

    def child_at(self, offset: int) -> int:
        """Return the index of the child that contains byte `offset` of the children's buffer, -1 if none does."""
        at = bisect_right(self.children, offset, hi=self.wire, key=_START) - 1
        return at if at >= 0 and offset < self.children[at].end else -1


@dataclass(frozen=True, slots=True)
class ByteBuffer:
    """Bytes that fields were read from.

    :ivar name: ``frame``, or the name of decompressed records
    :ivar data: masked bytes are zero
    :ivar root: the node that all these bytes belong to
    :ivar masked: start and end of each masked range, in order
    :ivar segments: offset of each TCP segment, the first at 0; empty if unknown
    :ivar missing: number of bytes that follow and were not captured
    """

    name: str
    data: bytes = field(repr=False)
    root: FieldNode
    masked: tuple[tuple[int, int], ...] = ()
    segments: tuple[int, ...] = ()
    missing: int = 0

    def begins_segment(self, offset: int) -> bool:
        """Return whether a TCP segment starts at a byte."""
        at = bisect_right(self.segments, offset) - 1
        return at >= 0 and self.segments[at] == offset

    def is_masked(self, offset: int) -> bool:
        at = bisect_right(self.masked, offset, key=lambda each: each[0]) - 1
        return at >= 0 and offset < self.masked[at][1]


@dataclass(frozen=True, slots=True)
class SideDetail:
    """A request or a response.

    :ivar title: ``Fetch v12``
    :ivar root: the tree, None if there is no frame
    :ivar absent: why there is no frame
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
        """Return the innermost field that contains a byte, None if the byte does not exist."""
        if not 0 <= buffer < len(self.buffers) or not 0 <= offset < len(self.buffers[buffer].data):
            return None
        return self.run(buffer, offset)[0]

    def run(self, buffer: int, offset: int) -> tuple[FieldNode, int]:
        """Return the innermost field that contains a byte, and the end of the run of bytes with the same field."""
        node = self.buffers[buffer].root
        end = len(self.buffers[buffer].data)
        while True:
            if node.opened is not None and node.opened != buffer:  # its content is in another buffer
                return node, end
            at = node.child_at(offset)
            if at < 0:
                after = bisect_right(node.children, offset, hi=node.wire, key=_START)
                return node, min(node.children[after].start, end) if after < node.wire else end
            node = node.children[at]
            end = min(end, node.end)


@dataclass(frozen=True, slots=True)
class Detail:
    """The detail pane's content for one exchange.

    :ivar number: of the exchange
    :ivar api: name of its API
    :ivar about: how its time was spent, and its place on its connection
    """

    number: int
    api: str
    request: SideDetail
    response: SideDetail
    about: tuple[str, ...] = ()

    def of(self, side: Side) -> SideDetail:
        return self.request if side == "request" else self.response
