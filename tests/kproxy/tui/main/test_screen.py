from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from captures.exchanges import ExchangeReader, open_capture
from captures.filters import compile_filter
from kproxy.tui.app import KproxyApp
from kproxy.tui.commands import BY_NAME
from kproxy.tui.main.lines import KeyLine, StatusLine
from kproxy.tui.main.view_line import ViewLine
from kproxy.tui.settings import Settings
from kproxy.tui.views.base import Progress
from kproxy.tui.views.clients import Clients
from kproxy.tui.views.exchanges import Arrangement
from kproxy.tui.widgets.byte_view import ByteView
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.filter_bar import FilterBar
from tests.conftest import DATA
from tests.kproxy.tui.kit import REBALANCE, main_of, opened, session_of, settled, shown_lines
from tests.waiting import until

ARGUMENTS = {
    "app.theme": "nord",
    "app.screenshot": "shot.svg",
    "filter.edit": "api == Fetch",
    "filter.save": "mine",
    "search.start": "Fetch",
    "comment.edit": "a comment",
    "goto.number": "17",
    "question.journey": "r2-java_eager_range-3@3",
    "question.party": "m1",
    "question.config": "m1",
    "question.compat": "4.3",
    "question.diff": "0s..10s 10s..",
    "order.choose": "latency",
    "columns.profile": "timing",
    "hold.filter": "api == Fetch",
    "rule.add": "api == Fetch => delay 1ms",
    "replay.start": "127.0.0.1:1",
    "write.selection": "out.pcapng",
    "copy.as": "json",
    "records.schema": "none.avsc",
}
"""Valid arguments for each command on the command line."""

VIEWS = {
    "1": "exchanges",
    "2": "connections",
    "3": "clients",
    "4": "topics",
    "R": "records",
    "5": "groups",
    "6": "latency",
    "7": "errors",
    "8": "conversation",
    "9": "faults",
}


def shown_text(pilot: Pilot[Any]) -> str:
    """Return the text on the screen."""
    return "\n".join(shown_lines(pilot))


def fitting(text: str, path: Path = REBALANCE) -> list[int]:
    capture = open_capture(str(path))
    capture.read()
    return (compile_filter(text).select(ExchangeReader(capture)) + 1).tolist()  # type: ignore[no-any-return]


# ------------------------------------------------------------ panes and views
@pytest.mark.slow
async def test_the_list_the_fields_and_the_bytes_are_there() -> None:
    async with opened() as pilot:
        text = shown_text(pilot)
        assert "402 exchanges" in text
        assert "ApiVersions v3" in text
        assert "confluent-python" in text
        assert "0000  00 00" in text
        assert isinstance(pilot.app.focused, ExchangeList)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["small", "large"])
async def test_every_view_opens_on_its_key(size: tuple[int, int]) -> None:
    async with opened(size=size) as pilot:
        for key, name in VIEWS.items():
            await pilot.press(key)
            await settled(pilot)
            assert main_of(pilot).view.view_name == name
            assert main_of(pilot).view.size.height > 10


@pytest.mark.slow
async def test_a_view_that_is_asked_for_twice_at_once_is_made_once() -> None:
    async with opened() as pilot:
        main = main_of(pilot)
        for name in ("groups", "groups", "faults"):  # like commands
            main.run_worker(main.show_view(name))
        main.query_one(ViewLine).post_message(ViewLine.Chosen("faults"))
        await pilot.press("5")
        await settled(pilot)
        assert not main.session.status.faults
        assert main.view.view_name in ("groups", "faults")
        assert len(main.query("#groups")) == len(main.query("#faults")) == 1


async def test_tab_goes_through_the_panes() -> None:
    async with opened() as pilot:
        met = []
        for _ in range(5):
            met.append(type(pilot.app.focused))
            await pilot.press("tab")
        assert met[:4] == [ExchangeList, FieldTree, FieldTree, ByteView]
        assert met[4] is ExchangeList


async def test_enter_goes_to_the_fields_and_their_bytes() -> None:
    async with opened() as pilot:
        await pilot.press("enter")
        assert isinstance(pilot.app.focused, FieldTree)


@pytest.mark.slow
async def test_a_pane_is_maximised_and_put_back() -> None:
    async with opened() as pilot:
        await pilot.press("tab", "backslash")
        await pilot.pause()
        assert main_of(pilot).maximized is pilot.app.focused
        await pilot.press("backslash")
        await pilot.pause()
        assert main_of(pilot).maximized is None


@pytest.mark.slow
async def test_layouts_go_round() -> None:
    async with opened(size=(200, 50)) as pilot:
        met = []
        for _ in range(4):
            met.append(main_of(pilot).exchanges.arrangement)
            await pilot.press("minus")
            await settled(pilot)
        assert met == [Arrangement.STACKED, Arrangement.BESIDE, Arrangement.LIST, Arrangement.STACKED]


@pytest.mark.slow
async def test_the_line_of_keys_can_be_hidden() -> None:
    async with opened() as pilot:
        await pilot.press("H")
        assert not main_of(pilot).query_one(KeyLine).display
        await pilot.press("H")
        assert main_of(pilot).query_one(KeyLine).display


@pytest.mark.slow
async def test_a_click_on_the_line_of_keys_presses_the_key() -> None:
    async with opened() as pilot:
        line = main_of(pilot).query_one(KeyLine).render().plain
        await pilot.click(KeyLine, offset=(line.index("filter"), 0))
        await until(lambda: isinstance(main_of(pilot).focused, Input))
        assert main_of(pilot).query_one(FilterBar).display


@pytest.mark.slow
async def test_a_key_below_is_explained_under_the_mouse_and_not_selected_by_clicks() -> None:
    async with opened() as pilot:
        line = main_of(pilot).query_one(KeyLine)
        at = line.render().plain.index("follow"), 0
        await pilot.hover(KeyLine, offset=at)
        await until(lambda: line.tooltip == BY_NAME["follow.toggle"].doc)
        await pilot.click(KeyLine, offset=at, times=2)
        assert line.text_selection is None


# ------------------------------------------------------------ filter
async def type_text(pilot: Pilot[Any], text: str) -> None:
    for character in text:
        await pilot.press({" ": "space", "=": "equals_sign", "_": "underscore"}.get(character, character))


@pytest.mark.slow
async def test_a_filter_is_typed_switched_off_and_taken_away() -> None:
    async with opened() as pilot:
        await pilot.press("f")
        await type_text(pilot, "api == Heartbeat")
        await pilot.press("escape", "enter")
        await settled(pilot)
        session = main_of(pilot).session
        if session.status.filter is None:  # escape closed the bar: there were no offers
            await pilot.press("f")
            await type_text(pilot, "api == Heartbeat")
            await pilot.press("enter")
            await settled(pilot)
        expected = fitting("api == Heartbeat")
        assert session.shown.all().tolist() == expected
        assert f"{len(expected)} shown" in shown_text(pilot)
        await pilot.press("t")
        await settled(pilot)
        assert len(session.shown) == 402
        assert "filter off: api == Heartbeat" in shown_text(pilot)
        await pilot.press("t")
        await settled(pilot)
        assert session.shown.all().tolist() == expected
        await pilot.press("c")
        await settled(pilot)
        assert len(session.shown) == 402


@pytest.mark.slow
async def test_a_quick_filter_is_made_of_the_exchange() -> None:
    async with opened() as pilot:
        main_of(pilot).go_to(18)
        await settled(pilot)
        await pilot.press("exclamation_mark")
        await settled(pilot)
        await pilot.press("enter")
        await settled(pilot)
        session = main_of(pilot).session
        assert session.status.filter is not None
        assert 18 in session.shown.all().tolist()
        assert 0 < len(session.shown) < 402


@pytest.mark.slow
async def test_narrowing_twice_shows_what_fits_both() -> None:
    async with opened() as pilot:
        screen = main_of(pilot)
        screen.list.use_filter("client_id == m1")
        await settled(pilot)
        screen.list.add_to_filter("api == Heartbeat or api == Fetch")
        await settled(pilot)
        assert screen.session.shown.all().tolist() == fitting(
            "client_id == m1 and (api == Heartbeat or api == Fetch)"
        )


@pytest.mark.slow
@pytest.mark.parametrize("key", ["2", "3", "4", "5", "7"])
async def test_rows_of_views_lead_to_their_exchanges(key: str) -> None:
    async with opened() as pilot:
        await pilot.press(key)
        await settled(pilot)
        await pilot.press("enter")
        await settled(pilot)
        assert main_of(pilot).view.view_name == "exchanges"
        assert 0 < len(main_of(pilot).session.shown) < 402


# ------------------------------------------------------------ order, search, places
@pytest.mark.slow
async def test_the_list_is_ordered_and_turned_round() -> None:
    async with opened() as pilot:
        await pilot.press("v")
        await settled(pilot)
        assert main_of(pilot).session.shown.number(0) == 402
        await pilot.press("v")
        await settled(pilot)
        assert main_of(pilot).session.shown.number(0) == 1
        await pilot.press("colon")
        await type_text(pilot, "order latency")
        await pilot.press("enter")
        await settled(pilot)
        status = main_of(pilot).session.status
        assert status.order is not None
        assert status.order.column == "latency"


@pytest.mark.slow
async def test_searching_the_list_goes_from_match_to_match() -> None:
    async with opened() as pilot:
        expected = fitting("api == JoinGroup")
        await pilot.press("slash")
        await type_text(pilot, "JoinGroup")
        await pilot.press("enter")
        await settled(pilot)
        met = [main_of(pilot).number]
        for key in ("n", "n", "N"):
            await pilot.press(key)
            await settled(pilot)
            met.append(main_of(pilot).number)
        assert met == [expected[0], expected[1], expected[2], expected[1]]


@pytest.mark.slow
async def test_what_is_nowhere_is_said_to_be() -> None:
    async with opened() as pilot:
        main_of(pilot).searches.action_search_start("no such text anywhere")
        await settled(pilot)
        assert "is in no exchange" in shown_text(pilot)


@pytest.mark.slow
async def test_an_exchange_is_gone_to_by_number() -> None:
    async with opened() as pilot:
        await pilot.press("colon")
        await type_text(pilot, "217")
        await pilot.press("enter")
        await settled(pilot)
        assert main_of(pilot).number == 217


# ------------------------------------------------------------ marks and comments
@pytest.mark.slow
async def test_marks() -> None:
    async with opened() as pilot:
        await pilot.press("m", "m")
        await settled(pilot)
        assert main_of(pilot).session.marked == [1, 2]
        assert main_of(pilot).number == 3
        await pilot.press("M")
        await settled(pilot)
        assert main_of(pilot).session.shown.all().tolist() == [1, 2]
        await pilot.press("U")
        await settled(pilot)
        assert main_of(pilot).session.marked == []
        assert len(main_of(pilot).session.shown) == 402


@pytest.mark.slow
async def test_a_comment_is_typed_and_shown() -> None:
    async with opened() as pilot:
        main_of(pilot).action_comment_edit("look at this")
        await settled(pilot)
        exchange = await main_of(pilot).session.exchange(1)
        assert exchange.note.comment == "look at this"
        await until(lambda: "look at this" in shown_text(pilot))


# ------------------------------------------------------------ messages
@pytest.mark.slow
async def test_a_damaged_capture_opens_with_a_banner(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(REBALANCE.read_bytes()[:100_000])
    async with opened(path) as pilot:
        banner = main_of(pilot).query_one("#banner", Static)
        assert banner.display
        assert "the file ends inside packet" in " ".join(shown_text(pilot).split())
        assert main_of(pilot).session.status.exchanges > 100


@pytest.mark.slow
async def test_what_is_no_kafka_is_said_to_be() -> None:
    async with opened(DATA / "06_tansu_garbage.pcap") as pilot:
        assert "looks like" in shown_text(pilot)


@pytest.mark.slow
async def test_the_fields_follow_the_cursor() -> None:
    async with opened() as pilot:
        await pilot.press("j")
        await settled(pilot)
        detail = main_of(pilot).exchanges.details.detail
        assert detail is not None
        assert detail.number == 2
        await pilot.press("G")
        await settled(pilot)
        detail = main_of(pilot).exchanges.details.detail
        assert detail is not None
        assert detail.number == 402


@pytest.mark.slow
async def test_live_commands_say_what_they_are_for_where_nothing_is_live() -> None:
    async with opened() as pilot:
        events = pilot.app.events  # type: ignore[attr-defined]
        for key in ("i", "I", "a", "A", "X", "e", "P", "O", "K"):
            events.clear()
            await pilot.press(key)
            await until(lambda: any("running proxy" in event.text for event in events))


@pytest.mark.slow
async def test_every_command_with_an_argument_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(ARGUMENTS) == {name for name, command in BY_NAME.items() if command.argument}
    async with opened() as pilot:
        for name, argument in ARGUMENTS.items():
            main_of(pilot).typing.perform(BY_NAME[name], argument)
            await settled(pilot)
            while len(pilot.app.screen_stack) > 1:
                await pilot.press("escape")
        session = main_of(pilot).session
        assert session.status.filter is not None
        assert session.status.order is not None
        assert (tmp_path / "shot.svg").exists()


@pytest.mark.slow
async def test_a_first_filter_is_used() -> None:
    async with opened(wanted=compile_filter("api == Fetch")) as pilot:
        assert main_of(pilot).session.shown.all().tolist() == fitting("api == Fetch")


@pytest.mark.slow
async def test_leaving_ends() -> None:
    app = KproxyApp(session_of(), Settings())
    async with app.run_test() as pilot:
        await settled(pilot)
        await pilot.press("q")
        await pilot.pause()
    app.session.close()
    assert app.return_code == 0


@pytest.mark.slow
async def test_the_status_line_shows_what_was_told() -> None:
    async with opened() as pilot:
        main_of(pilot).report("hello \x1b[31mthere")
        await pilot.pause()
        line = main_of(pilot).query_one(StatusLine).render().plain
        assert "hello �[31mthere" in line
        await asyncio.sleep(0)


async def test_a_count_that_ended_between_two_looks_is_not_shown_any_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting: list[Progress] = []
    monkeypatch.setattr(Clients, "counting", property(lambda _: counting[-1] if counting else None))
    async with opened() as pilot:
        await pilot.press("3")
        await settled(pilot)
        main = main_of(pilot)
        counting.append(Progress(0.06, 0))
        main._show_status(main.session.status)  # as if another status had been published meanwhile
        counting.clear()
        await until(lambda: "counting" not in shown_lines(pilot)[0])
