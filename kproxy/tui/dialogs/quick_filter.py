"""The dialog of the key ``!``: filters made from the selection, and how to use the chosen one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from dissectors.printable import printable
from kproxy.text.cells import cut
from kproxy.tui.dialogs.base import Box, ListDialog
from kproxy.tui.quick_filters import QuickFilter, Use, combined
from kproxy.tui.safe import plain

_LONGEST_LABEL = 60


class QuickFilterDialog(ListDialog[tuple[QuickFilter, Use] | None]):
    """A list of filters. Returns the chosen one with its use, None after escape.

    :param offers: the filters, the best first
    :param present: current filter, empty if there is none
    """

    DEFAULT_CSS = """
    QuickFilterDialog {
        & > .box { width: 76; }
        OptionList { width: 100%; height: auto; max-height: 60vh; }
        #result { height: 2; margin-top: 1; color: $text-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o,enter", "use('ONLY')", "only", tooltip="Show only what matches."),
        Binding("h,exclamation_mark", "use('HIDE')", "hide", tooltip="Hide what matches."),
        Binding("a", "use('ALSO')", "also", tooltip="Show what matches as well as what is shown now."),
        Binding("r", "use('REPLACE')", "replace", tooltip="Replace the current filter."),
    ]

    def __init__(self, offers: Sequence[QuickFilter], present: str = "") -> None:
        super().__init__()
        self._offers = offers
        self._present = present

    def compose(self) -> ComposeResult:
        keys = "enter/o only  h hide  a also  r replace" if self._present else "enter/o only  h hide"
        with Box("quick filter", keys):
            yield OptionList(
                *(Option(Content(cut(printable(offer.label), _LONGEST_LABEL))) for offer in self._offers),
                compact=True,
            )
            yield Static("", id="result")

    def on_mount(self) -> None:
        if self._offers:
            self.query_one(OptionList).highlighted = 0
        else:
            self.query_one("#result", Static).update(Content("no filter can be made from this"))

    @property
    def _highlighted(self) -> QuickFilter | None:
        index = self.query_one(OptionList).highlighted
        return None if index is None else self._offers[index]

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        offer = self._offers[event.option_index]
        only = combined(self._present, offer.text, Use.ONLY)
        self.query_one("#result", Static).update(plain(only))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Use a filter that was clicked, or chosen by Enter."""
        event.stop()
        self.dismiss((self._offers[event.option_index], Use.ONLY))

    def action_use(self, name: str) -> None:
        offer, use = self._highlighted, Use[name]
        if offer is not None and (self._present or use in (Use.ONLY, Use.HIDE)):
            self.dismiss((offer, use))
