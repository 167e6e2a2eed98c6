"""Boxes and buttons to be switched on, whose character says whether they are: Textual's own tell it by colour alone."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.widgets import Checkbox, RadioButton


class Check(Checkbox):
    """A box with a cross where it is on, empty where it is off."""

    def render(self) -> Content:
        """Return button and label."""
        self.BUTTON_INNER = "X" if self.value else " "
        return super().render()


class Radio(RadioButton):
    """A button that is filled where it is on, hollow where it is off."""

    SCOPED_CSS: ClassVar[bool] = False
    DEFAULT_CSS = """
    RadioSet > Radio > .toggle--button { color: $text-muted; }
    RadioSet > Radio.-on > .toggle--button { color: $text-success; }
    """

    def render(self) -> Content:
        """Return button and label."""
        self.BUTTON_INNER = "●" if self.value else "○"
        return super().render()
