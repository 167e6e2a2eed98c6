"""Draws the pictures of the documentation from the program itself and the bundled capture.

Run: ``python -m docs.picture``. ``read.svg`` is what ``kproxy read`` prints; the others are screens of the terminal UI.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from html import escape, unescape
from pathlib import Path
from typing import Any
from unittest import mock

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text
from textual.pilot import Pilot

from captures.exchanges import open_capture
from captures.filters import compile_filter
from kproxy.session import Session
from kproxy.tui.app import KproxyApp
from kproxy.tui.commands import BY_NAME
from kproxy.tui.settings import Settings
from kproxy.tui.themes import DARK, heed_color

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SAMPLE = "captures/samples/rebalance.pcap"

PRINTED_WIDTH = 168
FROM, LINES = 17, 26

_CELL = 12.2
"""Width of a character in the pictures that Rich draws."""
_RUN = re.compile(r"[!-~]+(?:\xa0[!-~]+)*|[^\x00-\x7f\xa0]+")
"""Text that is drawn at one place: words, or characters that may come from another font."""


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen of the UI.

    :ivar name: name of the file
    :ivar wanted: the filter
    :ivar number: the exchange under the cursor, None for the default
    :ivar keys: keys pressed after that
    :ivar size: columns and lines
    """

    name: str
    wanted: str = ""
    number: int | None = None
    keys: Sequence[str] = ()
    size: tuple[int, int] = (150, 34)


SCREENS = (
    Screen("ui.svg", number=116, keys=("enter", "down", "down", "down"), size=(150, 42)),
    Screen("groups.svg", keys=("5", "tab", "left", "left", "left"), size=(150, 36)),
    Screen("latency.svg", keys=("6",)),
    Screen(
        "conversation.svg",
        wanted="api in {JoinGroup, SyncGroup, LeaveGroup, Heartbeat} and number in {100..260}",
        keys=("8",),
    ),
)


def portable(svg: str) -> str:
    """Return a picture made by Rich in a form that renders the same everywhere.

    It must not download a font. Each run of characters gets its own position, because some programs drop blanks around
    a text, and replace characters missing in a font with those of another font of different width.
    """
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<text ([^>]*?)x="([\d.]+)"([^>]*?) textLength="[\d.]+"([^>]*)>([^<]*)</text>', _placed, svg
    )
    return svg.replace("Fira Code", "DejaVu Sans Mono, Menlo, Consolas")


def _placed(found: re.Match[str]) -> str:
    """Return the runs of a text one by one, each at its position."""
    before, x, between, after, text = found.groups()
    text = unescape(text)
    runs = []
    for run in _RUN.finditer(text):
        place = float(x) + cell_len(text[: run.start()]) * _CELL
        length = cell_len(run[0]) * _CELL
        runs.append(
            f'<text {before}x="{place:g}"{between} textLength="{length:g}"{after}>{_escaped(run[0])}</text>'
        )
    return "".join(runs)


def _escaped(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&#160;")


def printed() -> list[str]:
    """Return the lines that ``kproxy read`` prints on a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kproxy", "read", "--utc", SAMPLE]
    env = {**os.environ, "COLUMNS": str(PRINTED_WIDTH), "TERM": "xterm-256color", "NO_COLOR": ""}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=theirs, stderr=subprocess.DEVNULL):
        os.close(theirs)
        out = b""
        with contextlib.suppress(OSError):  # Linux: EIO once the program has closed its end
            while data := os.read(ours, 65536):
                out += data
    os.close(ours)
    return out.decode().splitlines()


def drawn_lines() -> str:
    """Return a picture of the header, some lines, and the closing line."""
    header, *rows = printed()
    with Path(os.devnull).open("w") as nowhere:
        console = Console(width=PRINTED_WIDTH, record=True, file=nowhere, force_terminal=True)
        console.print(f"$ kproxy read {SAMPLE}", style="bold")
        for line in (header, *rows[FROM : FROM + LINES], "...", rows[-1]):
            console.print(Text.from_ansi(line), overflow="crop", no_wrap=True)
        return portable(console.export_svg(title="kproxy read"))


async def drawn_screen(screen: Screen) -> str:
    """Return a picture of a screen of the UI."""
    session = Session(open_capture(str(ROOT / SAMPLE)), title=Path(SAMPLE).name, zone=UTC)
    with tempfile.TemporaryDirectory() as nothing, mock.patch.dict(os.environ, _environment(nothing)):
        heed_color("always")
        wanted = compile_filter(screen.wanted) if screen.wanted else None
        app = KproxyApp(session, Settings(), wanted=wanted)
        app.animation_level = "none"
        try:
            async with app.run_test(size=screen.size) as pilot:
                app.theme = DARK.name
                await _settled(pilot, session)
                if screen.number is not None:
                    app.main.typing.perform(BY_NAME["goto.number"], str(screen.number))
                    await _settled(pilot, session)
                for key in screen.keys:
                    await pilot.press(key)
                    await _settled(pilot, session)
                return portable(app.export_screenshot(title=f"kproxy open {SAMPLE}"))
        finally:
            session.close()


def _environment(folder: str) -> dict[str, str]:
    return {
        "XDG_CONFIG_HOME": folder,
        "XDG_STATE_HOME": folder,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


_PATIENCE = 30.0
_LOOKS = 3


async def _settled(pilot: Pilot[Any], session: Session) -> None:
    """Wait until all work is done and shown on the screen."""
    app: Any = pilot.app
    deadline = time.monotonic() + _PATIENCE
    quiet = 0
    while quiet < _LOOKS:
        if time.monotonic() > deadline:
            raise TimeoutError("the UI does not come to rest")
        await pilot.pause(0.1)
        done = all(each.is_finished for each in app.workers)
        quiet = quiet + 1 if session.at_rest and done and app.main.up_to_date else 0


def main(folder: Path = DOCS) -> None:
    """Save all pictures."""
    (folder / "read.svg").write_text(drawn_lines())
    for screen in SCREENS:
        (folder / screen.name).write_text(asyncio.run(drawn_screen(screen)))


if __name__ == "__main__":
    main()
