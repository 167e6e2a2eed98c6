"""What the data plane tells of its recording, whatever becomes of the recorder."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from kproxy.proxy.settings import Recorded
from tests.kproxy.fake_broker import FakeBroker
from tests.kproxy.proxy.planes import Client, run, running, until
from tests.kproxy.proxy.talk import heartbeat


@pytest.fixture(autouse=True)
def _own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_counts_go_on_with_another_recorder(tmp_path: Path) -> None:
    async def test() -> None:
        recorded = Recorded(path=str(tmp_path / "all.pcapng"))
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), recorded=recorded) as proxy:
                recordings = proxy.plane.recordings

                async def said(count: int) -> int:
                    """Ask so often; return how many bytes went through."""
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
                await until(lambda: any("ended unasked" in each["text"] for each in proxy.told.of("warning")))
                assert recordings.status()["bytes"] == first
                both = await said(3)
                assert both > first
                await until(lambda: recordings.status()["bytes"] == both)

    run(test)
