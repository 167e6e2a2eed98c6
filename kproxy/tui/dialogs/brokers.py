"""The brokers behind the proxy: addresses advertised and addresses for clients, and whether they are reachable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from kproxy.text.control import brokers_table
from kproxy.tui.dialogs.base import Box, Dialog
from kproxy.tui.safe import plain
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row

_MOST_ROWS = 20


class BrokersDialog(Dialog[None]):
    """A table of brokers. Returns nothing.

    :param answer: of the proxy to the command ``brokers`` (docs/ctl.md)
    """

    DEFAULT_CSS = """
    BrokersDialog {
        & > .box { width: 110; max-width: 100%; }
        RowTable { height: auto; max-height: 60vh; }
        Static { height: auto; margin-top: 1; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "dismiss", "close")]

    def __init__(self, answer: Sequence[Mapping[str, Any]]) -> None:
        super().__init__()
        self._table = brokers_table(answer)

    def compose(self) -> ComposeResult:
        with Box(f"brokers: {len(self._table.rows):,}", "q: close"):
            table = RowTable(self._table.columns, empty="No broker is known yet.")
            table.styles.height = 1 + min(max(len(self._table.rows), 1), _MOST_ROWS)
            table.set_rows(
                [
                    Row(
                        index,
                        tuple(Cell(cell, Role.ERROR if row.below else Role.PLAIN) for cell in row.cells),
                    )
                    for index, row in enumerate(self._table.rows)
                ]
            )
            yield table
            reasons = [f"{' '.join(row.cells[:-4])}: {why}" for row in self._table.rows for why in row.below]
            if reasons:
                yield Static(Content("\n").join(map(plain, reasons)))
