"""Draws the README's picture: what ``kproxy read`` prints for the bundled capture. Run: ``python docs/picture.py``."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
WIDTH = 168
SAMPLE = "captures/samples/rebalance.pcap"
FROM, LINES = 17, 26


def printed() -> list[str]:
    """Return the lines that the program prints on a terminal of this width."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kproxy", "read", "--utc", SAMPLE]
    env = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=theirs, stderr=subprocess.DEVNULL):
        os.close(theirs)
        out = b""
        with contextlib.suppress(OSError):  # Linux: EIO when the program has closed its end
            while data := os.read(ours, 65536):
                out += data
    os.close(ours)
    return out.decode().splitlines()


def main() -> None:
    """Save an SVG of some of these lines, between the header and the closing line."""
    header, *rows = printed()
    with Path(os.devnull).open("w") as nowhere:
        console = Console(width=WIDTH, record=True, file=nowhere, force_terminal=True)
        console.print(f"$ kproxy read {SAMPLE}", style="bold")
        for line in (header, *rows[FROM : FROM + LINES], "...", rows[-1]):
            console.print(Text.from_ansi(line), overflow="crop", no_wrap=True)
        svg = console.export_svg(title="kproxy read")
    # the picture must not fetch a font from anywhere
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (ROOT / "docs" / "read.svg").write_text(svg.replace("Fira Code", "DejaVu Sans Mono"))


if __name__ == "__main__":
    main()
