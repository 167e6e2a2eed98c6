"""Replay from the UI: choosing brokers, showing the plan, progress and differing responses.

Nothing is sent before the plan is shown. A single replayed request opens the comparison of its responses at once;
several are listed in a table first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import ContentSwitcher, Input, ProgressBar, Static

from captures.meaning import words
from dissectors.apis import api_name
from kproxy.addresses import addresses
from kproxy.output import notice
from kproxy.proxy.tls.properties import PropertiesError, client_config, read_properties
from kproxy.proxy.tls.security import PLAINTEXT, Security
from kproxy.replay import permission
from kproxy.replay.pace import speed_of
from kproxy.replay.plan import PlanRow
from kproxy.session import Session
from kproxy.text.replay import closing_sentences, plan_sentences
from kproxy.text.tables import Column
from kproxy.tui.dialogs.base import Box, Dialog, fault_of
from kproxy.tui.dialogs.comparison import milliseconds_cell, replayed_comparison, verdict
from kproxy.tui.live.replay import (
    CollectedRequests,
    ReplayChoices,
    ReplayedExchange,
    ReplayError,
    ReplayPlan,
    ReplayRun,
    collecting,
    planned,
)
from kproxy.tui.safe import plain
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row, counted

ASK, PLAN, RESULTS = "ask", "plan", "results"

_TICK = 0.2  # seconds
_SUBTITLES = {
    ASK: "enter: plan   tab: next field   escape: close",
    PLAN: "enter: send   escape: back",
    RESULTS: "enter: compare   escape: stop or close",
}


class ReplayDialog(Dialog[str]):
    """A dialog that replays exchanges. Returns the typed brokers, as the initial text of the next one; empty for none.

    :param numbers: of the exchanges
    :param brokers: initial text, ``host:port,...``
    """

    DEFAULT_CSS = """
    ReplayDialog {
        & > .box { width: 96%; max-width: 150; height: auto; }
        ContentSwitcher { height: auto; max-height: 100%; }
        #ask, #plan, #results, #writes { height: auto; max-height: 100%; }
        #ask { overflow-y: auto; }
        Input { padding: 0; background: $boost; margin-bottom: 1; }
        RowTable { height: auto; max-height: 50vh; }
        #about { height: auto; margin-bottom: 1; }
        #plan-text, #results-text { height: auto; max-height: 6; margin-top: 1; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back"),
        Binding("enter", "next", "next"),
    ]

    def __init__(self, session: Session, numbers: Sequence[int], brokers: str = "") -> None:
        super().__init__()
        self._session = session
        self._numbers = numbers
        self._brokers = brokers
        self._collected: CollectedRequests | None = None
        self._planned: ReplayPlan | None = None
        self._replaying: ReplayRun | None = None
        self._shown = -1
        self._running = False

    def compose(self) -> ComposeResult:
        with Box(f"replay {words.counted(len(self._numbers), 'exchange')}", _SUBTITLES[ASK]):
            with ContentSwitcher(initial=ASK):
                with Vertical(id=ASK):
                    yield Static(id="about")
                    yield Static("Brokers to send to, host:port,...")
                    yield Input(self._brokers, "localhost:9092", id="brokers", compact=True)
                    yield Static(
                        "Speed: 1 as recorded, 10 ten times as fast, max as fast as responses arrive"
                    )
                    yield Input("max", id="speed", compact=True)
                    yield Static("Kafka client properties for TLS and SASL: a file, or nothing")
                    yield Input("", "client.properties", id="config", compact=True)
                    with Vertical(id="writes"):
                        yield Static(id="writing")
                        yield Input("", "none of them", id="allow", compact=True)
                with Vertical(id=PLAN):
                    yield RowTable(_PLAN, empty="Nothing can be sent.", id="plan-table")
                    yield Static(id="plan-text")
                with Vertical(id=RESULTS):
                    yield ProgressBar(show_eta=False)
                    yield RowTable(_RESULTS, empty="No responses yet.", id="results-table")
                    yield Static(id="results-text")
            yield Static(id="problem")

    def on_mount(self) -> None:
        self.query_one("#writes").display = False
        self.query_one("#brokers", Input).focus()
        self.set_interval(_TICK, self._renew)
        self._collect()

    @property
    def _step(self) -> str:
        return self.query_one(ContentSwitcher).current or ASK

    def _go_to(self, step: str) -> None:
        self.query_one(ContentSwitcher).current = step
        self.query_one(".box").border_subtitle = _SUBTITLES[step]
        self._show_problem("")

    # ------------------------------------------------------------ options
    @work(exclusive=True)
    async def _collect(self) -> None:
        try:
            self._collected = await self._session.run(collecting(self._numbers))
        except ReplayError as error:
            self._show_problem(str(error))
            return
        except Exception as error:
            self._show_problem(fault_of("reading the requests", error))
            return
        writing = self._collected.writing
        self.query_one("#writes").display = bool(writing)
        apis = ", ".join(f"{api} x{count:,}" if count > 1 else api for api, count in writing.items())
        self.query_one("#writing", Static).update(
            f"These change the cluster; to send them, type their names, or all: {apis}"
        )
        count = len(self._collected.exchanges)
        text = (
            f"{words.counted(count, 'request')} to send again. Requests that only read are sent; "
            "the others are not unless you choose them."
        )
        self.query_one("#about", Static).update(text)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_next()

    async def _wish(self) -> ReplayChoices:
        """Return the chosen options.

        :raises ValueError: if one is invalid
        """
        assert self._collected is not None
        brokers = addresses(self.query_one("#brokers", Input).value.strip())
        config = self.query_one("#config", Input).value.strip()
        security = await asyncio.to_thread(self._security_of, config) if config else PLAINTEXT
        return ReplayChoices(
            brokers,
            writes=_allowed(self.query_one("#allow", Input).value, self._collected.writing),
            speed=speed_of(self.query_one("#speed", Input).value.strip() or "max"),
            security=security,
        )

    def _security_of(self, path: str) -> Security:
        """Return the security settings in a file of client properties; for a thread.

        :raises ValueError: if the properties cannot be used
        """
        try:
            found = client_config(read_properties(path))
        except PropertiesError as error:
            raise ValueError(f"{path}: {error}") from None
        for warning in found.warnings:
            notice(f"{path}: {warning}")
        return found.security

    def action_next(self) -> None:
        """Plan, then send."""
        if self._step == ASK and self._collected is not None:
            self._plan()
        elif self._step == PLAN and self._planned is not None and self._planned.plan.steps:
            self._send(self._planned)

    @work(exclusive=True)
    async def _plan(self) -> None:
        assert self._collected is not None
        self._show_problem("")
        self.query_one("#about", Static).update("asking the cluster what it is like ...")
        try:
            self._planned = await planned(self._collected, await self._wish())
        except (ReplayError, ValueError) as error:
            self._show_problem(str(error))
            self.query_one("#about", Static).update("")
            return
        except Exception as error:
            self._show_problem(fault_of("planning", error))
            self.query_one("#about", Static).update("")
            return
        plan = self._planned.plan
        table = self.query_one("#plan-table", RowTable)
        table.set_rows([_plan_row(row) for row in plan.rows.values()])
        text = Content("\n").join(map(plain, plan_sentences(plan, self._planned.wish.speed)))
        self.query_one("#plan-text", Static).update(text)
        self._go_to(PLAN)
        table.focus()

    # ------------------------------------------------------------ sending
    @work(exclusive=True)
    async def _send(self, what: ReplayPlan) -> None:
        self._replaying = replaying = ReplayRun(what)
        self._running = True
        self._go_to(RESULTS)
        self.query_one(ProgressBar).update(total=replaying.total, progress=0)
        self.query_one("#results-table", RowTable).focus()
        try:
            await replaying.run()
        except ReplayError as error:
            self._show_problem(str(error))
        except Exception as error:
            self._show_problem(fault_of("sending", error))
        finally:
            self._running = False
        self._renew()
        text = Content("\n").join(map(plain, closing_sentences(replaying.results, replaying.total)))
        self.query_one("#results-text", Static).update(text)
        if replaying.total == 1 and replaying.answered:
            self._compare(replaying.answered[0])

    def _renew(self) -> None:
        """Show the results so far."""
        if self._replaying is None or len(self._replaying.answered) == self._shown:
            return
        answered = list(self._replaying.answered)
        self._shown = len(answered)
        self.query_one(ProgressBar).update(progress=len(answered))
        self.query_one("#results-table", RowTable).set_rows(
            [_answer_row(index, each) for index, each in enumerate(answered)]
        )

    @on(RowTable.RowEntered, "#results-table")
    def _result_entered(self, event: RowTable.RowEntered) -> None:
        event.stop()
        if self._replaying is not None and isinstance(event.key, int):
            self._compare(self._replaying.answered[event.key])

    @on(RowTable.RowEntered, "#plan-table")
    def _plan_entered(self, event: RowTable.RowEntered) -> None:
        event.stop()
        self.action_next()

    def _compare(self, answered: ReplayedExchange) -> None:
        self.app.push_screen(replayed_comparison(answered))

    def action_back(self) -> None:
        """Stop sending, return to the options, or close."""
        if self._running and self._replaying is not None:
            self._replaying.cancel()
        elif self._step == PLAN:
            self._go_to(ASK)
            self.query_one("#brokers", Input).focus()
        else:
            self.dismiss(self.query_one("#brokers", Input).value.strip())


def _allowed(text: str, writing: Collection[str]) -> tuple[str, ...]:
    """Return the names of the allowed APIs.

    :raises ValueError: if a name is not that of an API
    """
    if text.strip().lower() == "all":
        return tuple(writing)
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        return tuple(api_name(key) for key in sorted(permission.allowed_keys(names)))
    except permission.NotAllowedError as error:
        raise ValueError(str(error)) from None


_PLAN = [
    Column("connection", right=True, rank=3),
    Column("client", least=10),
    Column("API", least=10),
    Column("send", right=True),
    Column("to", least=16, rank=1),
    Column("leave out", right=True),
    Column("why", least=20),
]


_LEFT_OUT = {permission.WRITES: "changes something: go back to allow it"}
"""Reasons in words for the UI, if the usual ones mention command-line options."""


def _plan_row(row: PlanRow) -> Row:
    left_out = row.left_out.total()
    reasons = (_LEFT_OUT.get(reason, reason).replace("--allow", "allow") for reason in row.left_out)
    return Row(
        (row.connection, row.api),
        (
            Cell(str(row.connection), value=row.connection),
            row.client_id or row.client,
            row.api,
            counted(row.sent),
            "; ".join(row.targets),
            counted(left_out, Role.WARNING),
            Cell("; ".join(reasons), Role.WARNING),
        ),
    )


_RESULTS = [
    Column("#", right=True),
    Column("API", least=10),
    Column("asked", least=10, rank=3),
    Column("answer", least=16),
    Column("recorded ms", right=True, rank=1),
    Column("new ms", right=True),
    Column("recorded", least=10, rank=4),
    Column("new", least=10, rank=2),
]


def _answer_row(index: int, answered: ReplayedExchange) -> Row:
    outcome = answered.outcome
    return Row(
        index,
        (
            Cell(str(outcome.number), value=outcome.number),
            f"{outcome.api} v{outcome.sent_version}",
            Cell(outcome.asked, Role.MUTED),
            verdict(answered),
            milliseconds_cell(outcome.recorded_latency),
            milliseconds_cell(outcome.latency),
            Cell(outcome.recorded, Role.MUTED),
            outcome.new,
        ),
    )
