"""Explanations of one field: type, place, value, meaning, and advice on an error."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from dissectors.printable import is_printable, printable
from kproxy.text.values import advice_on, short
from kproxy.tui import safe
from kproxy.tui.detail.lines import whole
from kproxy.tui.detail.nodes import FieldNode, Role, SideDetail

_MOST = 2000
"""Most characters of a value that are shown."""
_IN_HEAD = 24
"""Most characters of a value in the first line."""


class FieldInfo(VerticalScroll, can_focus=False):
    """Lines about a field."""

    DEFAULT_CSS = """
    FieldInfo {
        height: 7;
        border-top: solid $panel;
        & > Static { height: auto; min-height: 100%; }
    }
    """

    def __init__(self) -> None:
        self._text = Static(markup=False)
        self._is_long = False
        super().__init__(self._text)

    def show(self, side: SideDetail | None, node: FieldNode | None) -> None:
        """Show the lines about a field; None for nothing."""
        lines = about(side, node) if side is not None and node is not None else []
        text = Content("\n").join(lines)
        # a layout of the screen is slow, and only needed for long texts
        width, height = self._text.size.width, self.size.height
        was_long = self._is_long
        self._is_long = width <= 0 or text.get_height({}, width) > height
        self._text.update(text, layout=was_long or self._is_long)
        if was_long:
            self.scroll_home(animate=False)


def about(side: SideDetail, node: FieldNode) -> list[Content]:
    """Return the lines about a field."""
    if node.role in (Role.COMMENT, Role.PROBLEM, Role.CHANGE):
        return [safe.plain(node.name)]
    text = node.text(_IN_HEAD) if node.leaf and _is_short(node) else ""
    kind = "bold $text-error" if node.error else "bold"
    head = Content.assemble(
        Content(printable(f"{node.name} {text}".rstrip())).stylize("bold"),
        Content(printable(f"  {node.note}")).stylize(kind) if node.note and node.kind != "frame" else "",
        _muted("  ".join(["", *filter(None, (node.kind, _place(side, node)))])),
    )
    found = [head]
    advice = advice_on(node.declared, node.value)
    found += [safe.plain(text) for text in (advice, node.doc) if text]
    if node.change:
        found.append(Content(printable(node.change.strip())).stylize("$text-warning"))
    domain = None if node.declared is None else node.declared.type.domain
    if domain is not None and domain.values and not advice:
        found.append(_muted(domain.doc))
    if not text:
        found += _value(node)
    if node.path:
        found.append(_muted(node.path))
    return found


def _is_short(node: FieldNode) -> bool:
    return not isinstance(node.value, str | bytes) or len(node.value) <= _IN_HEAD


def _value(node: FieldNode) -> list[Content]:
    """Return a long value, which the tree may have cut."""
    if not node.leaf or not isinstance(node.value, str | bytes):
        return []
    text = whole(node.value, _MOST)
    if isinstance(node.value, bytes) and not is_printable(text):
        text = short(node.value, _MOST)
    return [safe.plain(text)]


def _place(side: SideDetail, node: FieldNode) -> str:
    if node.end <= node.start:
        position = f"no bytes, at {node.start:,}"
    elif node.end == node.start + 1:
        position = f"byte {node.start:,}"
    else:
        position = f"bytes {node.start:,}-{node.end - 1:,}"
    if node.role is Role.INNER and node.parent is not None and not node.parent.wire:
        position = f"in {position}"
    if node.incomplete:
        position = f"{position}, incomplete"
    return position if node.buffer == 0 else f"{position} of {side.buffers[node.buffer].name}"


def _muted(text: str) -> Content:
    return Content(printable(text)).stylize("$text-muted")
