"""The UI of a running proxy: a data plane in its own process, a broker, kafka-python as the client, and key presses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from captures.filters import compile_filter
from kproxy.cli.live_output import open_growing
from kproxy.proxy.plane_process import PlaneProcess
from kproxy.proxy.run_folder import RunFolder
from kproxy.proxy.settings import Settings as PlaneSettings
from kproxy.session import Session
from kproxy.tui.app import KproxyApp
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.dialogs.edit_held import EditHeld
from kproxy.tui.dialogs.leave import Leave
from kproxy.tui.live.link import Link
from kproxy.tui.settings import Settings
from kproxy.tui.views.faults import Faults
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.fake_broker import LIST_OFFSETS, FakeBroker
from tests.kproxy.tui.live.proxied import shown
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.slow

kafka = pytest.importorskip("kafka")


@asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[tuple[FakeBroker, KproxyApp, Pilot[Any], str]]:
    """Run a proxy with its UI, like ``kproxy proxy``; also yields the address for clients."""
    told: list[dict[str, Any]] = []
    async with FakeBroker() as broker:
        broker.topic("orders", partitions=1, end=42)
        run = RunFolder.create(0, base=folder)
        settings = PlaneSettings(
            run_folder=str(run.path),
            bootstrap=((broker.host, broker.port),),
            listen=("127.0.0.1", 0),
            drain=1.0,
            client_timeout=PATIENCE,
        )
        plane = PlaneProcess(settings, told.append)
        try:
            assert await asyncio.to_thread(plane.wait_until_ready), plane.failure
            events = {event["event"]: event for event in told}
            await until(lambda: any(event["event"] == "recorder_file" for event in told))
            begun = next(event for event in told if event["event"] == "recorder_file")
            capture = await asyncio.to_thread(
                open_growing,
                settings.recording.capture,
                first=Path(begun["path"]).name,
                begin=begun["begin"],
                hosts=(),
                wanted=lambda: True,
            )
            assert capture is not None
            with capture.source:
                session = Session(capture, title="proxy", live=True)
                link = Link(run.control_socket)
                app = KproxyApp(session, Settings(), link=link, ends_proxy=True)
                try:
                    async with app.run_test(size=(120, 40)) as pilot:
                        yield broker, app, pilot, events["listening"]["address"]
                finally:
                    await asyncio.to_thread(session.close)
                    await asyncio.to_thread(link.close)
        finally:
            plane.stop()
            if not await asyncio.to_thread(plane.join, PATIENCE):
                plane.kill()
            for pipe in (plane._process.stdin, plane._process.stdout):
                if pipe is not None:
                    pipe.close()


async def test_a_held_response_is_edited_and_the_client_believes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    async with proxied(tmp_path / "runs") as (broker, app, pilot, address):
        session = app.session
        consumer = await asyncio.to_thread(
            kafka.KafkaConsumer, bootstrap_servers=address, client_id="audit-7", api_version=(2, 0)
        )
        try:
            # ------------------------------------------------ traffic is shown live
            assert await asyncio.to_thread(consumer.topics) == {"orders"}
            await until(lambda: session.status.exchanges and len(session.shown) == session.status.exchanges)

            # ------------------------------------------------ a response is held, and shown as held
            await pilot.press("i")
            await until(shown(app, Prompt))
            app.screen.query_one(Input).value = "response: api == ListOffsets"
            await pilot.press("enter")
            await until(lambda: app.link is not None and app.link.state.hold_filters)
            partition = kafka.TopicPartition("orders", 0)
            asking = asyncio.create_task(asyncio.to_thread(consumer.end_offsets, [partition]))
            await until(lambda: session.held)
            assert [held.api for held in session.held] == ["ListOffsets"]
            assert broker.of(LIST_OFFSETS)
            await pilot.press("9")
            await until(lambda: app.main.query_one(Faults).held_number is not None)

            # ------------------------------------------------ it is edited, and the changed response is sent
            await pilot.press("e")
            await until(shown(app, EditHeld))
            table = app.screen.query_one(RowTable)
            await until(lambda: table.rows)
            offset = next(row.key for row in table.rows if str(row.key).endswith(".offset"))
            assert table.select(offset)
            await pilot.press("enter", "ctrl+u", *"1234", "enter")
            await until(lambda: "1234" in (table.selected.text() if table.selected else ""))
            await pilot.press("ctrl+s")
            assert await asking == {partition: 1234}
            await pilot.press("1")

            # ------------------------------------------------ the recording has both the traffic and the interventions
            await session.set_filter(compile_filter("changed and api == ListOffsets"))
            await until(lambda: len(session.shown) == 1)
            exchange = await session.exchange(session.shown.number(0))
            (change,) = exchange.interventions.response[0].changed
            assert (change.sent, change.got) == (42, 1234)
            assert exchange.interventions.response[0].released_by == "edited"

            # ------------------------------------------------ leaving names the clients that would lose their
            # connection
            await pilot.press("q")
            await until(shown(app, Leave))
            (row, *_) = app.screen.query_one(RowTable).rows
            assert "audit-7" in row.text()
            await pilot.press("home", "enter")
            await until(lambda: app.return_value == "end")
        finally:
            await asyncio.to_thread(consumer.close)
