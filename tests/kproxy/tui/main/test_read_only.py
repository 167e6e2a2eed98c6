"""A read-only UI, in a terminal and on a page in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import pytest
from textual.app import App

from kproxy.saved_choices import choices_path
from kproxy.tui.app import KproxyApp
from kproxy.tui.commands import BY_LINE, COMMANDS
from kproxy.tui.dialogs.copy import CopyDialog
from kproxy.tui.files import completions, problem_of, written_for_user
from kproxy.tui.main.lines import StatusLine
from kproxy.tui.settings import Settings
from kproxy.tui.widgets.command_line import CommandLine
from tests.kproxy.tui.kit import main_of, opened, session_of, settled

_LEFT_OUT = (
    "hold.filter",
    "hold.toggle",
    "hold.release",
    "hold.release_all",
    "hold.kill",
    "hold.edit",
    "forward.pause",
    "forward.toggle",
    "rule.add",
    "rule.remove",
    "replay.start",
    "recorder.keep",
    "write.selection",
    "app.screenshot",
    "question.diff",
    "records.schema",
)


async def test_commands_that_do_more_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(read_only=True) as pilot:
        main = main_of(pilot)
        left_out = [each.name for each in COMMANDS if main.kproxy.leaves_out(each)]
        assert sorted(left_out) == sorted(_LEFT_OUT)
        line = main.query_one(CommandLine)
        assert not {command.line for command in COMMANDS if command.name in _LEFT_OUT} & set(line._commands)
        assert line.judge("diff a.pcap").message == "diff is disabled: this UI is read-only"
        for key in ("w", "ctrl+s", "r", "P", "O"):
            main.report("")
            await pilot.press(key)
            await settled(pilot)
            assert "this UI is read-only" in str(main.query_one(StatusLine).render()), key
            assert pilot.app.screen is main
        main.typing.perform(BY_LINE["write"], str(tmp_path / "a.pcapng"))
        await settled(pilot)
        assert pilot.app.screen is main
        await pilot.press("x")
        await settled(pilot)
        dialog = pilot.app.screen
        assert isinstance(dialog, CopyDialog)
        assert "f" not in {key for key, bound in dialog.active_bindings.items() if bound.enabled}
    assert list(tmp_path.iterdir()) == []


async def test_what_is_chosen_holds_and_is_not_kept() -> None:
    settings = Settings(keeps=False)
    settings.keep_theme("nord")
    settings.keep_filter("slow", "latency > 1s")
    assert settings.theme == "nord"
    assert settings.filters == {"slow": "latency > 1s"}
    assert not choices_path().exists()


async def test_a_page_gets_files_as_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delivered: list[tuple[str, bytes]] = []

    def deliver(_: App[Any], file: BinaryIO, *, save_filename: str) -> None:
        with file:
            delivered.append((save_filename, file.read()))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(App, "is_web", property(lambda _: True))
    monkeypatch.setattr(App, "deliver_binary", deliver)
    app = KproxyApp(session_of(), Settings(), read_only=True)
    assert not app.leaves_out(BY_LINE["write"])
    with written_for_user(app, Path("/elsewhere/a.txt")) as path:
        path.write_bytes(b"orders")
    assert delivered == [("a.txt", b"orders")]
    assert not path.exists()
    assert "without folders" in problem_of(app, "/etc/passwd")
    assert problem_of(app, "a.pcapng") == ""
    assert list(completions(app, "/et")) == []
    app.session.close()
    assert list(tmp_path.iterdir()) == []
