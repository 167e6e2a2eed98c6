"""Writing exchanges to files from the UI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Checkbox, Input, RadioButton, RadioSet, Static

from captures.exchanges import open_capture
from captures.filters import compile_filter
from kproxy.session import Session
from kproxy.session.access import Access
from kproxy.tui.dialogs.write import WriteDialog
from tests.kproxy.tui.dialogs.hosting import DialogApp
from tests.kproxy.tui.kit import REBALANCE, read_session, session_of, settled
from tests.waiting import until

pytestmark = pytest.mark.slow

JOIN_GROUPS = 16


def dialog(app: DialogApp) -> WriteDialog:
    assert isinstance(app.screen, WriteDialog)
    return app.screen


def problem(app: DialogApp) -> str:
    return str(dialog(app).query_one("#problem", Static).visual)


def choose(app: DialogApp, group: str, index: int) -> None:
    dialog(app).query_one(f"#{group}", RadioSet).query(RadioButton)[index].value = True


async def written(pilot: Pilot[None], app: DialogApp, name: Path, *keys: str) -> None:
    """Type a name and press Enter, then more keys if a question appears."""
    dialog(app).query_one(Input).value = str(name)
    await pilot.pause()
    await pilot.press("enter")
    if keys:
        await until(lambda: app.screen.query("#question"))
        await pilot.press(*keys)
    await settled(pilot)


async def filtered(session: Session) -> Session:
    await session.set_filter(compile_filter("api == JoinGroup"))
    return session


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("out.pcapng", b"\x0a\x0d\x0d\x0a"),
        ("out.jsonl", b'{"number":18,'),
        ("out.csv", b"number,time,"),
        ("out.parquet", b"PAR1"),
        ("out.mmd", b"sequenceDiagram\n"),
    ],
)
async def test_what_is_shown_is_written_in_the_format_of_the_name(
    name: str, begins: bytes, tmp_path: Path
) -> None:
    out = tmp_path / name
    async with read_session() as session:
        await filtered(session)
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            await written(pilot, app, out)
    assert app.answers[0].startswith(f"{JOIN_GROUPS} exchanges written to {out}, ")
    assert out.read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]


async def test_marks_and_comments_are_written_to_pcapng(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    async with read_session() as session:
        await session.mark([18, 20], True)
        await session.comment(18, "look\nhere")
        app = DialogApp(session, lambda: WriteDialog(session, name=str(out)))
        async with app.run_test(size=(80, 24)) as pilot:
            choose(app, "what", 1)
            await written(pilot, app, out)
    assert app.answers[0].startswith("2 exchanges written")
    capture = open_capture(str(out))
    capture.read()
    noted = [(note.marked, note.comment) for _, note in sorted(capture.notes.all().items())]
    assert sorted(noted) == [(True, ""), (True, "look\nhere")]


async def test_the_format_and_the_name_follow_each_other(tmp_path: Path) -> None:
    async with read_session() as session:
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            name = dialog(app).query_one(Input)
            assert name.value == "exchanges.pcapng"
            choose(app, "format", 2)
            await pilot.pause()
            assert name.value == "exchanges.csv"
            name.value = "x.json"
            await pilot.pause()
            assert dialog(app).query_one("#format", RadioSet).pressed_index == 1
            assert name.value == "x.json"
            assert not dialog(app).query_one("#text", Checkbox).disabled
            assert dialog(app).query_one("#scrub", Checkbox).disabled
            assert "masked" in str(dialog(app).query_one("#note", Static).visual)


async def test_what_is_typed_replaces_the_name_and_gets_its_suffix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with read_session() as session:
        await filtered(session)
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            choose(app, "format", 2)
            await pilot.pause()
            await pilot.press("o", "u", "t", "enter")
            await settled(pilot)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


async def test_a_file_is_overwritten_only_if_asked(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious")
    async with read_session() as session:
        await filtered(session)
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            await written(pilot, app, out, "enter")
            assert out.read_text() == "precious"
            assert app.answers == []
            await written(pilot, app, out, "y")
    assert len(out.read_text().splitlines()) == JOIN_GROUPS
    assert json.loads(out.read_text().splitlines()[0])["api"] == "JoinGroup"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "type the name of a file"),
        ("nowhere/out.csv", "there is no folder nowhere"),
        ("/", "is a folder"),
        ("/proc/out.csv", "/proc"),
    ],
)
async def test_a_name_that_cannot_be_is_refused(name: str, said: str) -> None:
    async with read_session() as session:
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            dialog(app).query_one(Input).value = name
            await pilot.pause()
            await pilot.press("f2")
            await settled(pilot)
            assert said in problem(app)


async def test_the_capture_itself_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "kafka.pcap"
    path.write_bytes(REBALANCE.read_bytes())
    async with read_session(path) as session:
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            await written(pilot, app, path, "y")
            assert "is one of the captures that are shown" in problem(app)
    assert path.read_bytes() == REBALANCE.read_bytes()


async def test_a_fault_is_told_and_the_dialog_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("kproxy.tui.dialogs.write.Export.run", breaks)
    async with read_session() as session:
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            await written(pilot, app, tmp_path / "out.pcapng")
            assert "writing failed: KeyError: 'planted'" in problem(app)
            assert not dialog(app).has_class("writing")


@pytest.mark.parametrize("name", ["out.pcapng", "out.jsonl"])
async def test_escape_stops_writing(name: str, tmp_path: Path) -> None:
    out, stop = tmp_path / name, Event()

    def keep_engine_busy(_: Access) -> Iterator[None]:
        while not stop.wait(0.001):
            yield

    async with read_session() as session:
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)) as pilot:
            dialog(app).query_one(Input).value = str(out)
            session.do(keep_engine_busy)
            await pilot.press("enter")
            await until(lambda: dialog(app).has_class("writing"))
            await pilot.press("escape")
            await until(lambda: not dialog(app).has_class("writing"))
            stop.set()
            await settled(pilot)
            assert "stopped: nothing was written" in problem(app)
            await pilot.press("escape")
    assert list(tmp_path.iterdir()) == []
    assert app.answers == [None]


async def test_scrubbing_is_for_packets(tmp_path: Path) -> None:
    plain, scrubbed = tmp_path / "plain.pcapng", tmp_path / "scrubbed.pcapng"
    async with read_session() as session:
        await session.set_filter(compile_filter("records > 0"))
        for out in (plain, scrubbed):
            app = DialogApp(session, lambda: WriteDialog(session))
            async with app.run_test(size=(80, 24)) as pilot:
                dialog(app).query_one("#scrub", Checkbox).value = out is scrubbed
                dialog(app).query_one("#synthetic", Checkbox).value = True
                await written(pilot, app, out)
                assert "synthetic" in app.answers[0]
    assert plain.read_bytes() != scrubbed.read_bytes()


async def test_nothing_is_said_of_an_empty_list() -> None:
    session = session_of()
    session.start()
    try:
        await session.idle()
        await session.set_filter(compile_filter("api == 99"))
        app = DialogApp(session, lambda: WriteDialog(session))
        async with app.run_test(size=(80, 24)):
            buttons = dialog(app).query_one("#what", RadioSet).query(RadioButton)
            assert [str(button.label) for button in buttons] == [f"all  {session.status.exchanges:,}"]
    finally:
        session.close()


def test_looks_right(snap_compare: Any) -> None:
    """All options, with a name that can be completed."""
    session = session_of()
    session.start()

    async def run_before(pilot: Pilot[Any]) -> None:
        await session.idle()
        await session.mark([18], True)
        await filtered(session)
        app = pilot.app
        assert isinstance(app, DialogApp)
        await app.push_screen(WriteDialog(session, [18], "orders.pcapng"))
        app.screen.query_one(Input).cursor_blink = False
        await settled(pilot)

    try:
        app = DialogApp(session, lambda: WriteDialog(session))
        assert snap_compare(app, run_before=run_before, terminal_size=(80, 24))
    finally:
        session.close()
