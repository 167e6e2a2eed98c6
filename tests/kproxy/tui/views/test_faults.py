from __future__ import annotations

from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.message import Message
from textual.widgets import Static

from captures.filters import compile_filter
from captures.filters.regex import TextRegex
from kproxy.session.published import HeldMessage
from kproxy.tui.live.link import Link
from kproxy.tui.live.state import FaultRule, LiveState
from kproxy.tui.views import faults
from kproxy.tui.views.faults import Faults, applied_filter
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.tui.kit import session_of

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND


def held(number: int, left: int, **values: Any) -> HeldMessage:
    known: dict[str, Any] = {
        "number": number,
        "side": "request",
        "api": "JoinGroup",
        "version": 9,
        "correlation_id": 5,
        "connection": 3,
        "client": "10.0.0.7:41078",
        "client_id": "billing-1",
        "broker": "10.0.0.2:9092",
        "size": 2_412,
        "since": NOW - 6 * SECOND,
        "until": NOW + left * SECOND,
        "waiting_behind": 0,
    }
    return HeldMessage(**{**known, **values})


def rule(number: int, text: str, **values: Any) -> FaultRule:
    known: dict[str, Any] = {
        "number": number,
        "text": text,
        "side": "request",
        "hits": 0,
        "last_hit": None,
        "left_count": None,
        "until": NOW + 9 * 60 * SECOND,
        "ended": "",
        "failures": 0,
        "failure": "",
    }
    return FaultRule(**{**known, **values})


STATE = LiveState(
    version=1,
    controls=True,
    connections=12,
    in_flight=3,
    dropped=3_400_000,
    listeners=("127.0.0.1:9092",),
    hold_filters={"request": 'api == JoinGroup and group == "b[red]x"'},
    held=(
        held(1, 18, waiting_behind=4),
        held(2, 3, client_id="evil\x1b[2J", side="response", api="Fetch", version=13, size=1 << 20),
    ),
    rules=(
        rule(1, "api == Fetch => delay 200ms, p=10%, count=50", hits=41, left_count=9, last_hit=NOW - 2 * SECOND),
        rule(2, 'topic == "orders" => drop', ended="time"),
        rule(4, "response: api == Metadata => error 3", side="response", failures=2, failure="no room"),
    ),
)  # fmt: skip


class FaultsApp(App[None]):
    """Shows only the view."""

    def __init__(self, state: LiveState | None = STATE) -> None:
        super().__init__()
        self.link: Link | None = None
        if state is not None:
            self.link = Link("nowhere")
            self.link.state = state
        self.said: list[Message] = []

    def compose(self) -> ComposeResult:
        yield Faults(session_of(), self.link)

    @property
    def view(self) -> Faults:
        return self.query_one(Faults)

    def on_mount(self) -> None:
        self.view.on_shown()
        self.view.take_focus()

    def on_faults_add_rule(self, message: Faults.AddRule) -> None:
        self.said.append(message)

    def on_faults_remove_rule(self, message: Faults.RemoveRule) -> None:
        self.said.append(message)

    def on_view_narrow(self, message: Faults.Narrow) -> None:
        self.said.append(message)


@pytest.fixture
def _at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "time_ns", lambda: NOW)


@pytest.mark.slow
@pytest.mark.usefixtures("_at_a_time")
def test_it_looks_as_it_should(snap_compare: Any) -> None:
    assert snap_compare(FaultsApp(), terminal_size=(120, 24))


@pytest.mark.slow
@pytest.mark.usefixtures("_at_a_time")
async def test_it_shows_what_is_held_and_which_rules_there_are() -> None:
    app = FaultsApp()
    async with app.run_test(size=(160, 30)) as pilot:
        rows = [row.text() for row in app.query_one("#held", RowTable).rows]
        assert "request JoinGroup v9" in rows[0]
        assert "6 s" in rows[0]
        assert "18 s" in rows[0]
        rules = [row.text() for row in app.query_one("#rules", RowTable).rows]
        assert "9 times, 9 min" in rules[0]
        assert "2 s ago" in rules[0]
        assert "ended: its time is over" in rules[1]
        assert "failed 2 times: no room" in rules[2]
        state = str(app.query_one("#state", Static).visual)
        assert "3.2M dropped" in state
        assert "group == " in state
        await pilot.press("down")
        assert app.view.held_number == 2
        assert app.link is not None
        app.link.state = LiveState(version=2, held=STATE.held[1:])
        await app.view.refresh_data()
        assert app.view.held_number == 2
        assert app.view.state() == (2,)


@pytest.mark.slow
@pytest.mark.usefixtures("_at_a_time")
async def test_rules_are_asked_for_and_removed_by_keys() -> None:
    app = FaultsApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("plus")
        app.query_one("#rules", RowTable).focus()
        await pilot.press("down", "down", "d")
        await pilot.pause()
        assert [type(message) for message in app.said] == [Faults.AddRule, Faults.RemoveRule]
        assert app.said[-1].number == 4  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.usefixtures("_at_a_time")
async def test_enter_shows_the_exchanges_of_a_connection_or_a_rule() -> None:
    app = FaultsApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("enter")
        app.query_one("#rules", RowTable).focus()
        await pilot.press("enter")
        await pilot.pause()
        texts = [message.filter for message in app.said]  # type: ignore[attr-defined]
        assert texts[0] == "client == 10.0.0.7:41078"
        for text in texts:
            compile_filter(text)


RULES = [
    "api == Fetch => drop",
    """topic == "a b" and client_id == 'x"y' => drop""",
    r'topic ~ "\d" => drop',
]


@pytest.mark.parametrize("text", RULES)
def test_the_filter_of_a_rule_can_be_read(text: str) -> None:
    assert compile_filter(applied_filter(rule(1, text)))


@pytest.mark.usefixtures("_at_a_time")
async def test_rows_are_searched() -> None:
    app = FaultsApp()
    async with app.run_test(size=(120, 30)):
        assert app.view.search(TextRegex("Fetch", any_case=False), forward=True)
        assert app.view.held_number == 2
        assert not app.view.search(TextRegex("Produce", any_case=False), forward=True)


@pytest.mark.slow
async def test_it_says_what_is_not_as_usual() -> None:
    for state, said in (
        (LiveState(gone="the proxy cannot be reached any more: it has ended"), "it has ended"),
        (LiveState(forwarding=False), "forwarding is off"),
        (LiveState(controls=False), "read-only"),
        (LiveState(passed=4), "4 matched and were not held"),
        (LiveState(hold_failures=4), "4 were forwarded because the filter failed"),
    ):
        app = FaultsApp(state)
        async with app.run_test(size=(120, 30)):
            assert said in str(app.query_one("#state", Static).visual)


async def test_without_a_proxy_it_says_how_to_get_one() -> None:
    app = FaultsApp(None)
    async with app.run_test(size=(80, 24)) as pilot:
        assert "kproxy attach --control" in str(app.query_one("#not-live", Static).visual)
        await app.view.refresh_data()
        assert app.view.held_number is None
        assert not app.view.search(TextRegex("nowhere", any_case=False), forward=True)
        assert app.view.search(TextRegex("its first 100 bytes", any_case=False), forward=True)
        app.query_one("#actions", RowTable).focus()
        await pilot.press("enter", "plus")
        assert app.said == [Faults.Narrow("fault contains truncate")], "a rule needs a proxy"


def test_the_proxy_is_looked_at_more_often_while_it_is_shown() -> None:
    view = Faults(session_of(), link := Link("nowhere"))
    view.on_hidden()
    assert not link._watched
