"""Leaving the UI of a proxy: the clients still connected, and whether the proxy ends or continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from captures.meaning import words
from captures.time_format import span
from kproxy.text.tables import Column
from kproxy.tui.dialogs.ask import Answer, Ask
from kproxy.tui.live.state import Connection
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row, counted

_MOST_ROWS = 12


Leaving = Literal["end", "background"]
"""Whether the proxy ends, once requests in flight are answered, or continues without the UI."""


class Leave(Ask[Leaving | None]):
    """A dialog that asks whether the proxy ends or continues. Returns None to stay.

    :param connections: the open connections
    :param held: number of held messages; they are released in any case
    :param run: name by which the proxy can be found again
    """

    DEFAULT_CSS = """
    Leave {
        & > .box { width: 100; }
        #question { max-width: 100%; }
        RowTable { height: auto; max-height: 50vh; margin-bottom: 1; }
    }
    """

    def __init__(self, connections: Sequence[Connection], *, held: int = 0, run: str = "") -> None:
        again = f" (kproxy attach --run {run} reopens it)" if run else ""
        table = None
        if connections:
            table = RowTable(_COLUMNS)
            table.styles.height = 1 + min(len(connections), _MOST_ROWS)
            table.set_rows([_row(each) for each in connections])
        super().__init__(
            _question(connections, held),
            [
                Answer("end", "end the proxy after requests in flight are answered"),
                Answer("background", f"leave it running in the background{again}"),
                Answer(None, "stay"),
            ],
            title="leave",
            chosen=2 if connections else 0,  # pressing Enter once too often must not end connections
            between=table,
        )


def _question(connections: Sequence[Connection], held: int) -> str:
    in_flight = sum(each.in_flight for each in connections)
    parts = [
        f"{words.counted(len(connections), 'connection')} open through this proxy, "
        f"{words.counted(in_flight, 'request')} in flight."
        if connections
        else "No connections are open through this proxy."
    ]
    if held:
        parts.append(f"{words.counted(held, 'message')} held; they are released when the UI ends.")
    return "\n".join(parts)


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
