from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kproxy.replay.permission import WRITES
from kproxy.tui.live import replay as module
from kproxy.tui.live.replay import ReplayChoices, ReplayError, ReplayRun, collecting, planned
from kproxy.tui.live.side_by_side import Mark, side_by_side
from tests.kproxy.fake_broker import METADATA, PRODUCE, FakeBroker
from tests.kproxy.tui.live.replayed import recorded
from tests.waiting import PATIENCE


async def test_what_reads_is_sent_again_and_compared(tmp_path: Path) -> None:
    async with FakeBroker(cluster_id="recorded") as broker, recorded(tmp_path, broker) as session:
        collected = await session.run(collecting([3, 2, 1]))
        assert [exchange.number for exchange in collected.exchanges] == [1, 2, 3]
        assert collected.writing == {"Produce": 1}
        plan = await planned(collected, ReplayChoices(((broker.host, broker.port),)))
        left_out = {row.api: dict(row.left_out) for row in plan.plan.rows.values()}
        assert left_out == {"Metadata": {}, "Produce": {WRITES: 1}}
        run = ReplayRun(plan)
        assert run.total == 2
        await run.run()
        assert [(each.outcome.number, each.outcome.same) for each in run.answered] == [(1, True), (2, False)]
        assert run.results.differing == 1
        assert not broker.of(PRODUCE)


async def test_what_was_allowed_is_sent_too(tmp_path: Path) -> None:
    async with FakeBroker(cluster_id="recorded") as broker, recorded(tmp_path, broker) as session:
        collected = await session.run(collecting([3]))
        plan = await planned(collected, ReplayChoices(((broker.host, broker.port),), writes=("Produce",)))
        run = ReplayRun(plan)
        await run.run()
        assert len(broker.of(PRODUCE)) == 1
        assert [each.outcome.failure for each in run.answered] == [""]


async def test_both_responses_are_shown_beside_each_other(tmp_path: Path) -> None:
    async with FakeBroker(cluster_id="recorded") as broker, recorded(tmp_path, broker) as session:
        plan = await planned(
            await session.run(collecting([1, 2])), ReplayChoices(((broker.host, broker.port),))
        )
        run = ReplayRun(plan)
        await run.run()
        same = side_by_side(run.answered[0])
        assert {line.mark for line in same} <= {Mark.SAME, Mark.MAY_DIFFER}
        shown = side_by_side(run.answered[1])
        assert side_by_side(run.answered[1]) == shown
        different = [(line.name, line.recorded, line.new) for line in shown if line.mark is Mark.DIFFERENT]
        assert ("leader_id", "7", "1") in different
        assert ("[2]", "", "") in different
        (throttle,) = [line for line in shown if line.name == "throttle_time_ms"]
        assert (throttle.recorded, throttle.new, throttle.mark) == ("30", "0", Mark.MAY_DIFFER)
        assert [line.depth for line in shown if line.name == "[orders]"] == [1]


async def test_it_can_be_stopped(tmp_path: Path) -> None:
    async with FakeBroker(cluster_id="recorded") as broker, recorded(tmp_path, broker) as session:
        plan = await planned(
            await session.run(collecting([1, 2])), ReplayChoices(((broker.host, broker.port),))
        )
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def wait(body: object, version: int) -> None:
            asked.set()
            await go_on.wait()

        broker.answers[METADATA] = wait
        run = ReplayRun(plan)
        running = asyncio.create_task(run.run())
        await asked.wait()
        run.cancel()
        await running
        go_on.set()
        assert run.answered == []
        again = ReplayRun(plan)
        again.cancel()
        await again.run()
        assert again.answered == []


async def test_a_cluster_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    async with FakeBroker() as broker, recorded(tmp_path, broker) as session:
        collected = await session.run(collecting([1]))
        address = broker.host, broker.port
        await broker.stop()
        with pytest.raises(ReplayError, match=str(broker.port)):
            await planned(collected, ReplayChoices((address,), timeout=PATIENCE))


async def test_there_are_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeBroker() as broker, recorded(tmp_path, broker) as session:
        assert not (await session.run(collecting([99]))).exchanges
        monkeypatch.setattr(module, "MOST_EXCHANGES", 2)
        with pytest.raises(ReplayError, match="3 exchanges are too many"):
            await session.run(collecting([1, 2, 3]))
        monkeypatch.setattr(module, "MOST_BYTES", 20)
        with pytest.raises(ReplayError, match="kproxy replay sends any number"):
            await session.run(collecting([1]))
