"""Results that need all exchanges are the same for any division among tasks: by subject, client, or connection."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from captures.analysis.clusters import Clusters
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rules.responses import SlowBroker
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.export.pcapng_writer import Packet, PcapngWriter
from captures.filters import compile_filter
from captures.interventions import UpstreamBroker, as_comment
from captures.spark.task_shares import Share
from captures.tables.whole_rows import WholeTables
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.packets.kit import rotated
from tests.captures.spark.judged import ALL, Rows, built, dealt, ranges_of, settings_of
from tests.captures.tables.kit import GROUPS, VARIED, capture_of, exchanges_of

TROUBLED = [
    GROUPS / "21_k430_java_sigstop.pcap.zst",
    GROUPS / "21_k430_ck_crashloop.pcap.zst",
    GROUPS / "51_k430_killed_while_broker_paused.pcap.zst",
    DATA / "09_loss3pct_before_tap.pcap.zst",
    DATA / "06_tansu_garbage.pcap",
    DATA / "22_k430_java_commit_abort.pcap",
]
FINDINGS = sorted((DATA.parent / "findings").glob("*.pcap*"))


def by_one(path: Path, wanted: str | None = None, tables: Sequence[str] = ALL) -> Rows:
    """The tables of one process that is shown all exchanges."""
    return shown(*exchanges_of(path), capture_of(path), wanted, tables)


def shown(
    exchanges: Iterable[Exchange],
    reader: ExchangeReader,
    capture: Capture,
    wanted: str | None = None,
    tables: Sequence[str] = ALL,
) -> Rows:
    clusters = Clusters(capture, reader.knowledge.facts)
    made = WholeTables(capture, reader.knowledge.topic_name, tables, run=0, clusters=clusters)
    chosen = exchanges if wanted is None else compile_filter(wanted).exchanges(reader)
    for exchange in chosen:
        made.add(exchange)
    return {name: sorted(batch.to_pylist(), key=repr) for name, batch in made.batches()}


@pytest.mark.parametrize("processors", [1, 5])
def test_tables_are_those_of_one_process(processors: int) -> None:
    path = DATA / "22_k430_java_commit_abort.pcap"
    assert built([path], 4_000, processors, most=7) == by_one(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", list(dict.fromkeys([*VARIED, *TROUBLED, *FINDINGS])), ids=lambda path: path.name.partition(".")[0]
)
def test_tables_of_all_kinds_of_captures(path: Path) -> None:
    assert built([path], 20_000, 4) == by_one(path)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [None, "cluster == west and broker.id == 1"])
def test_clusters_that_the_proxy_has_recorded(wanted: str | None, tmp_path: Path) -> None:
    """Only the first packets of connections name their clusters, and responses contain the ID of only one."""
    packets: list[Packet] = []
    for cluster, name in (("east", "31_k0901_rebalance_range"), ("west", "21_k430_java_sigstop")):
        path = GROUPS / f"{name}.pcap.zst"
        connections = capture_of(path).connections
        firsts = connections.first_number[: len(connections)].tolist()
        comments = dict.fromkeys(firsts, as_comment(UpstreamBroker(cluster=cluster, node_id=1)))
        records = rotated(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read(), 1)
        heads = [struct.unpack_from("<II", record, 24) for record in records]
        times = [second * 10**9 + fraction * 1000 for second, fraction in heads]
        packets += [
            Packet(0, time - times[0], record[40:], 0, comments.get(number, ""))
            for number, (time, record) in enumerate(zip(times, records, strict=True), 1)
        ]
    packets.sort(key=lambda each: each.time)
    files = []
    for begin in range(0, len(packets), 174):
        files.append(tmp_path / f"{begin:05d}.pcapng")
        with files[-1].open("wb") as file:
            writer = PcapngWriter(file)
            writer.interface(name="kproxy")
            writer.write_packets(packets[begin : begin + 174])
    capture = open_capture([*map(str, files)])
    capture.read()
    reader = ExchangeReader(capture, annotate=False)
    reader.learn(len(reader))
    expected = shown(reader, reader, capture, wanted)
    assert len({row["cluster_id"] for row in expected["connections"]}) == 2
    assert expected["findings"]
    assert built(files, 100, 2, wanted=wanted) == expected


def test_only_matching_exchanges_are_added_and_counted() -> None:
    path, wanted = DATA / "22_k430_java_commit_abort.pcap", "api in {Produce, InitProducerId}"
    assert built([path], 4_000, 4, wanted=wanted) == by_one(path, wanted)


def test_payload_stays_in_the_files() -> None:
    read = ranges_of([SAMPLE], 60_000)
    rows = dealt(read, settings_of(read, 4))
    for side in ("request", "response"):
        frames = [frame for frame in rows.column(side).to_pylist() if frame is not None]
        assert any(frame["offsets"] for frame in frames)
        assert not any(
            frame["complete"] for frame in frames if frame["payload"]
        )  # what is left of damaged ones


def test_what_decides_nothing_is_not_dealt_out() -> None:
    """No answer of the sample is slow, so that nobody has to look at how fast they all are."""
    read = ranges_of([SAMPLE], 60_000)
    settings = replace(settings_of(read, 4), shares=(Share(("findings",), (SlowBroker,)),))
    assert dealt(read, settings).num_rows == 1  # with which the share begins


def test_facts_of_one_range_decide_in_the_others(tmp_path: Path) -> None:
    """A rule that has to be shown all exchanges once there is an error is shown those of ranges without one, too."""
    path = next(each for each in FINDINGS if "one_large_record" in each.name)
    whole = built([path], 1 << 40, 4, ("findings",))
    assert any(row["rule"] == "record_too_large" for row in whole["findings"])
    files = []
    for number, part in enumerate(
        rotated(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read(), 20)
    ):
        files.append(tmp_path / f"{number:03d}.pcap")
        files[-1].write_bytes(part)
    assert built(files, max(file.stat().st_size for file in files), 4, ("findings",)) == whole


def test_every_client_is_of_one_task() -> None:
    read = ranges_of([GROUPS / "21_k430_java_sigstop.pcap.zst"], 1 << 30)
    rows = dealt(read, settings_of(read, 6)).to_pylist()
    shares = settings_of(read, 6).shares
    of: dict[str, set[int]] = {}
    for row in rows:
        if row["number"] and shares[row["share"]].key is Key.CLIENT:
            of.setdefault(row["client_id"] or row["client"].rpartition(":")[0], set()).add(row["share"])
    assert len(of) > 1
    assert all(len(mine) == 1 for mine in of.values())
    assert len(set.union(*of.values())) > 1
    assert all(rule.key is Key.CLIENT for share in shares if share.key is Key.CLIENT for rule in share.rules)
