"""The data plane's reports about its recording, whatever happens to the recorder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from captures.exchanges import open_capture
from captures.live.recording import is_being_recorded
from kproxy.proxy.recorder import RecordingOptions
from tests.kproxy.fake_broker import FakeBroker
from tests.kproxy.proxy.planes import Client, run, running
from tests.kproxy.proxy.talk import HEARTBEAT, heartbeat
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def exchanges_in(path: Path) -> int:
    capture = open_capture(str(path))
    capture.read()
    return int(np.count_nonzero(capture.table.column("api_key") == HEARTBEAT))


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        recorded = RecordingOptions(path=str(tmp_path / "nowhere" / "all.pcapng"))
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), recorded=recorded) as proxy:
                await until(lambda: bool(proxy.told.of("recorder_failed")))
                assert proxy.plane.recordings.status()["up"] is False

    run(test)


def test_counts_go_on_with_another_recorder(tmp_path: Path) -> None:
    async def test() -> None:
        recorded = RecordingOptions(path=str(tmp_path / "all.pcapng"))
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), recorded=recorded) as proxy:
                recordings = proxy.plane.recordings

                async def said(count: int) -> int:
                    """Send so many requests; return the number of bytes forwarded."""
                    async with await Client.connect(proxy.address) as client:
                        for _ in range(count):
                            client.send(heartbeat())
                            await client.frame()
                    await until(lambda: not proxy.plane.sessions)
                    return proxy.plane.counts.from_clients + proxy.plane.counts.from_brokers

                first = await said(5)
                await until(lambda: recordings.status().get("bytes") == first)
                for child in psutil.Process().children():
                    if "kproxy.proxy.recorder" in child.cmdline():
                        child.kill()
                await until(
                    lambda: any("ended unexpectedly" in each["text"] for each in proxy.told.of("warning"))
                )
                assert is_being_recorded(recordings.path)  # the data plane holds the lock meanwhile
                assert recordings.status()["bytes"] == first
                both = await said(3)
                assert both > first
                await until(lambda: recordings.status()["bytes"] == both)
                assert (recordings.status()["up"], recordings.status()["restarts"]) == (True, 1)
            assert not is_being_recorded(recordings.path)
            assert exchanges_in(tmp_path / "all.pcapng") == 8

    run(test)
