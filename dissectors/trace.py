"""The traced reading: every field with its value and its byte range, and a partial tree when bytes are wrong.

This walks the same wire types that :mod:`dissectors.codegen` compiles, one field at a time. A node is linked into
its parent before it is read, so whatever was read before a fault stays. It is slower than generated code by a
factor of ten and more, and meant for one message that a person looks at, and for finding out what is wrong where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dissectors import wire
from dissectors.errors import DecodeError
from dissectors.schema import Field


class Node:
    """One field, array element, struct or tag of a traced message.

    :ivar name: field name, or the index of an array element, or the number of an unknown tag
    :ivar value: the decoded value of a leaf; None for what has children
    :ivar start: offset of its first byte, length prefixes and tag numbers included
    :ivar end: offset after its last byte; -1 while it is incomplete
    :ivar children: nodes inside, or None for a leaf
    :ivar kind: type name, as in Kafka's message definitions
    :ivar field: the declaration it comes from, if any
    """

    __slots__ = ("children", "end", "field", "kind", "name", "start", "value")

    def __init__(self, name: str | int, start: int, kind: str = "", field: Field | None = None) -> None:
        self.name = name
        self.start = start
        self.end = -1
        self.value: Any = None
        self.children: list[Node] | None = None
        self.kind = kind
        self.field = field

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
        """Yield this node and all below it with their paths: ``topics[0].name``."""
        yield path, self
        for child in self.children or ():
            if isinstance(child.name, int):
                child_path = f"{path}[{child.name}]"
            else:
                child_path = f"{path}.{child.name}" if path else child.name
            yield from child.walk(child_path)

    def shift(self, by: int) -> None:
        """Move all offsets, as when the bytes turn out to lie inside other bytes."""
        self.start += by
        if self.end >= 0:
            self.end += by
        for child in self.children or ():
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


#: value of an array node whose elements are numbers: the generated decoder gives these as tuples
NUMBERS = object()


@dataclass(slots=True)
class Trace:
    """A traced message: its tree, the offset after the last byte read, and the fault if there was one."""

    root: Node
    end: int
    error: DecodeError | None


def trace(con: wire.WireType, buf: bytes, pos: int = 0, *, name: str = "") -> Trace:
    """Read ``con`` from ``buf`` at ``pos`` field by field. Never raises for malformed bytes."""
    root = Node(name, pos, con.kind)
    try:
        end = _read(con, buf, pos, root)
    except DecodeError as error:
        return Trace(root, error.offset, _located(error, root))
    return Trace(root, end, None)


def _located(error: DecodeError, root: Node) -> DecodeError:
    """Name the field in which the walk stopped: the chain of nodes without an end."""
    path, node = "", root
    while node.children and node.children[-1].end < 0:
        node = node.children[-1]
        path += f"[{node.name}]" if isinstance(node.name, int) else f".{node.name}"
    return DecodeError(error.reason, error.offset, path.lstrip("."), truncated=error.truncated)


def _read(con: wire.WireType, buf: bytes, pos: int, node: Node) -> int:
    if isinstance(con, wire.Leaf):
        node.value, pos = con.read(buf, pos)
    elif isinstance(con, wire.Struct):
        pos = _read_struct(con, buf, pos, node)
    elif isinstance(con, wire.Array):
        count, pos = con.read_length(buf, pos)
        if count >= 0:
            pos = _read_elements(con, count, buf, pos, node)
    elif isinstance(con, wire.NullableStruct):
        present, pos = con.read_marker(buf, pos)
        if present:
            pos = _read_struct(con.struct, buf, pos, node)
    else:
        raise AssertionError(f"no traced reading for {con!r}")
    node.end = pos
    return pos


def _read_elements(con: wire.Array, count: int, buf: bytes, pos: int, node: Node) -> int:
    element = con.element
    kind = element.kind
    children = node.children = []
    if isinstance(element, wire.Fixed):
        node.value = NUMBERS
    for index in range(count):
        child = Node(index, pos, kind)
        children.append(child)
        pos = _read(element, buf, pos, child)
    return pos


def _read_struct(con: wire.Struct, buf: bytes, pos: int, node: Node) -> int:
    children = node.children = []
    for member in con.members:
        child = Node(member.name, pos, member.con.kind, member.field)
        children.append(child)
        leaf = member.con
        if isinstance(leaf, wire.Leaf):
            child.value, pos = leaf.read(buf, pos)
            child.end = pos
        else:
            pos = _read(leaf, buf, pos, child)
    if con.tagged is not None:
        pos = _read_tags(con.tagged, buf, pos, node)
    return pos


def _read_tags(tagged: dict[int, wire.Member], buf: bytes, pos: int, node: Node) -> int:
    count, pos = wire.read_uvarint(buf, pos)
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
        if end > len(buf):
            raise DecodeError(
                f"{end - len(buf)} of {size} bytes of a tagged field are missing", pos, truncated=True
            )
        if member is None:
            child.value = buf[pos:end]
        else:
            used = _read(member.con, buf, pos, child)
            if used != end:
                child.end = -1
                raise DecodeError(f"tag {tag} announces {size} bytes, its field has {used - pos}", pos)
        child.end = pos = end
    return pos
