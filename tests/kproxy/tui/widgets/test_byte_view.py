"""The bytes: their positions, their marks, and moving in them."""

from __future__ import annotations

from time import process_time

import pytest
from rich.cells import cell_len

from kproxy.tui.detail import ByteBuffer, FieldNode, Role, SideDetail
from kproxy.tui.widgets.byte_view import ByteView
from tests.kproxy.tui.detail.details import detail_at
from tests.kproxy.tui.widgets.panes import One, drawn, lines


def side_of(data: bytes, **options: object) -> SideDetail:
    root = FieldNode("Fetch", "response", Role.FIELD, "frame", None, 0, 0, len(data))
    return SideDetail("response", "Fetch", root, buffers=(ByteBuffer("frame", data, root, **options),))  # type: ignore[arg-type]


class Bytes(One):
    """The bytes of a side."""

    def __init__(self, side: SideDetail) -> None:
        super().__init__(ByteView())
        self.side = side

    @property
    def view(self) -> ByteView:
        return self.query_one(ByteView)

    def on_mount(self) -> None:
        self.view.show(self.side)
        self.view.focus()

    def selected(self) -> list[int]:
        return [message.offset for message in self.told if isinstance(message, ByteView.ByteSelected)]


async def test_lines() -> None:
    app = Bytes(side_of(bytes(range(0x1C, 0x30)) + b"\xff\x1b[3", segments=(0, 10)))
    async with app.run_test(size=(80, 10)):
        app.view.select(0, 2, 6)
        assert lines(app.view) == [
            "0000  1c 1d[1e 1f 20 21]22 23  24 25|26 27 28 29 2a 2b  .... !\"#$%&'()*+",
            "0010  2c 2d 2e 2f ff 1b 5b 33                           ,-./..[3",
        ]


@pytest.mark.parametrize(
    ("width", "per_line"), [(200, 32), (140, 32), (138, 16), (75, 16), (42, 8), (30, 4), (5, 4)]
)
async def test_as_many_bytes_as_there_is_room_for(width: int, per_line: int) -> None:
    app = Bytes(side_of(bytes(range(256)) * 2))
    async with app.run_test(size=(width, 12)):
        assert app.view.per_line == per_line
        assert all(cell_len(line) == width - 1 for line in drawn(app.view))


async def test_masked_bytes_are_not_shown() -> None:
    app = Bytes(side_of(b"user\0\0\0\0\0\0", masked=((4, 10),)))
    async with app.run_test(size=(80, 10)):
        assert lines(app.view) == ["0000  75 73 65 72 ** ** ** **  ** **                    user******"]


async def test_what_is_missing_is_said() -> None:
    app = Bytes(side_of(b"1234", missing=1204))
    async with app.run_test(size=(80, 10)):
        assert lines(app.view)[1] == "… 1,204 bytes were not captured"
        assert app.view.line_count() == 2


@pytest.mark.slow
async def test_moving() -> None:
    app = Bytes(side_of(bytes(100)))
    async with app.run_test(size=(80, 4)) as pilot:
        await pilot.press("l", "j", "h", "up", "up", "G", "down", "right", "home")
        await pilot.pause()
        assert app.selected() == [1, 17, 16, 0, 99, 99, 0]
        await pilot.press("pagedown", "space", "pageup")
        await pilot.pause()
        assert app.selected()[-3:] == [48, 96, 48]
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.told[-1], ByteView.ShowField)


@pytest.mark.slow
async def test_clicks_in_both_columns() -> None:
    app = Bytes(side_of(bytes(range(40))))
    async with app.run_test(size=(80, 10)) as pilot:
        for line in (0, 1):
            text = app.view.line_text(line)
            for index in (0, 7, 8, 15):
                place = text.index(f"{16 * line + index:02x}", 5)
                await pilot.click(ByteView, offset=(place, line))
                await pilot.click(ByteView, offset=(len(text) - 16 + index, line))
        await pilot.click(ByteView, offset=(2, 0))
        await pilot.click(ByteView, offset=(30, 2))
        await pilot.click(ByteView, offset=(30, 8))
        await pilot.pause()
        assert app.selected() == [offset for offset in (0, 7, 8, 15, 16, 23, 24, 31) for _ in range(2)]


@pytest.mark.slow
async def test_other_bytes_are_tabs() -> None:
    side = detail_at("20_k430_ck_zstd.pcap", 34).response
    app = Bytes(side)
    async with app.run_test(size=(120, 10)) as pilot:
        assert str(app.view.border_title) == "bytes of response  frame (1 of 3, [ and ])  5 segments"
        await pilot.press("right_square_bracket")
        assert app.view.buffer is side.buffers[1]
        assert lines(app.view)[0].startswith("0000  ")
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert app.view.buffer is side.buffers[2]
        await pilot.pause()
        assert [message.buffer for message in app.told if isinstance(message, ByteView.ByteSelected)] == [
            1,
            0,
            2,
        ]


@pytest.mark.slow
async def test_text_can_be_selected() -> None:
    app = Bytes(side_of(b"0123456789abcdef" * 3))
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.mouse_down(ByteView, offset=(0, 0))
        await pilot.hover(ByteView, offset=(7, 1))
        await pilot.mouse_up(ByteView, offset=(7, 1))
        await pilot.pause()
        assert app.screen.get_selected_text() == "\n".join([lines(app.view)[0], "0010  30"])


@pytest.mark.slow
async def test_a_hundred_megabytes_scroll_at_once() -> None:
    data = bytes(100_000_000)
    app = Bytes(side_of(data))
    async with app.run_test(size=(80, 24)) as pilot:
        begin = process_time()
        await pilot.press("G")
        await pilot.pause()
        assert app.view.cursor == len(data) - 1
        assert drawn(app.view)[-1].startswith("5f5e0f0")
        assert process_time() - begin < 2


@pytest.mark.slow
async def test_without_bytes_nothing_happens() -> None:
    app = Bytes(SideDetail("response", "Fetch v4", absent="no answer"))
    async with app.run_test(size=(80, 5)) as pilot:
        await pilot.press("j", "k", "h", "l", "G", "g", "pagedown", "pageup", "right_square_bracket")
        await pilot.click(ByteView, offset=(8, 0))
        assert lines(app.view) == [""]
        assert not app.selected()
