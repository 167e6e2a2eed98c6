"""Where in a bytes field lies what is known to be in it, such as the topics of a subscription.

What was decoded comes from the annotations, which know the conversation; where it lies comes from a trace of the bytes
alone. The two are put together only where they agree.
"""

from __future__ import annotations

from typing import Any

from dissectors import embedded
from dissectors.trace import Node
from kproxy.tui.detail.nodes import FieldNode


def locate(field: FieldNode, data: bytes) -> None:
    """Give what is below a bytes field its own bytes, types and meanings.

    :param field: with what is known of it as its children
    :param data: its bytes, the last of the field
    """
    content = "" if field.declared is None else field.declared.type.content
    traced = embedded.trace(content, data) if content else None
    if traced is not None:
        _locate(field, traced, field.end - len(data))


def _locate(holder: FieldNode, traced: Node, base: int) -> None:
    parts = {
        part.name if isinstance(part.name, str) else f"[{part.name}]": part for part in traced.children or ()
    }
    place = holder.start
    ordered = True
    for child in holder.children:
        part = parts.get(child.name)
        if part is None or part.end < 0 or not _same(child, part):
            ordered = False
            continue
        for node in child.walk():
            node.start, node.end = base + part.start, base + part.end
        ordered &= child.start >= place
        place = child.end
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
