"""Traced reading: every field with its value and byte range, and a partial tree if bytes are wrong.

It interprets the wire types that :mod:`dissectors.codegen` compiles, one field at a time. A node is linked to its
parent before it is read, so that everything read before an error stays. It is at least ten times slower than generated
code and meant for a single message that a person looks at, and for locating errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from dissectors import wire
from dissectors.budget import IN_FORCE, Budget, LimitReached, message_budget
from dissectors.errors import DecodeError

if TYPE_CHECKING:
    from dissectors.schema import Field


class Node(msgspec.Struct, eq=False):
    """One field, array element, struct or tag of a traced message.

    A msgspec struct, because these are created in C: a message of 30 KB has ten thousand.

    :ivar name: field name, index of an array element, or number of an unknown tag
    :ivar start: offset of its first byte, length prefixes and tag numbers included
    :ivar kind: type name, as in Kafka's message definitions
    :ivar field: the declaration it comes from, if any
    :ivar end: offset after its last byte; -1 while it is incomplete
    :ivar value: the decoded value of a leaf; None for a node with children
    :ivar children: child nodes, or None for a leaf
    :ivar buffer: decompressed bytes that the offsets of all children refer to, or None
    """

    name: str | int
    start: int
    kind: str = ""
    field: Field | None = None
    end: int = -1
    value: Any = None
    children: list[Node] | None = None
    buffer: bytes | None = None

    def __repr__(self) -> str:
        what = f"{len(self.children)} children" if self.children is not None else repr(self.value)
        return f"<{self.name} [{self.start}:{self.end}] {what}>"

    def add(self, child: Node) -> Node:
        """Append a child and return it."""
        if self.children is None:
            self.children = []
        self.children.append(child)
        return child

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Yield this node and all its descendants with their paths: ``topics[0].name``."""
        yield path, self
        for child in self.children or ():
            yield from child.walk(self.path_of(child, path))

    def path_of(self, child: Node, path: str) -> str:
        """Return a child's path, given this node's: ``topics[0]``, ``topics[0].name``, ``topics[0]._tags[9]``."""
        if isinstance(child.name, str):
            return f"{path}.{child.name}" if path else child.name
        if self.kind in ("array", "records"):
            return f"{path}[{child.name}]"
        return f"{path}.{wire.UNKNOWN_TAGS}[{child.name}]" if path else f"{wire.UNKNOWN_TAGS}[{child.name}]"

    def shift(self, by: int) -> None:
        """Move all offsets, when the bytes turn out to lie inside other bytes. Offsets in a buffer stay."""
        self.start += by
        if self.end >= 0:
            self.end += by
        for child in self.children or () if self.buffer is None else ():
            child.shift(by)

    def to_value(self) -> Any:
        """Return what the generated decoder returns for the same bytes, as far as it was read."""
        if self.children is None:
            return self.value
        if self.kind == "array":
            items = [child.to_value() for child in self.children]
            numbers = self.value is NUMBERS
            return tuple(items) if numbers else items
        out: dict[Any, Any] = {}
        for child in self.children:
            if isinstance(child.name, int):
                out.setdefault(wire.UNKNOWN_TAGS, {})[child.name] = child.value
            else:
                out[child.name] = child.to_value()
        return out


#: value of an array node whose elements are numbers: generated decoders return these arrays as tuples
NUMBERS = object()


class Trace(msgspec.Struct):
    """A traced message: its tree, the offset after the last byte read, and the error if there was one."""

    root: Node
    end: int
    error: DecodeError | None


def trace(con: wire.WireType, buf: bytes, pos: int = 0, *, name: str = "") -> Trace:
    """Read ``con`` from ``buf`` at ``pos`` field by field. Never raises for malformed bytes.

    Reading ends early if the limit ``message_objects`` is reached.
    """
    root = Node(name, pos, con.kind)
    try:
        # every field takes at least one byte, so fewer bytes than the limit need no counting
        budget = message_budget() if len(buf) > IN_FORCE["message_objects"] else None
        end = _read(con, buf, pos, root, budget)
    except DecodeError as error:
        return Trace(root, error.offset, _located(error, root))
    return Trace(root, end, None)


def _located(error: DecodeError, root: Node) -> DecodeError:
    """Return the error with the path of the field in which reading stopped: the chain of nodes without an end."""
    path, node = "", root
    while node.children and node.children[-1].end < 0:
        path = node.path_of(node.children[-1], path)
        node = node.children[-1]
    return error.moved(error.offset, path)


def _spend(budget: Budget, amount: int, pos: int) -> None:
    if amount > 0:
        budget.spend("message_objects", amount, f"{amount:,} more fields and elements", pos)


def _read(con: wire.WireType, buf: bytes, pos: int, node: Node, budget: Budget | None) -> int:
    if isinstance(con, wire.Array):
        count, pos = con.read_length(buf, pos)
        if count >= 0:
            pos = _read_elements(con, count, buf, pos, node, budget)
    elif isinstance(con, wire.Struct):
        return _read_struct(con, buf, pos, node, budget)
    elif isinstance(con, wire.Leaf):
        node.value, pos = con.read(buf, pos)
    elif isinstance(con, wire.NullableStruct):
        present, pos = con.read_marker(buf, pos)
        if present:
            pos = _read_struct(con.struct, buf, pos, node, budget)
    else:
        raise AssertionError(f"no traced reading for {con!r}")
    node.end = pos
    return pos


def _read_elements(
    con: wire.Array, count: int, buf: bytes, pos: int, node: Node, budget: Budget | None
) -> int:
    element = con.element
    kind = element.kind
    children = node.children = []
    if budget is not None:
        _spend(budget, min(count * wire.objects_of(element), len(buf) - pos), pos)
    if isinstance(element, wire.FixedWidth):
        node.value = NUMBERS
        return _read_numbers(element, count, buf, pos, children)
    read = _read_struct if isinstance(element, wire.Struct) else _read
    for index in range(count):
        child = Node(index, pos, kind)
        children.append(child)
        pos = read(element, buf, pos, child, budget)
    return pos


def _read_numbers(element: wire.FixedWidth, count: int, buf: bytes, pos: int, children: list[Node]) -> int:
    kind, size, unpack = element.kind, element.size, element.format.unpack_from
    whole = min(count, (len(buf) - pos) // size)
    for index in range(whole):
        end = pos + size
        children.append(Node(index, pos, kind, None, end, unpack(buf, pos)[0]))
        pos = end
    if whole < count:
        children.append(Node(whole, pos, kind))
        element.read(buf, pos)
    return pos


def _read_struct(con: wire.Struct, buf: bytes, pos: int, node: Node, budget: Budget | None) -> int:
    children = node.children = []
    for member in con.members:
        part = member.con
        child = Node(member.name, pos, part.kind, member.field)
        children.append(child)
        if isinstance(part, wire.Leaf):
            child.value, pos = part.read(buf, pos)
            child.end = pos
        else:
            pos = _read(part, buf, pos, child, budget)
    if con.tagged is not None:
        pos = _read_tags(con.tagged, buf, pos, node, budget)
    node.end = pos
    return pos


def _read_tags(
    tagged: dict[int, wire.Member], buf: bytes, pos: int, node: Node, budget: Budget | None
) -> int:
    count, pos = wire.read_uvarint(buf, pos)
    if budget is not None:
        _spend(budget, min(count, len(buf) - pos), pos)
    for _ in range(count):
        start = pos
        tag, pos = wire.read_uvarint(buf, pos)
        size, pos = wire.read_uvarint(buf, pos)
        end = pos + size
        member = tagged.get(tag)
        if member is None:
            child = node.add(Node(tag, start, "bytes"))
        else:
            child = node.add(Node(member.name, start, member.con.kind, member.field))
            _read_tagged(member.con, buf, pos, end, child, budget)
        if end > len(buf):
            child.end = -1
            raise DecodeError(
                f"{end - len(buf)} of {size} bytes of a tagged field are missing", pos, truncated=True
            )
        if member is None:
            child.value = buf[pos:end]
        child.end = pos = end
    return pos


def _read_tagged(
    con: wire.WireType, buf: bytes, pos: int, end: int, node: Node, budget: Budget | None
) -> None:
    """Read a known tagged field, which must fill the bytes announced for it."""
    try:
        used = _read(con, buf, pos, node, budget)
    except LimitReached:
        raise
    except DecodeError as error:
        # if all announced bytes are present, more of the message would not help
        raise DecodeError(error.reason, error.offset, truncated=error.truncated and end > len(buf)) from None
    if used != end:
        node.end, node.value = -1, None  # the field stays undecoded
        raise DecodeError(f"{end - pos} bytes are announced for the tagged field, it has {used - pos}", pos)
