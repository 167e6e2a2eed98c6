"""Views count a file by columns once it is read; that equals counting its exchanges one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captures.analysis.latency import Dimension, Measure
from captures.analysis.records import RecordListing, RecordSelection
from captures.exchanges.columns import SelectedColumns
from captures.filters import compile_filter
from captures.interventions import UpstreamBroker
from captures.payloads.decoding import PayloadDecoding
from kproxy.session import Access, folds
from kproxy.session.folds import ColumnFold
from kproxy.text.records import RecordPayloads
from kproxy.tui.views import records
from kproxy.tui.views.clients import ClientsFold
from kproxy.tui.views.connections import ConnectionsFold
from kproxy.tui.views.errors import ErrorsFold
from kproxy.tui.views.findings import FindingsFold
from kproxy.tui.views.groups import GroupFold
from kproxy.tui.views.latency import LatencyFold
from kproxy.tui.views.records import Records, RecordsFold
from kproxy.tui.views.topic_figures import TopicsFold
from tests.conftest import DATA
from tests.kproxy.tui.kit import REBALANCE, read_session

CAPTURES = (
    REBALANCE,
    *(
        DATA / name
        for name in (
            "06_noida_acks0_java.pcap",
            "09_loss3pct_before_tap.pcap.zst",
            "09_snaplen128.pcap",
            "21_k430_share_group.pcap.zst",
            "22_k430_java_commit_abort.pcap",
            "24_k430_franz_scramsha256.pcap",
            "30_k0822_scala_acks0_partial.pcap",
        )
    ),
    DATA.parent / "findings" / "25_k430_broker_sigkill.pcap.zst",
    DATA.parent / "findings" / "35_k282_errors.pcap.zst",
)
MANY = 50  # records


def of_connections(fold: ConnectionsFold, access: Access) -> Any:
    count = len(access.capture.connections)
    rows = [fold.stats.row(connection) for connection in range(count)]
    return (
        rows,
        [fold.stories.of(row) for row in rows],
        [dict(fold.stories.mix(each)) for each in range(count)],
    )


def of_latencies(fold: LatencyFold, _: Access) -> Any:
    found = [fold.distributions(dimension, measure) for dimension in Dimension for measure in Measure]
    named = [
        (each.label, each.condition, each.p50, each.max, each.slowest, each.counts.tolist())
        for distributions in found
        for each in distributions
    ]
    return named, fold.unmeasured, fold.only_waited


FOLDS: dict[str, tuple[Callable[[Access, Records], Any], Callable[[Any, Access], Any]]] = {
    "connections": (lambda access, _: ConnectionsFold(access.capture), of_connections),
    "clients": (lambda access, _: ClientsFold(), lambda fold, _: (fold.result(), fold.offered._offered)),
    "errors": (
        lambda access, _: ErrorsFold(access.capture),
        lambda fold, _: (fold.stats.result(), fold.sequels()),
    ),
    "latency": (lambda access, _: LatencyFold(), of_latencies),
    "topics": (
        lambda access, _: TopicsFold(access.plain.knowledge.topic_name),
        lambda fold, _: (fold.result(), fold.seconds, fold.positions.nodes),
    ),
    "records": (
        lambda access, view: RecordsFold(
            RecordListing(RecordSelection(), access.plain.knowledge.topic_name),
            RecordPayloads(PayloadDecoding()),
            view,
        ),
        lambda fold, _: (fold.rows, fold.more),
    ),
}


@pytest.mark.slow
@pytest.mark.turns(3)
@pytest.mark.parametrize("selected", [False, True], ids=["all", "selected"])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
async def test_columns_count_what_exchanges_count(
    path: Path, selected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST", MANY)
    async with read_session(path) as session:
        view = Records(session)

        def counted(access: Access) -> dict[str, tuple[Any, Any]]:
            columns = access.columns()
            indexes = np.arange(len(columns))
            if selected:
                indexes = indexes[np.random.default_rng(1).random(len(indexes)) < 0.6]
            chosen = SelectedColumns(columns, indexes) if selected else columns
            found = {}
            for name, (make, told) in FOLDS.items():
                one_by_one, together = make(access, view), make(access, view)
                for exchange in access.exchanges((indexes + access.plain.first).tolist()):
                    one_by_one.add(exchange)
                assert isinstance(together, ColumnFold)
                columns.prepare(together.TAKEN)
                for _ in together.add_all(access, chosen, indexes):
                    pass
                found[name] = told(one_by_one, access), told(together, access)
            return found

        for name, (one_by_one, together) in (await session.run(counted)).items():
            assert together == one_by_one, name


@pytest.mark.parametrize("name", FOLDS)
async def test_of_a_selection_no_more_is_counted_than_it_has(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds, "_TURN", 0)
    shares: list[float] = []
    count = folds.SessionFold._count

    def counted(folding: folds.SessionFold[Any], number: int) -> None:
        count(folding, number)
        shares.append(folding.progress)

    monkeypatch.setattr(folds.SessionFold, "_count", counted)
    async with read_session() as session:
        await session.set_filter(compile_filter("latency > 1ms"))
        view = Records(session)
        session.fold(name, lambda access: FOLDS[name][0](access, view)).want(True)
        await session.idle()
        assert min(shares) > 0
        assert max(shares) == shares[-1] == 1


async def test_groups_of_named_clusters_are_apart() -> None:
    async with read_session() as session:

        def counted(access: Access) -> list[tuple[Any, Any]]:
            columns, indexes = access.columns(), np.arange(len(access.plain))
            for connection in range(len(access.capture.connections)):
                cluster = "west" if connection % 3 else "east"
                access.capture.samples.upstreams[connection] = UpstreamBroker(cluster=cluster)
            one_by_one, together = GroupFold(access), GroupFold(access)
            for exchange in access.exchanges((indexes + access.plain.first).tolist()):
                one_by_one.add(exchange)
            for _ in together.add_all(access, columns, indexes):
                pass
            now = access.capture.latest
            return [
                (
                    {part: stats.result() for part, stats in fold.stats.items()},
                    fold.compute(now, (), live=False),
                )
                for fold in (one_by_one, together)
            ]

        one_by_one, together = await session.run(counted)
        assert sum(map(bool, one_by_one[0].values())) == 2
        assert one_by_one == together


async def test_findings_and_incidents_are_those_of_each_cluster() -> None:
    async with read_session(DATA.parent / "findings" / "35_k282_errors.pcap.zst") as session:

        def found(access: Access) -> tuple[Any, Any]:
            one = judged(access)
            upstreams = access.capture.samples.upstreams
            for connection in range(len(access.capture.connections)):
                upstreams[connection] = UpstreamBroker(cluster="west" if connection % 2 else "east")
            return one, judged(access)

        def judged(access: Access) -> Any:
            fold = FindingsFold(access)
            for _ in fold.add_all(access, access.columns(), np.arange(len(access.plain))):
                pass
            return fold.compute(access.capture.latest, (), live=False)

        one, several = await session.run(found)
        assert not any(each.cluster for each in one.findings)
        assert len({each.cluster for each in several.findings if each.cluster}) > 1
