"""The clipboard of the terminal, and clipboard programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import App

from kproxy.tui import clipboard
from kproxy.tui.clipboard import OSC52_BYTES, copy


class ClipboardApp(App[None]):
    """Stores the text sent to the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []

    def copy_to_clipboard(self, text: str) -> None:
        self.sent.append(text)


def program(folder: Path, name: str, *, code: int = 0, seconds: float = 0) -> Path:
    """Create a program that stores its arguments and input; return the path of that file."""
    out = folder / f"{name}.out"
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$@" > {out}\n/bin/cat >> {out}\n/bin/sleep {seconds}\nexit {code}\n')
    path.chmod(0o755)
    return out


async def test_without_programs_the_terminal_is_asked() -> None:
    app = ClipboardApp()
    copied = await copy(app, "grüße", {"PATH": "/nowhere", "DISPLAY": ":0"})
    assert (copied.done, copied.message) == (True, "7 B sent to the clipboard of the terminal")
    assert app.sent == ["grüße"]
    inside_screen = await copy(app, "x", {"PATH": "/nowhere", "STY": "1.tty"})
    assert inside_screen.message.endswith("(GNU screen does not pass it on)")


async def test_what_a_terminal_does_not_take_is_not_sent() -> None:
    app = ClipboardApp()
    assert (await copy(app, "x" * OSC52_BYTES, {"PATH": "/nowhere"})).done
    copied = await copy(app, "x" * (OSC52_BYTES + 1), {"PATH": "/nowhere"})
    assert not copied.done
    assert "too much for the clipboard of a terminal" in copied.message
    assert len(app.sent) == 1


@pytest.mark.parametrize(
    ("environment", "used"),
    [
        ({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}, ["wl-copy"]),
        ({"DISPLAY": ":0"}, ["xclip"]),
        ({"TMUX": "/tmp/t", "DISPLAY": ":0"}, ["tmux", "xclip"]),
        ({"TMUX": "/tmp/t"}, ["tmux"]),
        ({}, []),
    ],
)
async def test_programs_are_used_where_they_have_a_clipboard(
    environment: dict[str, str], used: list[str], tmp_path: Path
) -> None:
    kept = {name: program(tmp_path, name) for name in ("tmux", "wl-copy", "xclip", "xsel")}
    text = "a\nb" * OSC52_BYTES
    copied = await copy(ClipboardApp(), text, {"PATH": str(tmp_path), **environment})
    assert copied.done is bool(used)
    assert [name for name, out in kept.items() if out.exists()] == used
    for name in used:
        assert kept[name].read_text().split("\n", 1)[1] == text
        assert name in copied.message


@pytest.mark.slow
async def test_a_program_that_fails_or_hangs_is_no_clipboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "_SECONDS", 0.2)
    program(tmp_path, "tmux", code=1)
    program(tmp_path, "xclip", seconds=60)
    app = ClipboardApp()
    copied = await copy(app, "x", {"PATH": str(tmp_path), "TMUX": "t", "DISPLAY": ":0"})
    assert copied.message == "1 B sent to the clipboard of the terminal"
    assert app.sent == ["x"]
