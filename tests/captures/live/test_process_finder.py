"""The child process that can still inspect processes of other users."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from captures.live.privileges import User
from captures.live.process_finder import ProcessFinder
from tests.captures.live.kit import needs_root

pytestmark = [
    needs_root,
    pytest.mark.filterwarnings(
        "ignore:.*fork:DeprecationWarning"
    ),  # the test runner has threads, kproxy has none
]
READ_ALL, SEE_PROCESSES = 1 << 2, 1 << 19  # linux/capability.h


@pytest.fixture
def finder() -> Iterator[ProcessFinder]:
    made = ProcessFinder(User("nobody", 65534, 65534, chosen=False))
    yield made
    made.close()


def test_it_tells_of_the_processes_of_others(finder: ProcessFinder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        end = f"127.0.0.1:{listener.getsockname()[1]}"
        for _ in range(2):
            found = finder([end, "192.0.2.77:9092"])
            assert list(found) == [end]
            assert found[end].pid == os.getpid()


def test_it_can_see_and_read_and_nothing_else(finder: ProcessFinder) -> None:
    finder([])  # it has settled
    status = dict(
        line.split(":\t", 1)
        for line in Path(f"/proc/{finder.pid}/status").read_text().splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split() == ["65534"] * 4
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == READ_ALL | SEE_PROCESSES
    assert status["NoNewPrivs"] == "1"


def test_without_it_nothing_is_found(finder: ProcessFinder) -> None:
    os.kill(finder.pid, signal.SIGKILL)
    os.waitid(os.P_PID, finder.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(OSError):
        finder(["127.0.0.1:9092"])
