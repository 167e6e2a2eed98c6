"""Lines of facts, with references to exchanges and incidents that lead there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content, Span
from textual.geometry import Region, Size
from textual.message import Message
from textual.style import Style
from textual.widgets import Static

from kproxy.tui.commands import Scope, bindings

LABEL = 13
"""Cells of a label."""
BEHIND_LABEL = "\t"
"""Ends the label of a line; escaped text from the wire never contains it."""
_REFERENCE = re.compile(r"(?<![^\s(])#([0-9]{1,15})\b")


def with_references(text: Content) -> Content:
    """Return text whose numbers of exchanges, such as ``#252``, can be clicked and chosen."""
    for found in _REFERENCE.finditer(text.plain):
        text = text.stylize(_link(int(found[1])), *found.span())
    return text


def with_incident(text: Content, incident: str) -> Content:
    """Return text whose first mention of an incident, by its ID, can be clicked and chosen."""
    begin = text.plain.find(incident)
    return text if begin < 0 else text.stylize(_link(incident), begin, begin + len(incident))


def _link(reference: int | str) -> Style:
    meta = {"@click": f"reference_open({reference!r})", "reference": reference}
    return Style(underline=True) + Style.from_meta(meta)


class FactText(Static, can_focus=True):
    """Lines of text; a label before a tab gets a column of its own.

    Keys choose one of the references, see :func:`with_references` and :func:`with_incident`.
    """

    ALLOW_MAXIMIZE = False  # but the pane that scrolls it
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.FACTS)]

    @dataclass
    class ReferenceEntered(Message):
        """A reference was chosen.

        :ivar reference: number of an exchange, or ID of an incident
        """

        reference: int | str

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._wrapped: tuple[Content, int, Content] | None = None
        self._reference = 0

    def wrapped(self, width: int) -> Content:
        """Return the lines wrapped to `width` cells."""
        content = self.content
        assert isinstance(content, Content | str)
        whole = Content(content) if isinstance(content, str) else content
        if self._wrapped is None or self._wrapped[0] is not whole or self._wrapped[1] != width:
            if self._wrapped is None or self._wrapped[0].plain != whole.plain:
                self._reference = 0
            lines = [part for line in whole.split("\n") for part in _wrapped(line, width)]
            self._wrapped = whole, width, Content("\n").join(lines)
        return self._wrapped[2]

    def line_count(self, width: int) -> int:
        """Return the number of lines at a width in cells."""
        return self.wrapped(max(width, 1)).plain.count("\n") + 1

    def render(self) -> Content:
        text, references = self._shown, self._references
        if self.has_focus and references:
            current = references[self._reference]
            text = text.stylize(Style(reverse=True), current.start, current.end)
        return text

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.line_count(width) if width else 0

    @property
    def _shown(self) -> Content:
        return self.wrapped(max(self.content_size.width, 1))

    @property
    def _references(self) -> list[Span]:
        return [each for each in self._shown.spans if isinstance(each.style, Style) and each.style.meta]

    def action_choose(self, step: int) -> None:
        """Move to the next or previous reference, and scroll to it."""
        references = self._references
        if references:
            self._reference = min(max(self._reference + step, 0), len(references) - 1)
            line = self._shown.plain.count("\n", 0, references[self._reference].start)
            if isinstance(self.parent, VerticalScroll):
                self.parent.scroll_to_region(Region(0, line, 1, 1), animate=False)
            self.refresh()

    def action_reference_enter(self) -> None:
        """Go to what the reference under the cursor names."""
        references = self._references
        if references:
            style = references[self._reference].style
            assert isinstance(style, Style)
            self.action_reference_open(style.meta["reference"])

    def action_reference_open(self, reference: int | str) -> None:
        self.post_message(self.ReferenceEntered(reference))


def _wrapped(line: Content, width: int) -> list[Content]:
    at = line.plain.find(BEHIND_LABEL)
    if at < 0:
        return line.wrap(width)
    label, text = line[:at], line[at + 1 :]
    indent = min(max(LABEL, at + 1), width // 2)
    first, *more = text.wrap(width - indent)
    return [label.truncate(indent, pad=True) + first, *(each.pad_left(indent) for each in more)]
