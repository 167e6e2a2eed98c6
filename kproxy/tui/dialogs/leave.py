"""Leaving the UI of a proxy: the clients still connected, and whether the proxy ends or continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from captures.meaning import words
from captures.time_format import span
from kproxy.text.tables import Column
from kproxy.tui.dialogs.base import Box, Dialog
from kproxy.tui.live.state import Connection
from kproxy.tui.safe import plain
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row, counted

_MOST_ROWS = 12


Leaving = Literal["end", "background"]
"""Whether the proxy ends, once requests in flight are answered, or continues without the UI."""


class Leave(Dialog[Leaving | None]):
    """A dialog that asks whether the proxy ends or continues. Returns None to stay.

    :param connections: the open connections
    :param held: number of held messages; they are released in any case
    :param run: name by which the proxy can be found again
    """

    DEFAULT_CSS = """
    Leave {
        & > .box { width: 100; max-width: 100%; }
        #question { height: auto; margin-bottom: 1; }
        RowTable { height: auto; max-height: 50vh; margin-bottom: 1; }
        OptionList {
            height: auto; padding: 0; border: none; background: transparent;
        }
    }
    """

    def __init__(
        self,
        connections: Sequence[Connection],
        *,
        held: int = 0,
        run: str = "",
    ) -> None:
        super().__init__()
        self._connections = connections
        self._held = held
        again = f" (kproxy attach --run {run} reopens it)" if run else ""
        self._answers: list[tuple[Leaving | None, str]] = [
            ("end", "end the proxy: requests in flight get their answers, then connections are closed"),
            ("background", f"leave it running in the background{again}"),
            (None, "stay"),
        ]

    def compose(self) -> ComposeResult:
        with Box("leave", "enter: choose   escape: stay"):
            yield Static(Content("\n").join(map(plain, self._question())), id="question")
            if self._connections:
                table = RowTable(_COLUMNS)
                table.styles.height = 1 + min(len(self._connections), _MOST_ROWS)
                yield table
            yield OptionList(*(Option(plain(label)) for _, label in self._answers), compact=True)

    def _question(self) -> list[str]:
        count = len(self._connections)
        in_flight = sum(each.in_flight for each in self._connections)
        parts = [
            f"{words.counted(count, 'connection')} open through this proxy, "
            f"{words.counted(in_flight, 'request')} in flight."
            if count
            else "No connections are open through this proxy."
        ]
        if self._held:
            parts.append(f"{words.counted(self._held, 'message')} held; they are released when the UI ends.")
        return parts

    def on_mount(self) -> None:
        if self._connections:
            self.query_one(RowTable).set_rows([_row(each) for each in self._connections])
        answers = self.query_one(OptionList)
        # pressing Enter once too often must not end connections
        answers.highlighted = len(self._answers) - 1 if self._connections else 0
        answers.focus()

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._answers[event.option_index][0])


_COLUMNS = [
    Column("client", least=12),
    Column("address", least=14, rank=2),
    Column("broker", least=14, rank=1),
    Column("in flight", right=True),
    Column("held", right=True),
    Column("open for", right=True, rank=3),
]


def _row(connection: Connection) -> Row:
    return Row(
        connection.number,
        (
            connection.client_id or Cell("(not known yet)", Role.MUTED),
            connection.client,
            connection.broker,
            counted(connection.in_flight),
            counted(connection.held, Role.WARNING),
            Cell(span(connection.age), Role.MUTED, connection.age),
        ),
    )
