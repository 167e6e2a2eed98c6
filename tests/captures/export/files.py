"""Recorded captures, exported and read back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.export.capture_file import CaptureFileWriter
from captures.export.selection import Selection
from captures.json_objects import to_json
from captures.packets.tls import KeyLog

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
DATA = ROOT / "tests" / "data" / "captures"

RECORDED = sorted([SAMPLE, *(path for path in DATA.glob("*.pcap*") if "garbage" not in path.name)])

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def opened(path: Path) -> Capture:
    keylog = path.with_suffix(".keylog")
    capture = open_capture(str(path), keylog=KeyLog(str(keylog)) if keylog.exists() else None)
    capture.read()
    return capture


def exported(capture: Capture, out: Path, rows: list[int] | None = None, **how: bool) -> CaptureFileWriter:
    with out.open("wb") as file:
        writer = CaptureFileWriter(file, **how)
        writer.write(Selection(capture, rows))
    return writer


def shapes(capture: Capture, *, drop: tuple[str, ...] = ("connection",), **how: Any) -> list[dict[str, Any]]:
    """The exchanges as JSON shapes, without packet numbers and connections of the file."""
    made = [to_json(exchange) for exchange in ExchangeReader(capture, **how)]
    return [{name: value for name, value in shape.items() if name not in drop} for shape in made]


def tshark(path: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["tshark", "-r", path, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
