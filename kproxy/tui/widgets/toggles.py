"""Toggle widgets with a character for their state: Textual's own show it by colour alone."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip
from textual.widgets import Checkbox, RadioButton, SelectionList
from textual.widgets.option_list import OptionDoesNotExist

T = TypeVar("T")

_INNER = 1  # index of the segment between the sides of the box


class Check(Checkbox):
    """A box with a cross if on, empty if off."""

    def render(self) -> Content:
        self.BUTTON_INNER = "X" if self.value else " "
        return super().render()


class Radio(RadioButton):
    """A button that is filled if on, hollow if off."""

    SCOPED_CSS: ClassVar[bool] = False
    DEFAULT_CSS = """
    RadioSet > Radio > .toggle--button { color: $text-muted; }
    RadioSet > Radio.-on > .toggle--button { color: $text-success; }
    """

    def render(self) -> Content:
        self.BUTTON_INNER = "●" if self.value else "○"
        return super().render()


class Ticks(SelectionList[T]):
    """A list of boxes with a cross if ticked, empty if not."""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        try:
            ticked = self.get_option_at_index(self.scroll_offset.y + y).value in self.selected
        except OptionDoesNotExist:
            return strip
        segments = list(strip)
        segments[_INNER] = Segment("X" if ticked else " ", segments[_INNER].style)
        return Strip(segments, strip.cell_length)
