"""A traced frame as nodes: every field with everything known about it, and every byte buffer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from captures.exchanges import Exchange
from captures.meaning import words
from dissectors import budget, embedded
from dissectors.domains import ERROR_CODE, Domain
from dissectors.masks import Masks, merged, zeroed
from dissectors.records import DECOMPRESSED
from dissectors.sides import Side
from dissectors.trace import Node
from kproxy.text.interventions import Changes
from kproxy.text.values import has_parts, parts_of, short
from kproxy.tui.detail import batches
from kproxy.tui.detail.log_places import LogPlaces
from kproxy.tui.detail.nodes import ByteBuffer, FieldNode, Role

_DEEPEST = 30
"""Most levels of decoded content below a field; the sender determines its depth."""
_TOO_DEEP = "…"
_CUT_OFF = frozenset({"unaligned", "unreadable", "partial", "padding"})
"""Bytes of a records field that belong to no batch: they were not searched for secrets."""


@dataclass(slots=True)
class _Bytes:
    """A buffer under construction."""

    name: str
    data: bytes
    root: FieldNode
    masked: list[tuple[int, int]] = field(default_factory=list)


class Fields:
    """Builds nodes from a trace.

    :param changes: kproxy's changes of the values
    """

    def __init__(self, exchange: Exchange, side: Side, changes: Changes) -> None:
        self.nodes: dict[str, FieldNode] = {}
        self._side = side
        self._decoded = exchange.annotations.decoded
        self.masks = Masks(exchange.annotations.masked)
        self._changes = changes
        self._in_log = LogPlaces(exchange, side)
        self._buffers: list[_Bytes] = []

    def begin(self, name: str, root: FieldNode, data: bytes) -> None:
        """Start with the bytes of the frame."""
        self._buffers.append(_Bytes(name, data, root))
        self.nodes[root.path] = root

    @property
    def frame(self) -> bytes:
        return self._buffers[0].data

    def hide(self, start: int, end: int) -> None:
        """Mask bytes of the frame."""
        self._buffers[0].masked.append((start, end))

    def buffers(self, segments: tuple[int, ...], missing: int) -> tuple[ByteBuffer, ...]:
        """Return all byte buffers.

        :param segments: offsets of the TCP segments in the frame
        :param missing: number of bytes missing from the frame
        """
        found: list[ByteBuffer] = []
        for made in self._buffers:
            masked = merged(made.masked)
            data = zeroed(made.data, masked) if masked else made.data
            first = not found
            found.append(
                ByteBuffer(
                    made.name, data, made.root, masked, segments if first else (), missing if first else 0
                )
            )
        return tuple(found)

    # ------------------------------------------------------------ fields
    def add(self, node: Node, path: str, parent: FieldNode, limit: int) -> FieldNode:
        """Add a field and everything in it.

        :param limit: start of what follows it
        """
        return self._add(node, path, parent, limit, parent.buffer, "")

    def _add(
        self,
        node: Node,
        path: str,
        parent: FieldNode,
        limit: int,
        buffer: int,
        holder: str,
        *,
        hidden: bool = False,
    ) -> FieldNode:
        """Add a field.

        :param holder: kind of the containing struct, inside a records field
        :param hidden: whether it is inside something masked
        """
        children = node.children
        name = node.name if isinstance(node.name, str) else f"[{node.name}]"
        name = name.removeprefix(_INNER_MESSAGE)
        incomplete = node.end < 0
        end = max(limit, node.start) if incomplete else node.end
        made = FieldNode(
            name, path, Role.FIELD, node.kind, None, buffer, node.start, end, incomplete=incomplete
        )
        made.parent, made.declared, made.leaf = parent, node.field, children is None
        if node.field is not None:
            made.doc = node.field.doc
        self.nodes[path] = made
        parent.children.append(made)
        parent.wire += 1
        hidden = hidden or path in self.masks
        if children is None:
            self._fill_leaf(made, node, hidden=hidden or self.masks.within(path))
        else:
            self._fill_struct(made, node, children, hidden=hidden)
        in_records = node.field is None and parent.kind in ("records", DECOMPRESSED)
        if holder or in_records or node.kind == DECOMPRESSED:
            self._name_part(made, node, holder)
        self._add_known(made, hidden=hidden)
        made.change = self._changes.beside(path)
        return made

    def _fill_leaf(self, made: FieldNode, node: Node, *, hidden: bool) -> None:
        if hidden or (node.name in _CUT_OFF and node.field is None and self._masked_beside(made)):
            made.masked = True
            self._buffers[made.buffer].masked.append((made.start, made.end))
            return
        made.value = node.value
        if node.field is not None and isinstance(node.value, int):
            domain = node.field.type.domain
            if domain is ERROR_CODE and node.value != 0:
                made.error = True
                for outer in made.ancestors():
                    outer.troubled = True
            made.note = _moment(domain, node.value)

    def _masked_beside(self, made: FieldNode) -> bool:
        holder = made.parent
        return holder is not None and self.masks.within(holder.path)

    def _fill_struct(self, made: FieldNode, node: Node, children: list[Node], *, hidden: bool) -> None:
        path, buffer, limit = made.path, made.buffer, made.end
        holder = batches.kind_of(node) if _is_part(node, made) else ""
        if node.buffer is not None:
            buffer, limit = len(self._buffers), len(node.buffer)
            self._buffers.append(_Bytes(f"{_place(made)} decompressed", node.buffer, made))
            made.opened = buffer
        ends = [after.start for after in children[1:]] + [limit]
        base = f"{path}.records[0]" if holder == "message" and not _is_inner_message(node) else path
        most = budget.limit("shown_fields")
        for at, child in enumerate(children):
            if len(self.nodes) >= most:
                left = len(children) - at
                made.note = f"{left:,} more are beyond the limit {budget.shown('shown_fields')}"
                break
            self._add(child, _path_of(node, child, path, base), made, ends[at], buffer, holder, hidden=hidden)
        if made.opened is not None and self._buffers[made.opened].masked:
            self._buffers[made.buffer].masked.append((made.start, made.end))

    def _name_part(self, made: FieldNode, node: Node, holder: str) -> None:
        """Set kind and note of a part of a records field."""
        if made.leaf or made.name == "records" or made.opened is not None:
            kind, made.doc = batches.meaning(holder, node.name)
            made.kind = kind if made.leaf else "records"
            if not made.masked:
                made.note = batches.note(holder, node.name, node.value) or self._in_log.note(made)
        else:
            made.kind = batches.kind_of(node)
            made.note = batches.about(made.kind, node, self._in_log.first(made))
        if node.name == "records":
            announced = _announced(made)
            if announced > len(made.children):
                made.note = f"{len(made.children):,} of {announced:,} records"

    # ------------------------------------------------------------ decoded content
    def _add_known(self, made: FieldNode, *, hidden: bool) -> None:
        decoded = self._decoded.get(made.path)
        guess = self._decoded.get(f"{made.path}#guess")
        if decoded is not None and has_parts(decoded):
            self._add_inner(decoded, made.path, made, 0)
            if isinstance(made.value, bytes) and not made.incomplete:
                locate(made, made.value)
        elif decoded is not None and not hidden:
            made.note = decoded if isinstance(decoded, str) else short(decoded)
        if guess is not None:
            made.note = f"{made.note} ({guess})".lstrip()

    def _add_inner(self, value: Any, path: str, parent: FieldNode, depth: int) -> None:
        for name, item in parts_of(value):
            here = f"{path}{name}" if name[:1] == "[" else f"{path}.{name}"
            deeper = has_parts(item) and depth < _DEEPEST
            node = FieldNode(name, here, Role.INNER, "", None, parent.buffer, parent.start, parent.end)
            node.leaf, node.parent = not deeper, parent
            node.masked = here in self.masks
            node.value = None if deeper or node.masked else _TOO_DEEP if has_parts(item) else item
            known = self._decoded.get(here)
            if isinstance(known, str):
                node.note = known
            self.nodes.setdefault(here, node)
            parent.children.append(node)
            if deeper and not node.masked:
                self._add_inner(item, here, node, depth + 1)


_INNER_MESSAGE = "messages"


def _is_part(node: Node, made: FieldNode) -> bool:
    """Return whether a struct is part of a records field: a batch, a record, a message or a header."""
    return node.field is None and node.kind in ("", DECOMPRESSED) and made.name != "records"


def _is_inner_message(node: Node) -> bool:
    """Return whether a message belongs to a compressed set, or contains one."""
    return isinstance(node.name, str) or any(child.buffer is not None for child in node.children or ())


def _path_of(node: Node, child: Node, path: str, base: str) -> str:
    """Return the path of a part as in annotations, where messages of formats 0 and 1 look like records."""
    if isinstance(child.name, str) and child.name.startswith(_INNER_MESSAGE):
        return f"{path.removesuffix('.value')}.records{child.name.removeprefix(_INNER_MESSAGE)}"
    return node.path_of(child, base)


def _announced(records: FieldNode) -> int:
    holder = records.parent
    counts = [child.value for child in holder.children if child.name == "records_count"] if holder else []
    return counts[0] if counts and isinstance(counts[0], int) else 0


def _place(made: FieldNode) -> str:
    """Return the name of decompressed records: the path of their batch or message, without the side."""
    path = made.path.partition(".")[2]
    return path.removesuffix(".records").removesuffix(".value")


def _moment(domain: Domain | None, value: int) -> str:
    if domain is None or domain.name_of(value) is not None or value < 0:
        return ""
    if domain.rest == "timestamp_ms":
        return words.moment(value)
    return words.duration(value) if domain.rest == "duration_ms" and value >= 1000 else ""


def locate(field: FieldNode, data: bytes) -> None:
    """Give the nodes below a bytes field their own byte ranges, types and meanings.

    :param field: has the decoded content as its children
    :param data: the encoded content, at the end of the field
    """
    content = "" if field.declared is None else field.declared.type.content
    traced = embedded.trace(content, data) if content else None
    if traced is not None:
        _locate(field, traced, field.end - len(data))


def _locate(holder: FieldNode, traced: Node, base: int) -> None:
    parts = {
        part.name if isinstance(part.name, str) else f"[{part.name}]": part for part in traced.children or ()
    }
    index = holder.start
    ordered = True
    for child in holder.children:
        part = parts.get(child.name)
        if part is None or part.end < 0 or not _same(child, part):
            ordered = False
            continue
        for node in child.walk():
            node.start, node.end = base + part.start, base + part.end
        ordered &= child.start >= index
        index = child.end
        child.kind, child.declared = part.kind, part.field
        child.doc = "" if part.field is None else part.field.doc
        _locate(child, part, base)
    if ordered:
        holder.wire = len(holder.children)


def _same(child: FieldNode, part: Node) -> bool:
    if child.masked or not child.leaf:
        return True
    return bool(_plain(part.to_value()) == _plain(child.value))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
