"""The data plane as a process: its imports, its reports, its exit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kproxy.proxy.control import ControlClient
from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.run_folder import RunFolder
from kproxy.proxy.settings import Settings
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

_HEAVY = ("numpy", "click", "textual", "captures.exchanges", "scapy", "cryptography")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunFolder:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return RunFolder.create(0, base=tmp_path / "runs")


@contextmanager
def plane(folder: RunFolder, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process with its settings."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kproxy.proxy.plane"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    told = Settings(run_folder=str(folder.path), listen=("127.0.0.1", 0), forward=False, **settings)
    process.stdin.write(msgspec.json.encode(told) + b"\n")
    process.stdin.flush()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        assert process.stdout is not None
        process.stdout.close()


def events(process: subprocess.Popen[bytes], until: str) -> list[dict[str, Any]]:
    assert process.stdout is not None
    met = []
    for line in process.stdout:
        met.append(json.loads(line))
        if met[-1]["event"] == until:
            break
    return met


def test_it_loads_nothing_that_forwarding_does_not_need() -> None:
    code = f"import sys, kproxy.proxy.plane; print([name for name in {_HEAVY} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert loaded.stdout == "[]\n"


def test_it_ends_with_whoever_started_it(folder: RunFolder) -> None:
    with plane(folder, recorded=RecordingOptions(on=False)) as process:
        events(process, "ready")
        assert process.stdin is not None
        process.stdin.close()
        assert events(process, "ended")[-1]["event"] == "ended"
        assert process.wait(PATIENCE) == 0


def test_detached_it_goes_on_alone_and_cleans_up_behind_itself(folder: RunFolder) -> None:
    with plane(folder, detached=True) as process:
        events(process, "ready")
        assert process.stdin is not None
        process.stdin.close()
        os.kill(process.pid, signal.SIGHUP)  # the terminal was closed
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert not folder.path.exists()


def test_told_to_it_goes_on_alone(folder: RunFolder) -> None:
    with plane(folder, recorded=RecordingOptions(on=False)) as process:
        events(process, "ready")
        with ControlClient(folder.control_socket, control=True) as client:
            client.call("detach")
            assert process.stdin is not None
            process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            client.call("drain")
        assert process.wait(PATIENCE) == 0
        assert not folder.path.exists()


def test_what_cannot_begin_says_why(folder: RunFolder) -> None:
    with plane(folder, faults=("api == Nonsense => drop",), recorded=RecordingOptions(on=False)) as process:
        (*_, failed) = events(process, "failed")
        assert "Nonsense" in failed["text"]
        assert process.wait(PATIENCE) == 1
