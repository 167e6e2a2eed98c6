"""The command line: names, arguments, completion, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from captures.filters import compile_filter
from kproxy.tui.commands import BY_LINE
from kproxy.tui.widgets.command_line import (
    CommandLine,
    FilePath,
    FilterText,
    Number,
    OtherCapture,
    Words,
    command_named,
)
from kproxy.tui.widgets.filter_bar import FilterBar
from kproxy.tui.widgets.verdict import Validity
from tests.kproxy.tui.typing import offered, state_home, still, told_by, type_in  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("state_home")


class LineApp(App[None]):
    CSS = "CommandLine { dock: bottom; } FilterBar { display: none; }"

    def __init__(self) -> None:
        super().__init__()
        self.met: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        bar = FilterBar()
        yield bar
        yield Static("\n".join(f"exchange {number}" for number in range(10)))
        yield CommandLine(
            {
                "filter.edit": FilterText(compile_filter, bar.candidates),
                "goto.number": Number(),
                "app.theme": Words(lambda: {"nord": "cold", "gruvbox": "warm"}, "theme"),
                "columns.profile": Words(lambda: {"wide": ""}, "profile", only=False),
                "write.selection": FilePath(),
                "question.diff": OtherCapture(),
            }
        )

    @property
    def line(self) -> CommandLine:
        return self.query_one(CommandLine)

    def on_command_line_submitted(self, message: CommandLine.Submitted) -> None:
        self.met.append((message.command.name, message.argument))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "name", "argument"),
    [
        ("quit", "app.quit", ""),
        ("quit!", "app.quit_now", ""),
        ("  :clear ", "filter.clear", ""),
        ("filter  api == Fetch and topic == a ", "filter.edit", "api == Fetch and topic == a"),
        ("filter", "filter.edit", ""),
        ("goto 120,412", "goto.number", "120,412"),
        ("120412", "goto.number", "120412"),
        ("theme nord", "app.theme", "nord"),
        ("profile new one", "columns.profile", "new one"),
        ("comment seen [b]twice[/b]", "comment.edit", "seen [b]twice[/b]"),
        ("q", "app.quit", ""),
        ("conn", "view.connections", ""),
    ],
)
async def test_commands_are_handed_on_with_their_arguments(typed: str, name: str, argument: str) -> None:
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.line.open()
        await type_in(pilot, typed, "enter")
        assert app.met == [(name, argument)]
        assert not app.line.is_open


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("typed", "message", "position"),
    [
        ("fliter x", "there is no command fliter (did you mean filter or footer?)", 0),
        ("quit now", "quit takes nothing behind it", 5),
        ("theme x", "there is no theme x (there are nord, gruvbox)", 6),
        ("goto here", "'here' is no number (such as 17 or 120,412)", 5),
        ("goto 0", "'0' is no number (such as 17 or 120,412)", 5),
        ("filter api == Fetsh", "there is no API Fetsh (did you mean Fetch", 14),
        ("0", "there is no command 0", 0),
        ("diff nothing.pcap", "there is no file nothing.pcap", 5),
    ],
)
async def test_mistakes_are_told_at_their_place(typed: str, message: str, position: int) -> None:
    app = LineApp()
    async with app.run_test(size=(120, 24)) as pilot:
        app.line.open()
        await type_in(pilot, typed, "enter")
        assert app.met == []
        assert app.line.verdict.validity is Validity.INVALID
        assert message in told_by(app.line)
        assert app.line.verdict.position == position
        assert app.line._line.cursor_position == position


@pytest.mark.slow
async def test_nothing_closes_the_line() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.line.open()
        await type_in(pilot, "", "enter")
        assert not app.line.is_open


@pytest.mark.slow
async def test_names_are_completed_with_what_they_do() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.line.open()
        await type_in(pilot, "", "tab")
        assert offered(app.line) == list(BY_LINE)
        await type_in(pilot, "conv", "tab")
        assert app.line.text == "conversation "
        assert BY_LINE["conversation"].doc in told_by(app.line)


@pytest.mark.slow
async def test_filters_are_completed_as_in_their_own_bar() -> None:
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.line.open()
        await type_in(pilot, "filter api == Fetc", "tab")
        assert app.line.text == "filter api == Fetch "
        assert offered(app.line) == ["and", "or"]


@pytest.mark.slow
async def test_words_and_files_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "out.pcapng").write_text("")
    (tmp_path / "deep" / ".hidden").write_text("")
    (tmp_path / "deep" / "bad\x1bname").write_text("")
    monkeypatch.chdir(tmp_path)
    app = LineApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.line.open()
        await type_in(pilot, "theme gr", "tab")
        assert app.line.text == "theme gruvbox "
        app.line.open()
        await type_in(pilot, "write d", "tab")
        assert app.line.text == "write deep/"
        assert offered(app.line) == ["out.pcapng"]
        await type_in(pilot, ".")
        assert offered(app.line) == [".hidden"]
        app.line.open()
        await type_in(pilot, "write /no/such/place/")
        assert offered(app.line) == []


def test_a_beginning_that_several_have_is_no_name() -> None:
    assert command_named("co", BY_LINE) is None
    assert command_named("", BY_LINE) is None
    assert command_named("quit", BY_LINE) is BY_LINE["quit"]


@pytest.mark.slow
def test_snapshot_with_offers_above_the_line(snap_compare: Any) -> None:
    async def prepare(pilot: Any) -> None:
        still(pilot.app)
        pilot.app.line.open()
        await type_in(pilot, "fi")

    assert snap_compare(LineApp(), run_before=prepare, terminal_size=(80, 14))
