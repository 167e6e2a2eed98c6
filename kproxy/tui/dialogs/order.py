"""The dialog for the order of the list."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kproxy.session.published import Order
from kproxy.text.cells import fit
from kproxy.tui.columns import COLUMNS, Column, column, field_names, field_problem
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.dialogs.base import Box, ListDialog
from kproxy.tui.profiles import Profile
from kproxy.tui.safe import plain

_BY_NUMBER = "number"


def orders(profile: Profile) -> list[Column]:
    """Return the columns that the list can be sorted by, one per order, the shown ones first."""
    columns = [column(each.column) for each in profile.columns] + list(COLUMNS.values())
    found: dict[str, Column] = {}
    for each in columns:
        if each.order:
            found.setdefault(each.order, each)
    return list(found.values())


class OrderDialog(ListDialog[Order | None]):
    """A dialog for choosing an order. Returns it, None after escape.

    :param profile: the shown columns
    :param order: current order, None for by number
    """

    DEFAULT_CSS = """
    OrderDialog {
        & > .box { width: 72; height: 100%; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "falling", "largest first"),
        Binding("plus", "field", "by a field"),
    ]

    def __init__(self, profile: Profile, order: Order | None) -> None:
        super().__init__()
        self._columns = orders(profile)
        self._order = order or Order(_BY_NUMBER)

    def compose(self) -> ComposeResult:
        with Box("order by", "enter: sort, twice: reverse   v: largest first   +: a field") as box:
            box.styles.max_height = len(self._columns) + 2
            yield OptionList(*(Option(plain(self._label(each))) for each in self._columns), compact=True)

    def on_mount(self) -> None:
        """Highlight the current order."""
        names = [each.order for each in self._columns]
        self._list.highlighted = names.index(self._order.column) if self._order.column in names else 0

    def _label(self, each: Column) -> str:
        arrow = " "
        if each.order == self._order.column:
            arrow = "▼" if self._order.descending else "▲"
        return f"{arrow} {fit(each.id, 16)} {each.doc}"

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        name = self._columns[event.option_index].order
        turned = name == self._order.column and not self._order.descending
        self.dismiss(Order(name, descending=turned))

    def action_falling(self) -> None:
        self.dismiss(Order(self._columns[self._index].order, descending=True))

    def action_field(self) -> None:
        self.app.push_screen(
            Prompt(
                "Name of a field, or the path of one. Every exchange in the list is decoded for it.",
                validate=field_problem,
                completions=field_names,
                title="order by a field",
            ),
            self._by_field,
        )

    def _by_field(self, name: str | None) -> None:
        if name is not None:
            self.dismiss(Order(name))
