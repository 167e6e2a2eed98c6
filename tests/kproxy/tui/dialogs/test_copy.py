"""Copying exchanges from the UI."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from kproxy.copy_as import by_name
from kproxy.tui.dialogs.copy import CopyDialog, making, preview, taking
from tests.kproxy.tui.dialogs.hosting import DialogApp
from tests.kproxy.tui.kit import read_session, session_of, settled
from tests.waiting import until

SCRAM = Path(__file__).parents[3] / "data" / "captures" / "24_k430_franz_scramsha256.pcap"
JOIN_GROUP = 18


@pytest.fixture(autouse=True)
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "STY", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")


def text_of(app: DialogApp) -> str:
    return str(app.screen.query_one("#text", Static).visual)


def choose(app: DialogApp, name: str) -> None:
    options = app.screen.query_one(OptionList)
    options.highlighted = options.get_option_index(name)


@pytest.mark.slow
async def test_enter_copies_in_the_chosen_format() -> None:
    async with read_session() as session:
        app = DialogApp(session, lambda: CopyDialog(session, [JOIN_GROUP]))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            assert text_of(app).startswith('{"number":18,')
            await pilot.press("enter")
            await settled(pilot)
    assert [json.loads(text)["api"] for text in app.copied] == ["JoinGroup"]
    assert app.answers[0].startswith("JSON: ")


@pytest.mark.slow
async def test_a_fault_is_told_and_the_dialog_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> str:
        raise KeyError("planted")

    async with read_session() as session:
        app = DialogApp(session, lambda: CopyDialog(session, [JOIN_GROUP]))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            monkeypatch.setattr("kproxy.tui.dialogs.copy.preview", breaks)
            await pilot.press("down")
            await settled(pilot)
            assert "failed: KeyError: 'planted'" in text_of(app)
            monkeypatch.undo()
            await pilot.press("up")
            await settled(pilot)
            assert text_of(app).startswith('{"number":18,')


@pytest.mark.slow
async def test_the_preview_follows_the_selection() -> None:
    async with read_session() as session:
        app = DialogApp(session, lambda: CopyDialog(session, [JOIN_GROUP]))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            await pilot.press("down", "down", "down")
            await settled(pilot)
            assert text_of(app).startswith("# request 18: JoinGroup")
            await pilot.press("k", "escape")
            await settled(pilot)
    assert app.answers == [None]
    assert app.copied == []


@pytest.mark.slow
async def test_a_format_can_go_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "it.txt"
    out.write_text("before")
    async with read_session() as session:
        app = DialogApp(session, lambda: CopyDialog(session, [JOIN_GROUP]))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            choose(app, "filter")
            await pilot.press("f")
            await until(lambda: app.screen.query(Input))
            app.screen.query_one(Input).value = str(out)
            await pilot.press("enter")
            await until(lambda: app.screen.query("#question"))
            await pilot.press("y")
            await settled(pilot)
    assert out.read_text() == "number == 18\n"
    assert f"written to {out}" in app.answers[0]


@pytest.mark.slow
async def test_secrets_are_not_copied_as_bytes() -> None:
    async with read_session(SCRAM) as session:
        numbers = await session.run(
            lambda access: [
                each.number
                for each in access.reader
                if each.api == "SaslAuthenticate" and each.annotations.masked
            ]
        )
        app = DialogApp(session, lambda: CopyDialog(session, numbers[:1]))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            choose(app, "request-hex")
            await settled(pilot)
            assert "holds secrets, which are masked" in text_of(app)
            await pilot.press("enter")
            await settled(pilot)
            assert app.copied == []
            assert isinstance(app.screen, CopyDialog)
            choose(app, "hexdump")
            await settled(pilot)
            assert "** **" in text_of(app)


@pytest.mark.slow
async def test_what_is_too_long_for_a_terminal_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.tui.clipboard.OSC52_BYTES", 10)
    async with read_session() as session:
        app = DialogApp(session, lambda: CopyDialog(session, [JOIN_GROUP]))
        async with app.run_test(size=(100, 30)) as pilot:
            await settled(pilot)
            await pilot.press("enter")
            await settled(pilot)
            assert "too much for the clipboard of a terminal" in text_of(app)
            assert "f writes it to a file" in text_of(app)
    assert app.copied == []


@pytest.mark.slow
async def test_an_exchange_that_is_gone_is_said() -> None:
    async with read_session() as session:
        app = DialogApp(session, lambda: CopyDialog(session, [999_999]))
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot)
            assert "there is no exchange 999,999" in text_of(app)
            await pilot.press("enter", "f", "escape")
    assert app.answers == [None]


async def test_a_format_can_be_made_without_a_dialog() -> None:
    async with read_session() as session:
        exchanges = await session.run(taking([3, 4, 5, 9]))
        assert await session.run(making(by_name("filter"), exchanges, session)) == "number in {3..5, 9}\n"
        with pytest.raises(LookupError, match="999"):
            await session.run(taking([999_999]))
    with pytest.raises(LookupError, match="there is no format 'xml'; there are json, tree"):
        by_name("xml")


def test_a_preview_is_harmless_and_short() -> None:
    text = "[red]a\x1b[2J\u202e\n" + "x" * 10_000 + "\n" + "y\n" * 1_000
    shown, wrapped = preview(text)
    assert not wrapped
    assert shown.spans == []
    lines = shown.plain.split("\n")
    assert lines[0] == "[red]a�[2J�"
    assert len(lines[1]) == 400
    assert lines[-1] == "… 602 more lines"
    content, wrapped = preview("x" * 10_000 + "\n")
    assert wrapped
    assert len(content.plain) == 8_000


@pytest.mark.slow
def test_looks_right(snap_compare: Any) -> None:
    """The list of formats, and a JoinGroup in the tree format."""
    session = session_of()
    session.start()
    asyncio.run(session.idle())  # the dialog sends its request as soon as it is shown

    async def run_before(pilot: Pilot[Any]) -> None:
        await until(lambda: pilot.app.screen.query_one("#formats", OptionList).highlighted == 0)
        await settled(pilot)
        await pilot.press("down")
        await until(lambda: "group_id" in str(pilot.app.screen.query_one("#text", Static).visual))
        await settled(pilot)

    try:
        app = DialogApp(session, lambda: CopyDialog(session, [JOIN_GROUP]))
        assert snap_compare(app, run_before=run_before, terminal_size=(80, 24))
    finally:
        session.close()
