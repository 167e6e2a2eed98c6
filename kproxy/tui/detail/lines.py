"""A field as one line of the tree: pieces of text, each with its class."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from kproxy.tui.detail.nodes import FieldNode, Role

_PREVIEW = 90
"""Characters of the preview of a folded field."""
_PREVIEW_VALUE = 40
"""Characters of one value in a preview."""


class Class(StrEnum):
    """The class of a piece of text, or of a byte; widgets choose the colours."""

    NAME = "name"
    NUMBER = "number"
    TEXT = "text"
    DATA = "data"
    NOTE = "note"
    ERROR = "error"
    CHANGE = "change"
    COMMENT = "comment"
    MUTED = "muted"
    STRUCTURE = "structure"


_SEARCHED = 1 << 16
"""Characters of a value that are searched."""

Piece = tuple[str, Class]

_REMARKS = {Role.COMMENT: Class.COMMENT, Role.PROBLEM: Class.ERROR, Role.CHANGE: Class.CHANGE}
_HIDDEN_NAMES = frozenset(
    {"size", "length", "attributes", "crc", "key_length", "value_length", "headers_count"}
)
"""Fields that a preview leaves out."""
_DELTAS = frozenset({"offset_delta", "timestamp_delta"})
"""Fields whose notes say more than their values; the time of each record would leave no room for the rest."""


def value_class(node: FieldNode) -> Class:
    """Return the class of a leaf's value."""
    if node.error:
        return Class.ERROR
    if node.masked or node.value is None:
        return Class.MUTED
    if isinstance(node.value, str):
        return Class.TEXT
    return Class.DATA if isinstance(node.value, bytes) else Class.NUMBER


def byte_class(node: FieldNode) -> Class:
    """Return the class of a field's bytes; a struct's own bytes are lengths, counts and tags."""
    return value_class(node) if node.leaf else Class.STRUCTURE


def pieces(node: FieldNode, *, folded: bool) -> list[Piece]:
    """Return the line of a field.

    :param folded: whether to summarise the fields inside
    """
    if node.role in _REMARKS:
        return [(f"{node.role.value} {node.name}", _REMARKS[node.role])]
    found: list[Piece] = []
    if node.role is Role.INNER:
        found.append(("= ", Class.MUTED))
    found.append((node.name, Class.NAME))
    text = node.text()
    if text:
        found.append((f" {text}", value_class(node) if node.leaf else Class.MUTED))
    if node.note:
        # the name of an ID says more than the ID, so it must not be cut off
        at = 1 if node.kind == "uuid" else len(found)
        found.insert(at, (f"  {node.note}", Class.ERROR if node.error else Class.NOTE))
    if node.change:
        found.append((node.change, Class.CHANGE))
    if node.incomplete and node.value is not None:
        found.append(("  (incomplete)", Class.ERROR))
    if folded and not node.leaf:
        if node.troubled:
            found.append(("  ! error inside", Class.ERROR))
        if node.parent is not None and not node.note:
            found.append((f"  {preview(node)[0]}", Class.MUTED))
    return found


def preview(node: FieldNode) -> tuple[str, bool]:
    """Return a short text of the fields inside, and whether it is complete."""
    words: list[str] = []
    complete, taken = True, 0
    for text in _previews(node):
        if taken + len(text) > _PREVIEW:
            words.append("…")
            return "  ".join(words), False
        words.append(text)
        taken += len(text) + 2
    for child in node.children:
        complete &= not child.below and not child.change and child.name not in _HIDDEN_NAMES
    return "  ".join(words), complete


def _previews(node: FieldNode) -> Iterator[str]:
    for child in node.children:
        if child.name in _HIDDEN_NAMES:
            continue
        if child.name in _DELTAS and child.note:
            if child.name == "offset_delta":
                yield child.note
            continue
        name = "" if child.index is not None else f"{child.name} "
        if child.leaf or child.kind in ("array", "records"):
            note = f" {child.note}" if child.note and child.leaf else ""
            yield f"{name}{child.text(_PREVIEW_VALUE)}{note}"
        elif child.index is not None:
            yield preview(child)[0]


def searched(node: FieldNode) -> str:
    """Return the text of a field for searches: its line, and the value that the line may cut off."""
    line = "".join(text for text, _ in pieces(node, folded=False))
    return f"{line}\n{whole(node.value, _SEARCHED)}" if isinstance(node.value, str | bytes) else line


def whole(value: str | bytes, most: int) -> str:
    """Return a value as text, without quotes; bytes that are not UTF-8 are replaced.

    :param most: maximum length in characters, or bytes
    """
    return value[:most] if isinstance(value, str) else value[:most].decode("utf-8", "replace")
