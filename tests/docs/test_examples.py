"""The commands of the pages that explain how to do things, run one after the other as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from docs.generate import DOCS
from kproxy.cli import main

SAMPLE = DOCS.parent / "captures" / "samples" / "rebalance.pcap"
_BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def commands(page: str) -> list[list[str]]:
    lines = [line for block in _BLOCK.findall((DOCS / page).read_text()) for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def run(command: list[str]) -> None:
    name, *arguments = command
    if name == "kproxy":
        done = CliRunner().invoke(main, arguments, prog_name="kproxy")
        assert done.exit_code == 0, (command, done.output)
    elif shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    else:
        subprocess.run(command, check=True, capture_output=True)


def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, "kafka.pcap")
    found = commands("export.md")
    assert len(found) > 15
    for command in found:
        run(command)
    assert Path("rebalance.mmd").read_text().startswith("sequenceDiagram")
    assert Path("found.pcapng").stat().st_size
