from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.widgets import Static

from dissectors.frames import decode_response
from kproxy.replay.response_comparison import compared
from kproxy.replay.results import Outcome
from kproxy.tui.dialogs.comparison import replayed_comparison
from kproxy.tui.live.replay import ReplayedExchange
from kproxy.tui.widgets.row_table import RowTable
from tests.kproxy.frames import response_frame

pytestmark = pytest.mark.slow

METADATA, DESCRIBE_CONFIGS = 3, 32
BROKER = {"node_id": 1, "host": "b1", "port": 9092}
PARTITION = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1, 2], "isr_nodes": [1, 2]}


def answered(
    key: int, version: int, then: dict[str, Any], now: dict[str, Any], **known: Any
) -> ReplayedExchange:
    first, second = (
        decode_response(response_frame(key, version, body)[4:], key, version) for body in (then, now)
    )
    outcome = Outcome(7, 1, key, version, version, known.pop("asked", ""), **known)
    outcome.comparable = True
    outcome.differences, outcome.expected = compared(first, second, lambda _: None, lambda _: None)
    return ReplayedExchange(outcome, first, second)


def metadata() -> ReplayedExchange:
    topics = [{"name": "orders\u202e[bold]", "partitions": [PARTITION]}]
    moved = [{**topics[0], "partitions": [{**PARTITION, "leader_id": 2, "isr_nodes": [2]}]}]
    return answered(
        METADATA,
        9,
        {"brokers": [BROKER, {**BROKER, "node_id": 2}], "topics": topics, "cluster_id": "then"},
        {"brokers": [BROKER], "topics": moved, "cluster_id": "now", "throttle_time_ms": 12},
        asked="orders",
        broker="1 (b1:9092)",
        recorded_latency=1_204_000,
        latency=934_000,
        recorded="2 brokers, 1 partition",
        new="1 broker, 1 partition",
    )


class ComparisonApp(App[None]):
    """Shows only the dialog."""

    def __init__(self, answered: ReplayedExchange) -> None:
        super().__init__()
        self.dialog = replayed_comparison(answered)

    def on_mount(self) -> None:
        self.push_screen(self.dialog)


def test_it_looks_as_it_should(snap_compare: Any) -> None:
    assert snap_compare(ComparisonApp(metadata()), terminal_size=(110, 32))


async def test_differences_are_gone_through_round_and_round() -> None:
    app = ComparisonApp(metadata())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        table = app.dialog.query_one(RowTable)
        seen = []
        for key in ("n", "n", "n", "n", "n"):
            assert table.selected is not None
            seen.append(table.selected.key)
            await pilot.press(key)
        assert len(set(seen)) > 2
        assert all("≠" in row.text() for row in table.rows if row.key in seen)
        await pilot.press("N")
        assert table.selected is not None
        assert table.selected.key == seen[4]


async def test_secrets_are_masked_and_failures_told() -> None:
    config = {"name": "ssl.keystore.password", "value": "hunter2", "is_sensitive": True}
    result = {"resource_type": 4, "resource_name": "1", "configs": [config]}
    made = answered(
        DESCRIBE_CONFIGS, 4, {"results": [result]}, {"results": []}, failure="not answered in time"
    )
    app = ComparisonApp(made)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        shown = "\n".join(row.text() for row in app.dialog.query_one(RowTable).rows)
        assert "(masked)" in shown
        assert "hunter2" not in shown
        assert "✗ not answered in time" in str(app.dialog.query_one("#verdict", Static).visual)
