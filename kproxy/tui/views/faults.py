"""kproxy's interventions: held messages, fault rules with their effects, and forwarding."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from time import time_ns
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from captures.filters.lexer import quoted
from captures.filters.regex import TextRegex
from captures.meaning import words
from dissectors.printable import printable
from dissectors.units import SECOND
from kproxy.proxy.rules.actions import ACTIONS
from kproxy.session import Session
from kproxy.session.published import HeldMessage
from kproxy.text.tables import Column
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.live.link import Link
from kproxy.tui.live.state import FaultRule, LiveState, left_of, left_words, seconds, who
from kproxy.tui.views.base import View
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row, counted, sized

_TICK = 0.5  # seconds, while something counts down
_SOON = 5 * SECOND

_NOT_LIVE = """\
This view shows what a running kproxy holds, its fault rules, and whether it forwards.
    kproxy proxy -b BROKER       starts one between clients and brokers
    kproxy attach --control      attaches to a running one
Then  i  holds messages that match a filter,  a  releases one,  e  edits one,  +  adds a fault rule.
In a capture, the filters  held,  changed  and  fault  find what was done to exchanges.
"""


class Faults(View):
    """Tables of held messages and of fault rules, below the state of the proxy.

    :param link: to the proxy, None if there is none
    """

    DEFAULT_CSS = """
    Faults {
        #state { height: auto; max-height: 4; padding: 0 1; }
        .title { height: 1; padding: 0 1; text-style: bold; color: $text-primary; }
        #held, #rules { height: auto; min-height: 3; max-height: 40%; }
        #not-live { height: auto; padding: 0 1; }
        #actions { height: 1fr; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.FAULTS)]

    view_name = "faults"

    class AddRule(Message):
        """A request to add a fault rule."""

    @dataclass
    class RemoveRule(Message):
        """A request to remove a fault rule.

        :ivar number: None if none is selected
        """

        number: int | None

    def __init__(self, session: Session, link: Link | None = None) -> None:
        super().__init__(session)
        self._link = link
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        actions = RowTable(_ACTIONS, id="actions")
        actions.set_rows(_action_rows())
        if self._link is None:
            yield Static(Content(_NOT_LIVE), id="not-live")
        else:
            yield Static(id="state")
            yield Static(id="held-title", classes="title")
            yield RowTable(_HELD, empty="Nothing is held. i sets a filter for messages to hold.", id="held")
            yield Static(id="rules-title", classes="title")
            yield RowTable(_RULES, empty="No fault rules. + adds one: FILTER => ACTION.", id="rules")
        yield actions

    # ------------------------------------------------------------ content
    def on_shown(self) -> None:
        if self._link is not None:
            self._link.watch(True)
            self._timer = self.set_interval(_TICK, self._show)
            self._show()

    def on_hidden(self) -> None:
        if self._link is not None:
            self._link.watch(False)
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def refresh_data(self) -> None:
        self._show()

    def state(self) -> tuple[Hashable, ...]:
        return () if self._link is None else (self._link.state.version,)

    def _show(self) -> None:
        if self._link is None or not self.is_mounted:
            return
        state, now = self._link.state, time_ns()
        self.query_one("#state", Static).update(state_content(state))
        self.query_one("#held-title", Static).update(Content(f"Held ({len(state.held):,})"))
        self.query_one("#rules-title", Static).update(Content(f"Fault rules ({len(state.rules):,})"))
        self.query_one("#held", RowTable).set_rows([_held_row(held, now) for held in state.held])
        self.query_one("#rules", RowTable).set_rows([_rule_row(rule, now) for rule in state.rules])

    # ------------------------------------------------------------ selection
    @property
    def held_number(self) -> int | None:
        """Number of the selected held message, None if none is selected."""
        return self._key("held")

    @property
    def rule_number(self) -> int | None:
        """Number of the selected fault rule, None if none is selected."""
        return self._key("rules")

    def _key(self, name: str) -> int | None:
        row = None if self._link is None else self.query_one(f"#{name}", RowTable).selected
        return row.key if row is not None and isinstance(row.key, int) else None

    @on(RowTable.RowEntered, "#held")
    def _held_entered(self, event: RowTable.RowEntered) -> None:
        """Show the exchanges of the held message's connection."""
        event.stop()
        held = next((each for each in self._state.held if each.number == event.key), None)
        if held is not None:
            self.post_message(self.Narrow(f"client == {held.client}"))

    @on(RowTable.RowEntered, "#rules")
    def _rule_entered(self, event: RowTable.RowEntered) -> None:
        """Show the exchanges that a rule was applied to."""
        event.stop()
        rule = next((each for each in self._state.rules if each.number == event.key), None)
        if rule is not None:
            self.post_message(self.Narrow(applied_filter(rule)))

    @on(RowTable.RowEntered, "#actions")
    def _action_entered(self, event: RowTable.RowEntered) -> None:
        """Show the exchanges that an action was applied to."""
        event.stop()
        self.post_message(self.Narrow(f"fault contains {str(event.key).partition(' ')[0]}"))

    @property
    def _state(self) -> LiveState:
        return LiveState() if self._link is None else self._link.state

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        tables = list(self.query(RowTable))
        table = next((table for table in tables if table.has_focus), tables[0])
        return table.search(pattern, forward=forward)

    # ------------------------------------------------------------ actions
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return whether rules can be changed: only with a proxy."""
        return self._link is not None or not action.startswith("rule_")

    def action_rule_add(self) -> None:
        self.post_message(self.AddRule())

    def action_rule_remove(self) -> None:
        self.post_message(self.RemoveRule(self.rule_number))


def applied_filter(rule: FaultRule) -> str:
    """Return a filter for the exchanges that a rule was applied to."""
    return f"fault == {quoted(rule.text)}"


def state_content(state: LiveState) -> Content:
    """Return the state of a proxy as a few lines."""
    if state.gone:
        return Content.styled(printable(f"✗ {state.gone}; what was captured stays here"), "$text-error")
    parts = [
        "forwarding"
        if state.forwarding
        else Content.styled("✗ forwarding is off (O switches it on)", "$text-warning"),
        words.counted(state.connections, "connection"),
        f"{state.in_flight:,} in flight",
    ]
    if state.unrecorded:
        parts.append(Content.styled(f"✗ {state.unrecorded}", "$text-error"))
    if state.dropped:
        parts.append(
            Content.styled(f"! {words.size(state.dropped)} dropped from the recording", "$text-warning")
        )
    if state.listeners:
        parts.append(printable(f"listening on {state.listeners[0]}"))
    if not state.controls:
        parts.append(Content.styled("read-only (kproxy attach --control allows changes)", "$text-muted"))
    lines = [Content("   ").join(map(_content, parts))]
    for side, wanted in state.hold_filters.items():
        lines.append(Content.assemble(f"holding {side}s that match: ", (printable(wanted), "bold")))
    if state.passed:
        lines.append(
            Content(
                f"{state.passed:,} matched and were not held: too many are held, or their clients were about to give up"
            )
        )
    if state.hold_failures:
        lines.append(
            Content.styled(
                f"! {state.hold_failures:,} were forwarded because the filter failed", "$text-warning"
            )
        )
    return Content("\n").join(lines)


def _content(part: str | Content) -> Content:
    return part if isinstance(part, Content) else Content(part)


_ACTIONS = [
    Column("action of a rule, FILTER => ACTION", least=16, wraps=True),
    Column("what happens to the message", least=40, wraps=True),
]


def _action_rows() -> list[Row]:
    """Return a row for each form of each fault action."""
    return [
        Row(f"{name} {argument}", (f"{name} {argument}", meaning.replace("`", "")))
        for name, action in ACTIONS.items()
        for argument, meaning in action.forms.items()
    ]


_HELD = [
    Column("#", right=True),
    Column("what"),
    Column("client", least=16),
    Column("broker", least=12, rank=2),
    Column("size", right=True, rank=3),
    Column("held for", right=True, rank=1),
    Column("released in", right=True),
    Column("behind it", right=True),
]


def _held_row(held: HeldMessage, now: int) -> Row:
    left = held.until - now
    return Row(
        held.number,
        (
            Cell(str(held.number), value=held.number),
            f"{held.side} {held.api} v{held.version}",
            who(held),
            held.broker,
            sized(held.size),
            Cell(seconds(now - held.since), Role.MUTED, now - held.since),
            Cell(left_words(held, now), Role.ERROR if left < _SOON else Role.WARNING, left),
            counted(held.waiting_behind, Role.WARNING),
        ),
    )


_RULES = [
    Column("#", right=True),
    Column("rule", least=24),
    Column("on", rank=2),
    Column("applied", right=True),
    Column("last", right=True, rank=1),
    Column("left", least=10),
]


def _rule_row(rule: FaultRule, now: int) -> Row:
    left: str | Cell = left_of(rule, now)
    if rule.failures:
        left = Cell(f"failed {words.counted(rule.failures, 'time')}: {rule.failure}", Role.ERROR)
    elif rule.ended:
        left = Cell(str(left), Role.MUTED)
    last = (
        ""
        if rule.last_hit is None
        else Cell(f"{seconds(now - rule.last_hit)} ago", Role.MUTED, rule.last_hit)
    )
    return Row(
        rule.number,
        (
            Cell(str(rule.number), value=rule.number),
            Cell(rule.text, Role.MUTED if rule.ended else Role.STRONG),
            rule.side,
            counted(rule.hits),
            last,
            left,
        ),
    )
