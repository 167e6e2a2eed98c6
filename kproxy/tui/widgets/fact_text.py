"""Labels and what they are about, line by line; what does not fit goes on below the text, not below the label."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

LABEL = 13
"""Cells that a label takes."""
BEHIND_LABEL = "\t"
"""Ends the label of a line; no text from the wire has it, once that is printable."""


class FactText(Static):
    """Shows lines; those with a label before a tab are indented by it."""

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._wrapped: tuple[Content, int, Content] | None = None

    def wrapped(self, width: int) -> Content:
        """Return the lines for so many cells."""
        content = self.content
        assert isinstance(content, Content | str)
        whole = Content(content) if isinstance(content, str) else content
        if self._wrapped is None or self._wrapped[0] is not whole or self._wrapped[1] != width:
            lines = [part for line in whole.split("\n") for part in _wrapped(line, width)]
            self._wrapped = whole, width, Content("\n").join(lines)
        return self._wrapped[2]

    def render(self) -> Content:
        """Return the lines for the room there is."""
        return self.wrapped(max(self.content_size.width, 1))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines there are."""
        return self.wrapped(max(width, 1)).plain.count("\n") + 1 if width else 0


def _wrapped(line: Content, width: int) -> list[Content]:
    at = line.plain.find(BEHIND_LABEL)
    if at < 0:
        return line.wrap(width)
    label, text = line[:at], line[at + 1 :]
    indent = min(max(LABEL, at + 1), width // 2)
    first, *more = text.wrap(width - indent)
    return [label.truncate(indent, pad=True) + first, *(each.pad_left(indent) for each in more)]
