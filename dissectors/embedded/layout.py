"""Declared messages inside bytes fields: one description, read as a value or as a tree.

A :class:`Layout` names the declaration of a run of bytes, whether a version precedes the fields, and
which fields contain further layouts. :func:`read` returns the value by the generated decoder, :func:`trace`
the tree with byte ranges; both keep the intact part if the rest is malformed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dissectors import wire
from dissectors.embedded.model import EmbeddedProblem, EmbeddedValue, inside, join, problem_of
from dissectors.embedded.secrets import describe
from dissectors.errors import DecodeError
from dissectors.masks import UNDECODED
from dissectors.message_version import MessageVersion
from dissectors.schema import Message
from dissectors.trace import Node
from dissectors.visitor import replaced


class Layout(msgspec.Struct, frozen=True):
    """How to read a run of bytes.

    :ivar message: the declaration
    :ivar version: version in which it is read
    :ivar asked: version announced by the bytes; higher than ``version`` if a newer release wrote them
    :ivar prefixed: an int16 with ``asked`` precedes the fields and is not a field itself
    :ivar inside: layouts of top-level bytes fields, chosen by their content; None leaves the bytes as they are
    :ivar texts: bytes fields, at any depth, that hold text
    :ivar note: remark about this reading, instead of the usual note on unknown versions
    """

    message: Message
    version: int
    asked: int
    prefixed: bool = True
    inside: Mapping[str, Callable[[bytes], Layout | None]] = {}
    texts: frozenset[str] = frozenset()
    note: str = ""

    @property
    def label(self) -> str:
        """Name and announced version: ``ConsumerProtocolAssignment v0``."""
        return f"{self.message.name} v{self.asked}"

    @property
    def guess(self) -> str:
        """Why another version is read than announced, or empty."""
        if self.note or self.asked == self.version:
            return self.note
        return f"version {self.asked} is not known here, read as {self.version}"

    @property
    def start(self) -> int:
        """Offset of the first field."""
        return wire.INT16.size if self.prefixed else 0

    def with_text(self, member: wire.Member, value: Any, _: object) -> Any:
        """Return the value of a field, decoded if it holds text."""
        return _text(value) if member.name in self.texts and isinstance(value, bytes) else value

    @property
    def con(self) -> MessageVersion:
        """The construct of the fields."""
        return self.message[self.version]


def prefixed(message: Message, data: bytes, **more: Any) -> Layout | None:
    """Return the layout of ``data``, an int16 version followed by ``message``; None if it cannot be one.

    Versions above the known ones are read as the newest known version, as Kafka's own readers do.
    """
    if len(data) < wire.INT16.size:
        return None
    asked, _ = wire.INT16.read(data, 0)
    if asked < message.versions.first:
        return None
    return Layout(message, message.nearest(asked), asked, **more)


class LayoutValue(msgspec.Struct):
    """The result of :func:`read`.

    :ivar value: the fields, as far as they could be read
    :ivar problems: what was wrong
    :ivar parts: path, layout and value of the message itself and of each message inside it
    """

    value: dict[str, Any]
    problems: list[EmbeddedProblem]
    parts: list[tuple[str, Layout, dict[str, Any]]]


def read(layout: Layout, data: bytes) -> LayoutValue:
    """Read ``data``; never raises for malformed bytes."""
    problems: list[EmbeddedProblem] = []
    value, end = _fields(layout, data, problems)
    if layout.prefixed:
        value = {"version": layout.asked, **value}
    if layout.texts:
        value = replaced(layout.con.struct, value, layout.with_text)
    parts = [("", layout, value)]
    for name, choose in layout.inside.items():
        content = value.get(name)
        inner = choose(content) if content else None
        if inner is not None and content is not None:
            part = read(inner, content)
            value[name] = part.value
            parts += [(join(name, path), below, item) for path, below, item in part.parts]
            if part.problems:
                problems += inside(name, part.problems, _offset(layout, data, name, len(content)))
    if end < len(data):
        value[UNDECODED] = data[end:]
        if layout.asked == layout.version and not problems:
            problems.append((end, "", f"{len(data) - end} bytes left over after {layout.label}"))
    return LayoutValue(value, problems, parts)


def embedded(layout: Layout, data: bytes, *, guess: str = "", show_secrets: bool = False) -> EmbeddedValue:
    """Read ``data`` for display, with secrets masked and enumerated values named."""
    reading = read(layout, data)
    masked: list[str] = []
    names: dict[str, str] = {}
    guesses = [guess]
    for path, part, value in reading.parts:
        secret, named = describe(part.con.struct, value, show_secrets=show_secrets)
        masked += [join(path, where) for where in secret]
        names.update({join(path, where): name for where, name in named.items()})
        guesses.append(f"{path}: {part.guess}" if path and part.guess else part.guess)
    return EmbeddedValue(
        reading.value,
        layout.label,
        layout.asked,
        tuple(reading.problems),
        tuple(masked),
        "; ".join(filter(None, guesses)),
        names,
    )


def trace(layout: Layout, data: bytes, name: str = "") -> Node:
    """Return the tree of ``data``; byte ranges count from its first byte."""
    traced = layout.con.trace(data, layout.start)
    root = Node(name, 0, "struct")
    root.end = len(data)
    if layout.prefixed:
        version = root.add(Node("version", 0, wire.INT16.kind))
        version.value, version.end = layout.asked, wire.INT16.size
    for child in traced.root.children or ():
        root.add(child)
        if layout.texts:
            _text_nodes(child, layout.texts)
        choose = layout.inside.get(str(child.name))
        if choose is not None and child.end >= 0 and child.value:
            _trace_inside(child, choose(child.value))
    if traced.end < len(data):
        rest = root.add(Node(UNDECODED, traced.end, "bytes"))
        rest.value, rest.end = data[traced.end :], len(data)
    return root


def exact(layout: Layout, data: bytes) -> bool:
    """Return whether the layout accounts for every byte without error, inner layouts included."""
    reading = read(layout, data)
    return not reading.problems and UNDECODED not in reading.value


def _fields(layout: Layout, data: bytes, problems: list[EmbeddedProblem]) -> tuple[dict[str, Any], int]:
    try:
        return layout.con.decode(data, layout.start)
    except DecodeError as error:
        problems.append(problem_of(error))
        traced = layout.con.trace(data, layout.start)
        return traced.root.to_value() or {}, traced.end


def _offset(layout: Layout, data: bytes, name: str, size: int) -> int:
    """Return the position of the content of a top-level bytes field, -1 if the trace does not reach it."""
    for child in layout.con.trace(data, layout.start).root.children or ():
        if child.name == name and child.end >= 0:
            return child.end - size
    return -1


def _trace_inside(node: Node, inner: Layout | None) -> None:
    if inner is None:
        return
    content = node.value
    tree = trace(inner, content)
    tree.shift(node.end - len(content))
    node.children, node.value = tree.children, None


def _text_nodes(node: Node, names: frozenset[str]) -> None:
    for _, below in node.walk():
        if below.name in names and isinstance(below.value, bytes):
            below.value = _text(below.value)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
