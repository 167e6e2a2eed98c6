"""The answer to a question: lines of text that can be searched, and that lead to the exchanges they mention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from kproxy.text.blocks import Line
from kproxy.text.tables import Column
from kproxy.tui.dialogs.base import Box, Dialog
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Row


class AnswerDialog(Dialog[int | None]):
    """A dialog that shows an answer. Returns the number of an exchange to go to, None if it is closed.

    :param title: the question; may contain text from the wire
    :param lines: of the answer
    """

    DEFAULT_CSS = """
    AnswerDialog {
        & > .box { width: 100%; height: 100%; }
        RowTable { height: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "dismiss", "close")]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Box(self._title, "enter: the exchange of the line, q: close"):
            table = RowTable([Column("")], empty="Nothing to show.")
            table.set_rows(
                [Row(index, (line,), leads_to=line.number) for index, line in enumerate(self._lines)]
            )
            yield table

    @on(RowTable.RowEntered)
    def _entered(self, message: RowTable.RowEntered) -> None:
        row = message.table.selected
        if row is not None and isinstance(row.leads_to, int):
            self.dismiss(row.leads_to)
