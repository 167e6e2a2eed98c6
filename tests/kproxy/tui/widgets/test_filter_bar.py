"""The filter bar: validity, completion, history, saved filters, and safe output to the terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult
from textual.widgets import OptionList

from captures.filters import Candidate
from kproxy.tui.widgets import filter_bar
from kproxy.tui.widgets.completion_list import CompletionList
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.verdict import Validity
from tests.kproxy.tui.typing import offered, quiet, state_home, still, told_by, type_in  # noqa: F401  # a fixture
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("state_home")

MET = {"topic": ["orders", "orders-dlq", "pay ments", "o\x1b[31mrders"], "client_id": ["audit-7"]}
SAVED = {
    "slow": "excess > 100ms",
    "either": "topic == a or topic == b",
    "marked": "api == Fetch",
    "broken": "x ==",
}


class BarApp(App[None]):
    CSS = "OptionList { height: 1fr; } .below { dock: bottom; }"

    def __init__(self, *, below: bool = False, **options: Any) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.applied: list[tuple[str, Any]] = []
        self.options = {"known": self.known, "saved": SAVED, **options}
        self.below = below

    async def known(self, field: str) -> Sequence[str]:
        self.asked.append(field)
        return MET.get(field, ())

    def compose(self) -> ComposeResult:
        bar = FilterBar(**self.options)
        bar.set_class(self.below, "below")
        yield bar
        yield OptionList(*(f"exchange {number}" for number in range(100)))

    @property
    def bar(self) -> FilterBar:
        return self.query_one(FilterBar)

    def on_filter_bar_applied(self, message: FilterBar.Applied) -> None:
        self.applied.append(("" if message.filter is None else message.filter.text, message.filter))


@pytest.mark.slow
async def test_what_is_typed_is_applied_and_the_focus_goes_back() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.screen.set_focus(app.query_one(OptionList))
        app.bar.open()
        await pilot.press(*"api", "space", "equals_sign", "equals_sign", "space", *"Fetch")
        await type_in(pilot, "", "enter")
        [(text, wanted)] = app.applied
        assert text == "api == Fetch"
        assert wanted.text == "api == Fetch"
        assert not app.bar.is_open
        assert app.focused is app.query_one(OptionList)


@pytest.mark.slow
async def test_validity_is_told_while_typing() -> None:
    app = BarApp()
    async with app.run_test(size=(100, 24)) as pilot:
        app.bar.open()
        met = []
        for typed in ("api", " ==", " Fetch", " and", " latencyy > 1", " and x"):
            await type_in(pilot, typed)
            met.append(app.bar.verdict.validity)
        assert met == [
            Validity.VALID,
            Validity.INCOMPLETE,
            Validity.VALID,
            Validity.INCOMPLETE,
            Validity.INVALID,
            Validity.INVALID,
        ]
        assert app.bar.has_class("-invalid")
        line = told_by(app.bar)
        assert "there is no field latencyy (did you mean latency?)" in line
        # the carets are below the word in the previous line
        assert line.index("^" * len("latencyy")) == app.bar._column(app.bar.text.index("latencyy"))


@pytest.mark.slow
async def test_a_word_that_may_become_a_field_is_no_mistake_yet() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "latenc")
        assert app.bar.verdict.validity is Validity.INCOMPLETE
        assert offered(app.bar) == ["latency"]


@pytest.mark.slow
async def test_a_text_alone_is_told_where_it_is_looked_for() -> None:
    app = BarApp()
    async with app.run_test(size=(100, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "m3")
        assert app.bar.verdict.validity is Validity.VALID
        assert told_by(app.bar).strip().startswith('api ~ "m3" or client ~ "m3" or broker ~ "m3" or topic')


@pytest.mark.slow
async def test_what_makes_no_sense_is_not_applied_and_the_cursor_goes_to_it() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "api == Fetch and nope > 1", "enter")
        assert app.applied == []
        assert app.bar.is_open
        assert app.bar._line.cursor_position == len("api == Fetch and ")


@pytest.mark.slow
async def test_short_forms_are_spelled_out() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "~t orders ~e")
        assert told_by(app.bar).strip() == 'topic ~ "orders" and error'


@pytest.mark.slow
async def test_tab_takes_fields_operators_and_values_that_were_met() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "topi", "tab")
        assert app.bar.text == "topic "
        assert offered(app.bar)[:3] == ["==", "!=", "~"]
        await type_in(pilot, "", "tab")
        assert app.asked == ["topic"]
        # invisible characters cannot be typed either
        assert offered(app.bar) == ["orders", "orders-dlq", '"pay ments"']
        await type_in(pilot, "", "down", "down", "down", "enter")
        assert app.bar.text == 'topic == "pay ments" '
        assert app.applied == []
        await type_in(pilot, "", "escape", "enter")
        assert app.applied[0][0] == 'topic == "pay ments"'


@pytest.mark.slow
async def test_values_are_asked_for_once_while_the_bar_is_open() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "topic == o")
        await type_in(pilot, "r")
        assert app.asked == ["topic"]
        app.bar.open()
        await type_in(pilot, "topic == o")
        assert app.asked == ["topic", "topic"]


@pytest.mark.slow
async def test_the_verdict_does_not_wait_for_values() -> None:
    free = asyncio.Event()

    async def known(field: str) -> Sequence[str]:
        await free.wait()
        return MET[field]

    app = BarApp(known=known)
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await quiet(pilot)
        app.bar._line.insert_text_at_cursor("topic ==")
        await until(lambda: app.bar.verdict.text == "topic ==")
        assert offered(app.bar) == []
        free.set()
        await quiet(pilot)
        assert offered(app.bar)[0] == "orders"


@pytest.mark.slow
async def test_arrows_go_round_through_what_is_offered() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "client.", "up")
        found = app.bar.query_one(CompletionList)
        assert found.chosen is found.candidates[-1]
        await type_in(pilot, "", "down")
        assert found.chosen is found.candidates[0]
        assert app.bar.text == "client."
        await type_in(pilot, "", "enter")
        assert app.bar.text == "client.host "


@pytest.mark.slow
async def test_escape_closes_the_offers_first_and_then_the_bar() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "cli", "escape")
        assert app.bar.is_open
        assert offered(app.bar) == []
        await type_in(pilot, "", "escape")
        assert not app.bar.is_open
        assert app.applied == []


@pytest.mark.slow
async def test_an_empty_line_shows_everything_and_tab_offers_fields() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open("api == Fetch")
        await type_in(pilot, "", "ctrl+u")
        assert app.bar.verdict.validity is Validity.EMPTY
        await type_in(pilot, "", "tab")
        assert "api" in offered(app.bar)
        await type_in(pilot, "", "escape", "enter")
        assert app.applied == [("", None)]


@pytest.mark.slow
async def test_the_cursor_can_go_back_into_the_middle() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open("top and api == Fetch")
        await quiet(pilot)
        assert offered(app.bar) == []
        app.bar._line.cursor_position = 3
        await type_in(pilot, "", "tab")
        await type_in(pilot, "", "tab")
        assert app.bar.text == "topic and api == Fetch"


# ---------------------------------------------------------------- history
@pytest.mark.slow
async def test_up_goes_through_what_was_applied_before_in_this_run_and_others(state_home: Path) -> None:  # noqa: F811
    state_home.mkdir(parents=True)
    (state_home / "filter").write_text(f"{json.dumps('group == audit')}\n")
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await quiet(pilot)
        app.bar.open()
        await type_in(pilot, "topic == a", "enter")
        app.bar.open("api == Fetch")
        await type_in(pilot, "", "up")
        assert app.bar.text == "topic == a"
        await type_in(pilot, "", "up")
        assert app.bar.text == "group == audit"
        assert app.bar.verdict.validity is Validity.VALID
        await type_in(pilot, "", "down", "down")
        assert app.bar.text == "api == Fetch"
    assert (state_home / "filter").read_text().splitlines() == ['"group == audit"', '"topic == a"']


@pytest.mark.slow
async def test_up_after_typing_meets_only_what_begins_alike() -> None:
    app = BarApp()
    app_history = ["topic == a", "api == Fetch"]
    async with app.run_test(size=(80, 24)) as pilot:
        await quiet(pilot)
        for text in app_history:
            app.bar.history.add(text)
        app.bar.open()
        await type_in(pilot, "to", "escape", "up")
        assert app.bar.text == "topic == a"
        await type_in(pilot, "", "down")
        assert app.bar.text == "to"


# ---------------------------------------------------------------- saved filters
@pytest.mark.slow
async def test_saved_filters_are_offered_in_front_and_put_in() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "@")
        # the language's own selections are offered too, and have precedence if names are the same
        assert [text for text in offered(app.bar) if text in {"@slow", "@either", "@broken"}] == [
            "@broken",
            "@either",
            "@slow",
        ]
        assert offered(app.bar).count("@marked") == 1
        await type_in(pilot, "sl", "tab")
        assert app.bar.text == "excess > 100ms"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "applied"),
    [
        ("@slow", "excess > 100ms"),
        ("@either and ~e", "(topic == a or topic == b) and ~e"),
        ("@marked", "@marked"),
        ("@17", "@17"),
    ],
)
async def test_a_saved_filter_can_be_applied_by_its_name(typed: str, applied: str) -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, typed, "enter")
        assert [text for text, _ in app.applied] == [applied]


@pytest.mark.slow
async def test_a_saved_filter_that_makes_no_sense_says_so() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open("@broken")
        await type_in(pilot, "", "enter")
        assert app.applied == []
        assert "x ==" in told_by(app.bar)


# ---------------------------------------------------------------- typed, pasted and displayed text
@pytest.mark.slow
async def test_what_is_pasted_over_several_lines_becomes_one() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await pilot.pause()
        app.bar._line.post_message(events.Paste("api == Fetch\n  and\ttopic == a\n"))
        await quiet(pilot)
        assert app.bar.text == "api == Fetch and topic == a"


@pytest.mark.slow
async def test_nothing_in_the_line_reaches_the_terminal_as_it_is() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open('topic == "\x1b[31m\u202e[b]x" and no')
        await type_in(pilot, "pe > 1")
        shown = "".join(segment.text for segment in app.bar._line.render_line(0))
        assert shown.startswith('topic == "�[31m�[b]x" and nope > 1')
        assert "\x1b" not in told_by(app.bar)


@pytest.mark.slow
async def test_a_very_long_filter_scrolls_and_is_judged() -> None:
    app = BarApp()
    text = " or ".join(f"topic == orders{number}" for number in range(500))
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open(text)
        await quiet(pilot)
        assert app.bar.verdict.validity is Validity.VALID
        line = app.bar._line
        shown = "".join(segment.text for segment in line.render_line(0))
        assert shown.rstrip().endswith("topic == orders499")
        await type_in(pilot, " and nope > 1")
        assert "there is no field nope" in told_by(app.bar)
        await type_in(pilot, "", "home")
        assert told_by(app.bar).startswith("there is no field nope")


# ---------------------------------------------------------------- position of the offers
@pytest.mark.slow
@pytest.mark.parametrize("below", [False, True])
async def test_the_offers_never_cover_the_line(below: bool) -> None:
    app = BarApp(below=below)
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "c")
        found = app.bar.query_one(CompletionList)
        for size in ((80, 24), (40, 8), (200, 50), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert found.is_open
            assert not found.region.overlaps(app.bar.region)
            assert app.screen.region.contains_region(found.region)


@pytest.mark.slow
async def test_too_many_offers_say_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(text: str, cursor: int | None = None, known: Any = None) -> list[Candidate]:
        return [Candidate(f"word{number}", "field", "", 0) for number in range(1_000)]

    monkeypatch.setattr(filter_bar, "complete", many)
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "w", "pagedown", "pagedown", "up")
        found = app.bar.query_one(CompletionList)
        assert len(found.candidates) == 200
        last = found.get_option_at_index(200)
        assert str(last.prompt) == "… 800 more: type on"
        assert found.highlighted == 17
        await type_in(pilot, "", "pageup", "pageup", "pageup", "up")
        assert found.highlighted == 199


@pytest.mark.slow
async def test_an_offer_can_be_clicked() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "topi")
        await pilot.click(CompletionList, offset=(3, 1))
        await quiet(pilot)
        assert app.bar.text == "topic_partition "
        assert app.bar._line.has_focus


@pytest.mark.slow
async def test_who_goes_elsewhere_is_offered_nothing() -> None:
    app = BarApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bar.open()
        await type_in(pilot, "topi")
        app.query_one(OptionList).focus()
        await quiet(pilot)
        assert offered(app.bar) == []
        assert app.bar.is_open


# ---------------------------------------------------------------- appearance
@pytest.mark.slow
def test_snapshot_of_a_mistake(snap_compare: Any) -> None:
    async def prepare(pilot: Any) -> None:
        still(pilot.app)
        pilot.app.bar.open()
        await type_in(pilot, "latency > 1 and api == Fetch", "escape")

    assert snap_compare(BarApp(), run_before=prepare, terminal_size=(80, 12))


@pytest.mark.slow
def test_snapshot_of_offers(snap_compare: Any) -> None:
    async def prepare(pilot: Any) -> None:
        still(pilot.app)
        pilot.app.bar.open()
        await type_in(pilot, "api == Fetch and client", "down")

    assert snap_compare(BarApp(below=True), run_before=prepare, terminal_size=(100, 16))
