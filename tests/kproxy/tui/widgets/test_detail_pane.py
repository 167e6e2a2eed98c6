"""Trees and bytes together: a selection in one is shown in the other."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from captures.exchanges.table import Flag
from kproxy.tui.detail import Detail, detail_of
from kproxy.tui.search import parse_search
from kproxy.tui.widgets.byte_view import ByteView
from kproxy.tui.widgets.field_info import FieldInfo
from tests.kproxy.tui.detail.details import detail_at, exchange_of, node_at
from tests.kproxy.tui.widgets.panes import Details, lines

CK = "20_k430_ck_zstd.pcap"
SIZES = [(80, 12), (80, 24), (120, 24), (200, 50), (60, 10), (40, 40)]


def rebalance() -> Detail:
    asked = {"group_id": "audit", "generation_id": 41, "member_id": "m-2f9c"}
    return detail_of(exchange_of(12, 4, asked, {"throttle_time_ms": 0, "error_code": 27}))


def info(app: Details) -> str:
    return str(app.query_one(FieldInfo)._text.visual)


@pytest.mark.slow
async def test_a_field_shows_its_bytes_and_what_it_means() -> None:
    app = Details(rebalance())
    async with app.run_test(size=(120, 30)) as pilot:
        app.pane.focus_fields()
        await pilot.press("G")
        await pilot.pause()
        assert app.pane.selected_field is node_at(app.pane.detail.response, "error_code")
        assert app.pane.bytes.field == (13, 15)
        assert "[00 1b]" in lines(app.pane.bytes)[1]
        assert info(app).splitlines()[0] == "error_code 27  REBALANCE_IN_PROGRESS  int16  bytes 13-14"
        assert "rejoin" in info(app).lower()


@pytest.mark.slow
async def test_every_byte_leads_to_its_field_and_the_field_to_its_bytes() -> None:
    app = Details(detail_at(CK, 25))
    async with app.run_test(size=(120, 40)) as pilot:
        pane = app.pane
        side = pane.detail.response
        pane.bytes.focus()
        await pilot.pause()
        for offset in range(len(side.buffers[0].data)):
            pane.bytes.move_to(offset)
            await _all_told(pilot)
            node = pane.tree_of("response").selected
            assert node is side.at(0, offset)
            begin, end = pane.bytes.field
            assert pane.bytes.cursor == offset
            assert (begin, end) == ((node.start, node.end) if node is not side.root else (0, 0))


async def _all_told(pilot: Pilot[None]) -> None:
    """Wait until the messages between the widgets have arrived."""
    await pilot._wait_for_screen()


@pytest.mark.slow
async def test_fields_of_compressed_records_have_the_bytes_they_were_in() -> None:
    app = Details(detail_at(CK, 34))
    async with app.run_test(size=(160, 40)) as pilot:
        pane = app.pane
        side = pane.detail.response
        value = node_at(side, "responses[0].partitions[2].records[0].records[70].value")
        pane.focus_fields()
        tree = pane.tree_of("response")
        tree.select(value)
        await pilot.press("up", "down")
        await pilot.pause()
        assert tree.selected is value
        assert (pane.bytes.buffer_index, pane.bytes.field) == (value.buffer, (value.start, value.end))
        assert "decompressed" in info(app)
        await pilot.press("enter")
        assert pane.bytes.has_focus
        await pilot.press("left_square_bracket", "left_square_bracket", "G", "enter")
        await pilot.pause()
        assert tree.has_focus
        assert tree.selected is side.at(0, len(side.buffers[0].data) - 1)


@pytest.mark.slow
async def test_the_side_that_is_looked_at_has_its_bytes_shown() -> None:
    app = Details(rebalance())
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.pane
        assert str(pane.bytes.border_title) == "bytes of response"
        pane.tree_of("request").focus()
        await pilot.pause()
        assert str(pane.bytes.border_title) == "bytes of request"
        assert pane.bytes.buffer is pane.detail.request.buffers[0]
        pane.show(detail_of(exchange_of(12, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})))
        pane.tree_of("response").focus()
        await pilot.pause()
        assert str(pane.bytes.border_title) == "bytes of request"


@pytest.mark.slow
async def test_nothing_and_unanswered_are_shown_as_such() -> None:
    app = Details(None)
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.pane
        await pilot.press("tab", "j", "tab", "j", "G", "enter")
        assert pane.selected_field is None
        assert not await pane.search(parse_search("x"), forward=True)
        asked = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        pane.show(detail_of(exchange_of(12, 4, asked, flag=Flag.UNANSWERED)))
        await pilot.pause()
        assert lines(pane.tree_of("response")) == ["no answer"]
        assert pane.side == "request"


@pytest.mark.slow
async def test_searching_in_the_trees_unfolds_what_it_finds() -> None:
    app = Details(detail_at(CK, 34))
    async with app.run_test(size=(160, 40)) as pilot:
        pane = app.pane
        pane.focus_fields()
        await pilot.pause()
        needle = node_at(pane.detail.response, "responses[0].partitions[2].records[0].records[70].value")
        wanted = parse_search(needle.value.decode()[:12])
        assert await pane.search(wanted, forward=True)
        found = pane.selected_field
        assert found is not None
        assert wanted.in_text(found.value.decode())
        assert not await pane.search(parse_search("no such text"), forward=True)
        assert pane.selected_field is found
        assert await pane.search(parse_search("session_epoch"), forward=False)
        assert pane.selected_field is node_at(pane.detail.request, "session_epoch")
        await pilot.pause()
        assert pane.tree_of("request").has_focus


@pytest.mark.slow
async def test_searching_in_the_bytes() -> None:
    app = Details(detail_at(CK, 34))
    async with app.run_test(size=(160, 40)) as pilot:
        pane = app.pane
        pane.bytes.focus()
        await pilot.pause()
        frame = pane.detail.response.buffers[0].data
        assert await pane.search(parse_search("0x28b52ffd"), forward=True)
        assert pane.bytes.cursor == frame.index(bytes.fromhex("28b52ffd"))
        assert pane.bytes.field == (pane.bytes.cursor, pane.bytes.cursor + 4)
        assert pane.selected_field is pane.detail.response.at(0, pane.bytes.cursor)
        assert await pane.search(parse_search("0x28b52ffd"), forward=True)
        assert pane.bytes.cursor == frame.rindex(bytes.fromhex("28b52ffd"))
        pane.bytes.select(1, 0, 0)
        assert not await pane.search(parse_search("0x28b52ffd28b52ffd"), forward=True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", SIZES)
async def test_something_useful_shows_in_every_size(size: tuple[int, int]) -> None:
    app = Details(rebalance())
    async with app.run_test(size=size) as pilot:
        pane = app.pane
        pane.focus_fields()
        await pilot.press("j", "j")
        await pilot.pause()
        tree, view = pane.tree_of("response"), pane.bytes
        assert tree.size.height >= 3
        assert tree.size.width >= 30
        assert view.size.height >= 1
        assert view.per_line >= 4
        assert pane.query_one(FieldInfo).size.height >= 1
        for widget in (tree, view, pane.query_one(FieldInfo)):
            assert pane.region.contains_region(widget.region)


@pytest.mark.slow
async def test_the_panes_find_their_place_when_the_terminal_changes() -> None:
    app = Details(rebalance())
    async with app.run_test(size=(200, 50)) as pilot:
        view = app.query_one(ByteView)
        assert app.pane.has_class("columns")
        wide = view.per_line
        await pilot.resize_terminal(80, 14)
        await pilot.pause()
        assert app.pane.has_class("stacked")
        assert view.per_line < wide
        await pilot.resize_terminal(100, 40)
        await pilot.pause()
        assert app.pane.has_class("below")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "size"), [(34, (160, 30)), (25, (80, 14)), (27, (80, 40))])
def test_looks_right(snap_compare: Any, number: int, size: tuple[int, int]) -> None:
    async def look(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Details)
        app.pane.focus_fields()
        await pilot.press(*"jjjjjjj")
        await pilot.pause()

    assert snap_compare(Details(detail_at(CK, number)), terminal_size=size, run_before=look)
