"""The list of exchanges as it is painted."""

from __future__ import annotations

from typing import Any

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from captures.filters import compile_filter
from kproxy.session.published import Order, State, Summary
from kproxy.tui.widgets import exchange_view
from tests.kproxy.tui.published import BEGIN, MS, SECOND, PublishedSession, held, summary
from tests.kproxy.tui.widgets.listing import BODY, SIZE, ListApp, renewed
from tests.waiting import until

HOSTILE = "[red]a\x1b[2Jb[/]\u202e\u0301\t全角"


# ------------------------------------------------------------ content
async def test_exchanges_are_lines_below_titles() -> None:
    app = ListApp(PublishedSession(3))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert app.line(0).split() == [
            "#",
            "time",
            "ms",
            "client",
            "broker",
            "api",
            "request",
            "→",
            "response",
            "bytes",
            "state",
        ]
        assert "  2 09:14:03.220" in app.line(2)
        assert "orders payments → 3 brokers" in app.line(2)
        assert "✓ ok" in app.line(2)
        assert app.line(4).strip() == ""


@pytest.mark.slow
async def test_ten_million_exchanges_are_as_quick_as_ten() -> None:
    app = ListApp(PublishedSession(10_000_000))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("G")
        assert app.list.number == 10_000_000
        assert "10000000" in app.line(BODY)
        await pilot.press("pageup", "up")
        assert app.list.number == 10_000_000 - BODY - 1
        assert len(app.session.summaries._made) < 100


@pytest.mark.slow
async def test_what_is_not_made_yet_is_asked_for_and_shown_when_it_is() -> None:
    app = ListApp(PublishedSession(1_000, at_once=False))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert app.line(1).split() == ["▸", "1", "…"]
        assert app.session.summaries.wanted[:BODY] == list(range(1, BODY + 1))
        app.session.summaries.carry_out()
        await renewed(pilot)
        assert "Metadata" in app.line(1)
        app.list.scroll_to(y=500, animate=False)
        await pilot.pause()
        assert app.session.summaries.wanted[0] == 500, "the line above tells what is repeated"
        assert set(range(501, 501 + BODY)) < set(app.session.summaries.wanted)
        app.session.show(range(1, 2_000, 2))
        app.list.scroll_to(y=0, animate=False)
        await renewed(pilot)
        wanted = app.session.summaries.wanted
        assert wanted[: 2 * BODY] == list(range(1, 4 * BODY, 2)), "and no more than a page away"
        assert len(wanted) <= 2 * BODY + 64, "besides a sample for the widths of the columns"


async def test_scrolling_moves_no_column() -> None:
    def growing(number: int) -> Summary:
        return summary(number, api="Fetch v18" if number < 900 else "AllocateProducerIds v0")

    app = ListApp(PublishedSession(1_000, growing))
    async with app.run_test(size=SIZE) as pilot:
        await renewed(pilot)
        titles = app.line(0)
        assert titles.index("request") - titles.index("api") > len("Fetch v18") + 4
        for key in ("pagedown", "G", "pageup", "g"):
            await pilot.press(key)
            assert app.line(0) == titles


async def test_a_line_changes_when_its_summary_does() -> None:
    app = ListApp(PublishedSession(5))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.session.summaries.make = lambda number: summary(
            number, marked=True, comment="odd", response="4 brokers"
        )
        app.session.summaries.renew()
        await renewed(pilot)
        assert app.line(2).startswith(" ●✎")
        assert "4 brokers" in app.line(2)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"state": State.ERROR, "errors": ("NOT_COORDINATOR",)}, "✗ NOT_COORDINATOR"),
        ({"state": State.UNANSWERED, "latency": None}, "∅ no answer"),
        ({"state": State.DAMAGED, "text": "12 bytes missing"}, "░ 12 bytes missing"),
        ({"state": State.SLOW, "latency": 304 * MS}, "◷ slow"),
    ],
)
async def test_states_are_told_by_symbol_and_word(changes: dict[str, Any], text: str) -> None:
    app = ListApp(PublishedSession(2, lambda number: summary(number, **changes)))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert text in app.line(2)


async def test_what_came_from_the_wire_cannot_break_out_of_its_cells() -> None:
    names = iter([HOSTILE, "plain"] * 40)
    app = ListApp(PublishedSession(20, lambda number: summary(number, client=next(names), request=HOSTILE)))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        width = app.list.size.width - 1
        for y in range(1, BODY + 1):
            strip = app.list.render_line(y)
            assert strip.cell_length == width
            assert strip.text.isprintable()
        column = app.line(1).index("b1")
        cells = app.list.render_line(1).crop(0, column + 20).cell_length
        assert cells == column + 20
        assert "[red]a�[2Jb[/]" in app.line(1)


@pytest.mark.slow
async def test_an_empty_list_says_why() -> None:
    app = ListApp(PublishedSession(0))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert app.line(1).strip() == "no exchanges so far: the file is being read"
        app.session.publish(finished=True)
        await renewed(pilot)
        assert app.line(1).strip() == "no exchanges"
        app.session.publish(exchanges=50, filter=compile_filter("error"), filtering=0.25)
        await renewed(pilot)
        assert "nothing so far matches" in app.line(1)
        app.session.publish(filtering=None)
        await renewed(pilot)
        assert "nothing matches" in app.line(1)
        app.session.publish(marked_only=True)
        await renewed(pilot)
        assert "no marked exchange matches" in app.line(1)


# ------------------------------------------------------------ passing time
class Clock:
    """The clock of the list in ns, advanced only by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = BEGIN
        for name in ("monotonic_ns", "time_ns"):
            monkeypatch.setattr(exchange_view, name, lambda: self.now)


@pytest.mark.slow
async def test_what_is_in_flight_shows_how_long_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def make(number: int) -> Any:
        return summary(number, state=State.IN_FLIGHT, latency=None, response="", running_since=BEGIN)

    app = ListApp(PublishedSession(2, make, live=True))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "… in flight" in app.line(2)
        assert "…0." in _painted(app, 2)
        clock.now += 3 * SECOND
        await until(lambda: "…3." in _painted(app, 2))


@pytest.mark.slow
async def test_how_long_something_is_held_goes_by_the_clock_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    session = PublishedSession(2, live=True)
    session.held = (held(7, since=clock.now - 5 * SECOND, until=clock.now + 25 * SECOND),)
    app = ListApp(session)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "…5." in _painted(app, BODY)
        assert "25 s l" in _painted(app, BODY)
        clock.now += 3 * SECOND
        await until(lambda: "…8." in _painted(app, BODY) and "22 s l" in _painted(app, BODY))


async def test_in_a_capture_time_stands_still() -> None:
    session = PublishedSession(1, lambda number: summary(number, latency=None, running_since=BEGIN))
    session.publish(latest=BEGIN + 1_200 * MS)
    app = ListApp(session)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "…1.2s" in app.line(1)


# ------------------------------------------------------------ text
@pytest.mark.slow
async def test_text_is_selected_by_lines_and_characters() -> None:
    app = ListApp(PublishedSession(50, lambda number: summary(number, client="全角", request="orders")))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        line = app.line(3)
        begin = line.index("orders")
        selection = Selection(Offset(begin, 2), Offset(begin + 6, 2))
        assert app.list.get_selection(selection) == ("orders", "\n")
        text, _ = app.list.get_selection(Selection(Offset(begin, 1), Offset(begin, 3))) or ("", "")
        assert len(text.splitlines()) == 3
        assert text.startswith("orders → 3 brokers")
        assert app.list.get_selection(Selection(Offset(0, 90), Offset(5, 95))) is None


@pytest.mark.slow
async def test_text_is_selected_with_the_mouse_without_moving_the_cursor() -> None:
    app = ListApp(PublishedSession(50))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        begin = app.line(3).index("orders")
        await pilot.mouse_down(app.list, offset=(begin, 3))
        await pilot.hover(app.list, offset=(begin + 5, 3))
        await pilot.mouse_up(app.list, offset=(begin + 5, 3))
        await pilot.pause()
        assert app.screen.get_selected_text() == "orders"
        assert app.list.number == 1


# ------------------------------------------------------------ colours
@pytest.mark.slow
async def test_lines_are_painted_anew_with_the_theme_and_the_focus() -> None:
    app = ListApp(PublishedSession(5))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        before = _styles(app, 2)
        app.theme = "textual-light"
        await pilot.pause()
        assert _styles(app, 2) != before
        focused = _styles(app, 1)
        app.set_focus(None)
        await pilot.pause()
        assert _styles(app, 1) != focused, "the cursor of a list without the focus is another"


@pytest.mark.slow
async def test_what_repeats_the_line_above_is_dimmed() -> None:
    app = ListApp(PublishedSession(5, lambda number: summary(number, client="a" if number < 4 else "b")))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        repeated = app.list.get_component_rich_style("drawn--repeated")
        assert _style_of(app, 3, "a ") == repeated
        assert _style_of(app, 4, "b ") != repeated
        app.session.show([3, 4, 5])
        await renewed(pilot)
        app.list.action_move(1)
        await pilot.pause()
        assert _style_of(app, 1, "a ") != repeated, "nothing is above it"


def _painted(app: ListApp, y: int) -> str:
    """Return the text on the terminal, even if it would be painted differently now."""
    return app.screen._compositor.render_strips()[y].text


def _styles(app: ListApp, y: int) -> list[Any]:
    return [segment.style for segment in app.list._line(y, app.list._window(), app.list._clock())]


def _style_of(app: ListApp, y: int, text: str) -> Any:
    line = app.list._line(y, app.list._window(), app.list._clock())
    return next(segment.style for segment in line if text in segment.text)


# ------------------------------------------------------------ appearance
def every_state() -> PublishedSession:
    """Return a session with an exchange in each state, some marked, some with a comment, and a held message."""
    said = {State.ERROR: ("NOT_LEADER_OR_FOLLOWER",)}

    def make(number: int) -> Any:
        state = list(State)[number % len(State)]
        running = state is State.IN_FLIGHT
        return summary(
            number,
            state=state,
            errors=said.get(state, ()),
            latency=None if running else number * number * MS // 3,
            running_since=BEGIN + number * MS if running else None,
            client=("orders-svc-1", "audit-7")[number // 4 % 2],
            request=("orders-3  35 records 3.2k lz4", "audit gen 41", HOSTILE)[number % 3],
            marked=number % 5 == 0,
            comment="why?" if number % 7 == 0 else "",
            response_size=0 if running else number**5,
        )

    session = PublishedSession(24, make)
    session.held = (held(7, until=BEGIN + 40 * SECOND), held(8, side="response", waiting_behind=0))
    session.publish(latest=BEGIN + 12 * SECOND, order=Order("latency", descending=True))
    return session


@pytest.mark.slow
def test_a_list_of_every_state_in_120_columns(snap_compare: Any) -> None:
    assert snap_compare(ListApp(every_state()), terminal_size=(120, 30), press=["j", "j"])


@pytest.mark.slow
def test_a_list_of_every_state_in_80_columns_and_a_light_theme(snap_compare: Any) -> None:
    app = ListApp(every_state())
    app.theme = "textual-light"
    assert snap_compare(app, terminal_size=(80, 24))
