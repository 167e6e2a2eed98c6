"""The lines of a tree: which fields are unfolded, by default and by the user.

Lines are made only for unfolded fields, so a frame of ten thousand fields costs no more than its visible part.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from enum import Enum

from kproxy.tui.detail.lines import preview
from kproxy.tui.detail.nodes import FieldNode, SideDetail

ELEMENTS = 10
"""Number of elements of a large array shown at first."""
ROOM = 40
"""Approximate number of lines of a tree at first."""
_MANY = ELEMENTS * 2
_FEW = 3
_FOLDED_AT_FIRST = frozenset({"record", "message", "record header"})


class Fold(Enum):
    """How much below a field is shown."""

    FOLDED = "nothing"
    FIRST = "the first elements"
    OPEN = "all, folded"
    DEEP = "all, unfolded"


@dataclass(slots=True, eq=False)
class Line:
    """A line of the tree.

    :ivar node: its field
    :ivar depth: nesting level
    :ivar more: number of hidden elements of the node, which this line states; 0 on other lines
    """

    node: FieldNode
    depth: int
    more: int = 0


class FoldedLines:
    """The lines of one side.

    :param wished: the user's folds by path; updated here
    :param room: number of lines to fill by default
    """

    def __init__(self, side: SideDetail, wished: MutableMapping[str, Fold], room: int = ROOM) -> None:
        self._wished = wished
        self._folds: dict[FieldNode, Fold] = {}
        self._places: dict[FieldNode, int] | None = None
        self.lines: list[Line] = []
        if side.root is None:
            return
        for path, fold in wished.items():
            node = side.nodes.get(path)
            if node is not None:
                self._folds[node] = fold
        self._unfold_by_default(side.root, room)
        self.lines.append(Line(side.root, 0))
        self._append_below(self.lines, side.root, 1, deep=False)

    def fold_of(self, node: FieldNode) -> Fold:
        own = self._folds.get(node)
        if own is not None:
            return own
        return (
            Fold.OPEN
            if any(self._folds.get(outer) is Fold.DEEP for outer in node.ancestors())
            else Fold.FOLDED
        )

    def wish(self, node: FieldNode, fold: Fold) -> None:
        """Fold or unfold a field, here and in every exchange with the same path."""
        if node.path:
            self._wished[node.path] = fold
        self.set(node, fold)

    def set(self, node: FieldNode, fold: Fold) -> None:
        """Fold or unfold a field in this tree."""
        self._folds[node] = fold
        if fold is Fold.DEEP:
            for inner in node.walk():
                if inner is not node:
                    self._folds.pop(inner, None)
        at = self.line_of(node)
        if at is None:
            return
        depth = self.lines[at].depth
        end = at + 1
        while end < len(self.lines) and self.lines[end].depth > depth:
            end += 1
        below: list[Line] = []
        deep = any(self._folds.get(outer) is Fold.DEEP for outer in node.ancestors())
        self._append_below(below, node, depth + 1, deep=deep)
        self.lines[at + 1 : end] = below
        self._places = None

    def line_of(self, node: FieldNode) -> int | None:
        """Return the line of a field, None if it is folded away."""
        if self._places is None:
            self._places = {line.node: at for at, line in enumerate(self.lines) if not line.more}
        return self._places.get(node)

    def reveal(self, node: FieldNode) -> int:
        """Unfold the ancestors of a field, and return its line; 0 if it has none."""
        at = self.line_of(node)
        if at is not None:
            return at
        inner = node
        steps: list[tuple[FieldNode, FieldNode]] = []
        for outer in node.ancestors():
            steps.append((outer, inner))
            inner = outer
        for outer, inner in reversed(steps):
            if self.line_of(inner) is None:
                first = inner in outer.children[:ELEMENTS] or inner in outer.remarks
                self.set(outer, Fold.FIRST if first and len(outer.children) > _MANY else Fold.OPEN)
        return self.line_of(node) or 0

    # ------------------------------------------------------------ lines
    def _unfold_by_default(self, root: FieldNode, room: int) -> None:
        self._folds.setdefault(root, Fold.OPEN)
        used = 1 + _shown(root)
        waiting = deque(_to_unfold(root))
        while waiting:
            node = waiting.popleft()
            fold = self._folds.get(node)
            if fold is None:
                if used + _shown(node) > room or not _worth_unfolding(node):
                    continue
                fold = self._folds[node] = Fold.OPEN if len(node.children) <= _MANY else Fold.FIRST
            if fold is not Fold.FOLDED:
                used += _shown(node)
                waiting.extend(_to_unfold(node))

    def _append_below(self, out: list[Line], node: FieldNode, depth: int, *, deep: bool) -> None:
        fold = self._folds.get(node, Fold.OPEN if deep else Fold.FOLDED)
        if fold is Fold.FOLDED:
            return
        deep = deep or fold is Fold.DEEP
        shown = node.children[:ELEMENTS] if fold is Fold.FIRST else node.children
        out.extend(Line(remark, depth) for remark in node.remarks)
        for child in shown:
            out.append(Line(child, depth))
            if child.children:
                self._append_below(out, child, depth + 1, deep=deep)
        if len(shown) < len(node.children):
            out.append(Line(node, depth, len(node.children) - len(shown)))


def _shown(node: FieldNode) -> int:
    """Return the number of lines below a field that is unfolded by default."""
    count = len(node.children)
    return len(node.remarks) + (count if count <= _MANY else ELEMENTS + 1)


def _to_unfold(node: FieldNode) -> Iterator[FieldNode]:
    shown = node.children if len(node.children) <= _MANY else node.children[:ELEMENTS]
    return (child for child in shown if child.children)


def _worth_unfolding(node: FieldNode) -> bool:
    """Return whether unfolding a field by default shows more than its own line does."""
    if node.name == "header" or node.kind in _FOLDED_AT_FIRST:
        return False
    if node.index is None or node.leaf or node.troubled or node.incomplete:
        return True
    few = node.parent is not None and len(node.parent.children) <= _FEW
    return few or not preview(node)[1]
