"""The tree of fields: keys, mouse, persistent folding, and hostile texts."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from kproxy.tui.detail import FieldNode, SideDetail, detail_of
from kproxy.tui.widgets.field_tree import FieldTree
from tests.kproxy.tui.detail.details import detail_at, exchange_of, node_at
from tests.kproxy.tui.detail.test_folds import metadata
from tests.kproxy.tui.widgets.panes import One, drawn, lines

HEARTBEAT = {"group_id": "g", "generation_id": 41, "member_id": "m"}


class Tree(One):
    """A tree of a response."""

    def __init__(self, side: SideDetail) -> None:
        super().__init__(FieldTree("response"))
        self.side = side

    @property
    def tree(self) -> FieldTree:
        return self.query_one(FieldTree)

    def on_mount(self) -> None:
        self.tree.show(self.side, "Metadata")
        self.tree.focus()

    def selected(self) -> list[str]:
        return [message.node.path for message in self.told if isinstance(message, FieldTree.FieldSelected)]


async def test_lines() -> None:
    app = Tree(detail_of(exchange_of(12, 4, HEARTBEAT, {"throttle_time_ms": 5, "error_code": 27})).response)
    async with app.run_test(size=(60, 10)):
        assert lines(app.tree) == [
            "▾ Heartbeat v4  16 bytes",
            "▸ header  correlation_id 7",
            "  throttle_time_ms 5 ms",
            "  error_code 27  REBALANCE_IN_PROGRESS",
        ]


@pytest.mark.slow
async def test_moving_tells_which_field_is_selected() -> None:
    app = Tree(metadata(3))
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.press("j", "down", "k", "G", "g", "g", "k")
        await pilot.pause()
        assert app.selected()[:3] == ["response.header", "response.brokers", "response.header"]
        assert app.selected()[-1] == "response"
        assert len(app.selected()) == 5
        await pilot.press("pagedown", "pagedown", "ctrl+b")
        assert app.tree.cursor == len(drawn(app.tree)) - 1


@pytest.mark.slow
async def test_folding_by_key() -> None:
    app = Tree(metadata(3))
    async with app.run_test(size=(60, 40)) as pilot:
        tree = app.tree
        tree.select(node_at(app.side, "brokers[1].host"))
        await pilot.press("h")
        assert tree.selected is node_at(app.side, "brokers[1]")
        await pilot.press("left")
        assert lines(tree)[tree.cursor].lstrip().startswith("▸ [1]  node_id 1")
        await pilot.press("l")
        assert lines(tree)[tree.cursor].strip() == "▾ [1]"
        await pilot.press("l")
        assert tree.selected is node_at(app.side, "brokers[1].node_id")
        await pilot.press("h", "h", "h")
        assert tree.selected is node_at(app.side, "brokers")
        await pilot.press("enter")
        assert not any("node_id" in line for line in lines(tree)[tree.cursor + 1 :])


@pytest.mark.slow
async def test_the_rest_of_an_array_comes_when_asked_for() -> None:
    app = Tree(metadata(1000))
    async with app.run_test(size=(60, 60)) as pilot:
        tree = app.tree
        assert lines(tree)[-1].strip() == "▸ … 990 more"
        await pilot.press("G", "enter")
        assert len(lines(tree)) > 1000
        await pilot.press("G")
        assert tree.selected is not None
        assert tree.selected.path.startswith("response.topics[999]")
        await pilot.press("g", "asterisk")
        assert len(lines(tree)) > 5000


@pytest.mark.slow
async def test_a_leaf_leads_to_its_bytes_and_a_field_to_a_column() -> None:
    app = Tree(metadata(2))
    async with app.run_test(size=(60, 30)) as pilot:
        app.tree.select(node_at(app.side, "topics[1].name"))
        await pilot.press("enter", "plus", "right_square_bracket", "left_square_bracket")
        await pilot.pause()
        shown, column, forward, back = app.told
        assert isinstance(shown, FieldTree.ShowBytes)
        assert isinstance(column, FieldTree.AddColumn)
        assert column.field == "response.topics.name"
        assert isinstance(forward, FieldTree.StepExchange)
        assert isinstance(back, FieldTree.StepExchange)
        assert (forward.step, back.step) == (1, -1)


@pytest.mark.slow
async def test_what_is_no_column_is_said() -> None:
    app = Tree(metadata(2))
    async with app.run_test(size=(60, 30)) as pilot:
        await pilot.press("g", "plus")
        await pilot.pause()
        assert not app.told
        assert [notice.message for notice in app._notifications] == ["This field cannot be a column."]


async def test_the_cursor_stays_on_the_field_from_exchange_to_exchange() -> None:
    app = Tree(metadata(3))
    async with app.run_test(size=(60, 40)) as pilot:
        tree = app.tree
        tree.select(node_at(app.side, "topics[2].name"))
        await pilot.press("up", "down")
        fewer = metadata(1)
        tree.show(fewer, "Metadata")
        assert tree.selected is node_at(fewer, "topics")
        again = metadata(4)
        tree.show(again, "Metadata")
        assert tree.selected is node_at(again, "topics[2].name")
        other = detail_of(exchange_of(12, 4, HEARTBEAT, {"error_code": 0})).response
        tree.show(other, "Heartbeat")
        assert tree.selected is other.root
        tree.show(again, "Metadata")
        assert tree.selected is node_at(again, "topics[2].name")


@pytest.mark.slow
async def test_clicks() -> None:
    app = Tree(metadata(3))
    async with app.run_test(size=(60, 40)) as pilot:
        tree = app.tree
        at = lines(tree).index("▾ brokers (3)")
        await pilot.click(FieldTree, offset=(10, at))
        assert tree.selected is node_at(app.side, "brokers")
        assert lines(tree)[at] == "▾ brokers (3)"
        await pilot.click(FieldTree, offset=(0, at))
        assert lines(tree)[at].startswith("▸ brokers (3)")
        await pilot.click(FieldTree, offset=(10, at), times=2)
        assert lines(tree)[at] == "▾ brokers (3)"
        assert app.screen.get_selected_text() is None
        await pilot.click(FieldTree, offset=(30, 39))
        assert tree.selected is node_at(app.side, "brokers")


@pytest.mark.slow
async def test_text_can_be_selected() -> None:
    app = Tree(metadata(3))
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.mouse_down(FieldTree, offset=(2, 1))
        await pilot.hover(FieldTree, offset=(9, 2))
        await pilot.mouse_up(FieldTree, offset=(9, 2))
        await pilot.pause()
        assert app.screen.get_selected_text() == "header  correlation_id 7\n▾ brokers"
        assert app.tree.cursor == 0


@pytest.mark.slow
async def test_hostile_texts_take_the_cells_they_are_given() -> None:
    hostile = (
        "\x1b[31m[bold]\u202eevil\u200b\n漢字漢字 e\u0301\u0301\u0301\u0301 \U0001f468\u200d\U0001f469 " * 3
    )
    body = {"brokers": [{"node_id": 1, "host": hostile, "port": 1, "rack": hostile}], "controller_id": 1}
    exchange = exchange_of(3, 1, {"topics": []}, {**body, "topics": []})
    exchange.annotations.decoded["response.brokers[0].host"] = {hostile: hostile, "\x07": [hostile]}
    app = Tree(detail_of(exchange).response)
    for width in (20, 33, 60, 200):
        async with app.run_test(size=(width, 30)):
            for line in drawn(app.tree):
                assert cell_len(line) == width - 1  # without the scroll bar
                assert line.isprintable()
        app = Tree(app.side)


@pytest.mark.slow
async def test_a_side_without_a_frame_says_why() -> None:
    app = Tree(SideDetail("response", "Heartbeat v4", absent="no answer"))
    async with app.run_test(size=(40, 5)) as pilot:
        assert lines(app.tree) == ["no answer"]
        await pilot.press("j", "enter", "h", "l", "asterisk", "G", "g")
        assert not app.told


@pytest.mark.slow
async def test_ten_thousand_fields_unfold_at_once() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    app = Tree(metadata(4000))
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.press("asterisk", "G")
        assert len(app.tree.lines) > 16_000
        last = app.tree.selected
        assert isinstance(last, FieldNode)
        assert last.path == "response.topics[3999].partitions"
        app.tree.show(side, "Fetch")
        assert app.tree.cursor == 0
