"""Run folders: found while their process is alive, kept if it left a recording, otherwise deleted."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kproxy.proxy import run_folder
from kproxy.proxy.run_folder import RunFolder, find, leftovers, running, state_folder

STARTED = 1_795_287_600.5  # 2026-11-21T19:00:00Z


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that runs until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_is_its_users_own(tmp_path: Path) -> None:
    folder = RunFolder.create(9092, base=tmp_path / "deep" / "er", started=STARTED)
    assert folder.path.name == "2026-11-21T19-00-00Z-9092"
    assert mode(folder.path) == mode(tmp_path / "deep" / "er") == 0o700
    again = RunFolder.create(9092, base=tmp_path / "deep" / "er", started=STARTED)
    assert again.path.name == "2026-11-21T19-00-00Z-9092-2"


def test_a_run_is_found_while_its_process_lives(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    folder = RunFolder.create(9092, base=tmp_path, started=STARTED)
    folder.write(listen="127.0.0.1:9092", capture="/var/tmp/kafka.pcapng", pid=sleeper.pid)
    (run,) = running(tmp_path)
    assert (run.path, run.pid, run.listen, run.port) == (folder.path, sleeper.pid, "127.0.0.1:9092", 9092)
    assert (run.started, run.capture) == (STARTED, "/var/tmp/kafka.pcapng")
    assert run.control_socket == folder.control_socket == folder.path / "control.sock"
    assert run.front == os.getpid()
    for name in ("9092", str(sleeper.pid), str(os.getpid()), run.name, "2026-11"):
        assert find(name, tmp_path) == [run]
    assert find("9093", tmp_path) == []
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    assert running(tmp_path) == []


def test_a_run_of_an_earlier_version_is_found_and_kept(tmp_path: Path) -> None:
    folder = RunFolder.create(9092, base=tmp_path)
    info = json.loads((folder.path / "run.json").read_text())
    del info["front"]
    (folder.path / "run.json").write_text(json.dumps(info))
    os.utime(folder.path, (STARTED, STARTED))
    assert leftovers(tmp_path) == []
    assert [run.path for run in find("9092", tmp_path)] == [folder.path]


def test_a_later_process_with_the_same_id_is_another(tmp_path: Path) -> None:
    folder = RunFolder.create(9092, base=tmp_path)
    assert len(running(tmp_path)) == 1
    info = json.loads((folder.path / "run.json").read_text())
    boot, _, began = info["process"].rpartition(" ")
    info["process"] = f"{boot} {float(began) - 1:.0f}"
    (folder.path / "run.json").write_text(json.dumps(info))
    assert running(tmp_path) == []


@pytest.mark.parametrize("recorded", [True, False])
def test_what_an_unclean_end_leaves(tmp_path: Path, sleeper: subprocess.Popen[bytes], recorded: bool) -> None:
    folder = RunFolder.create(9092, base=tmp_path)
    folder.write(listen="127.0.0.1:9092", capture=str(folder.capture), pid=sleeper.pid)
    folder.control_socket.touch()
    folder.capture.mkdir()
    (folder.capture / "00000001.pcapng").write_bytes(b"x" * recorded)
    assert leftovers(tmp_path) == []
    sleeper.kill()
    sleeper.wait()
    left = leftovers(tmp_path)
    assert [run.capture for run in left] == ([str(folder.capture)] if recorded else [])
    assert folder.path.exists() == recorded


def test_a_clean_end_removes_what_is_ours(tmp_path: Path) -> None:
    folder = RunFolder.create(9092, base=tmp_path)
    folder.capture.mkdir()
    (folder.capture / "00000001.pcapng").write_bytes(b"x")
    (folder.path / "notes.txt").write_text("mine")
    folder.remove()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]
    (folder.path / "notes.txt").unlink()
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_being_made_is_left_alone(tmp_path: Path) -> None:
    made = tmp_path / "2026-11-21T19-00-00Z-9092"
    made.mkdir()
    assert leftovers(tmp_path) == running(tmp_path) == []
    assert made.exists()
    old = time.time() - 3600
    os.utime(made, (old, old))
    assert leftovers(tmp_path) == []
    assert not made.exists()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"pid": "x"}'])
def test_a_damaged_run_file_is_no_run(tmp_path: Path, damage: bytes) -> None:
    folder = RunFolder.create(9092, base=tmp_path)
    (folder.path / "run.json").write_bytes(damage)
    assert running(tmp_path) == []


def test_where_run_folders_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_folder() == tmp_path / "kproxy" / "proxy"
    assert running() == []
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder() == tmp_path / ".local" / "state" / "kproxy" / "proxy"


def test_a_process_that_is_not_there_cannot_run(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(ProcessLookupError):
        RunFolder.create(9092, base=tmp_path).write(listen="", capture="", pid=sleeper.pid)


def test_without_proc_psutil_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_folder, "_PROC", tmp_path / "none")
    RunFolder.create(9092, base=tmp_path / "runs")
    assert len(running(tmp_path / "runs")) == 1
