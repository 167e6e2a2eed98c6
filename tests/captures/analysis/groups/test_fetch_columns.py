"""Fetches of consumers from columns instead of exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.groups import history
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.incidents.history import IncidentHistories
from captures.arrays import Bools
from captures.exchanges import ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns

DATA = Path(__file__).parents[3] / "data" / "groups"


def timelines_of(path: Path) -> tuple[int, list[GroupTimeline]]:
    """Return the number of exchanges read, and the resulting timelines."""
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    reader.learn(len(reader))
    histories = IncidentHistories(reader.knowledge.topic_name, capture)
    columns = ExchangeColumns(capture, reader.rows)
    chosen = histories.choose(DecisionColumns(columns, numbers=np.arange(len(reader)) + reader.first))
    for exchange in reader.several(np.flatnonzero(chosen).tolist()):
        histories.add(exchange)
    return int(chosen.sum()), histories.result()


def recordings() -> Iterator[str]:
    """Yield recordings of classic consumers, of a client with slow responses, and of Connect."""
    for name in ("21_k430_franz_coop", "46_k430_rolling_restart_static", "47_k430_connect_changes"):
        yield f"{name}.pcap.zst"


@pytest.mark.parametrize("name", recordings())
def test_fetches_from_columns_give_the_same_timelines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer, by_columns = timelines_of(DATA / name)

    def everything(rows: DecisionColumns) -> Bools:
        return np.ones(len(rows.columns), np.bool_)

    monkeypatch.setattr(history.Farewells, "deciding", staticmethod(everything))
    more, one_by_one = timelines_of(DATA / name)
    assert fewer < more
    assert by_columns == one_by_one
