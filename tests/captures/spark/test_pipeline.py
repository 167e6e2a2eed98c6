"""Tables on Spark equal those of one process, for any division of the capture and any fate of the tasks."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.all import RULES
from captures.analysis.findings.rules.versions import RefusedByKafka4
from captures.exchanges import Exchange
from captures.json_objects import to_json
from captures.packets import CaptureError
from captures.spark import capture_reader, pipeline
from captures.tables import single
from captures.tables.columns import Needs
from captures.tables.folder import FolderError, read_manifests
from captures.tables.options import TablesOptions, TablesSummary
from captures.tables.schema import TABLES
from captures.tables.single import TableRequest
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import (
    ALL,
    by_one_process,
    copied,
    cut,
    leftovers,
    on_spark,
    rows_of,
    same_summary,
    same_tables,
)

HEADER = tuple(column.name for column in TABLES["exchanges"].columns if column.needs is Needs.HEADER)
TLS = DATA / "24_k430_tls13_franz.pcap"
KEYLOG = DATA / "24_k430_tls13_franz.keylog"

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TablesSummary]:
    """All tables of the sample, by one process."""
    out = tmp_path_factory.mktemp("single")
    return out, by_one_process([SAMPLE], out / "out")


@pytest.mark.parametrize("size", [20_000, 60_000])
def test_all_tables_are_those_of_one_process(
    size: int, expected: tuple[Path, TablesSummary], tmp_path: Path
) -> None:
    made = on_spark([SAMPLE], tmp_path / "out", replace(ALL, range_bytes=size))
    same_tables(tmp_path / "out", expected[0] / "out")
    same_summary(made, expected[1])
    assert made.files[0].tasks == -(-SAMPLE.stat().st_size // size)
    assert not leftovers(tmp_path / "out")
    (manifest,) = read_manifests(str(tmp_path / "out"))
    assert manifest.summary == to_json(made)


def test_with_more_processors_exchanges_are_dealt_out(
    expected: tuple[Path, TablesSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "processors", lambda _: 3)
    made = on_spark([SAMPLE], tmp_path / "out", replace(ALL, range_bytes=60_000))
    same_tables(tmp_path / "out", expected[0] / "out")
    same_summary(made, expected[1])


def test_rotated_files_in_any_order(tmp_path: Path) -> None:
    files = cut(SAMPLE, 5, tmp_path / "ring")
    names = [path.with_name(f"{chr(ord('e') - number)}.pcap") for number, path in enumerate(files)]
    for path, name in zip(files, names, strict=True):  # names tell nothing of the order
        path.rename(name)
    random.Random(9).shuffle(names)
    by_one_process(sorted(names), tmp_path / "single")
    on_spark(names, tmp_path / "out", replace(ALL, range_bytes=50_000))
    same_tables(tmp_path / "out", tmp_path / "single")


def test_captures_of_all_kinds_are_one(tmp_path: Path) -> None:
    kinds = (
        "09_pcapng_dumpcap.pcapng",
        "09_snaplen128.pcap",
        "20_k430_ck_zstd.pcap",
        "21_k430_share_group.pcap.zst",
        "22_k430_java_commit_abort.pcap",
        "30_k0822_scala_acks0_partial.pcap",
        "09_loss3pct_before_tap.pcap.zst",
    )
    paths = [DATA / name for name in kinds]
    by_one_process(paths, tmp_path / "single")
    made = on_spark(paths, tmp_path / "out", replace(ALL, range_bytes=20_000))
    same_tables(tmp_path / "out", tmp_path / "single")
    whys = {Path(file.path).name: file.why for file in made.files}
    assert "pcapng" in whys["09_pcapng_dumpcap.pcapng"]
    assert "zstd" in whys["21_k430_share_group.pcap.zst"]
    assert whys["20_k430_ck_zstd.pcap"] == ""


@pytest.mark.parametrize(
    "text",
    [
        "group == gr2-java_eager_range and api == Heartbeat",
        "number > 100 and number < 180 or connection == 3",
        "time > 2s and latency > 1ms",
    ],
)
def test_filters_mean_the_same(text: str, tmp_path: Path) -> None:
    options = TablesOptions(
        tables=("exchanges", "topic_partitions", "findings"), filter=text, range_bytes=60_000
    )
    one = by_one_process([SAMPLE], tmp_path / "single", options)
    made = on_spark([SAMPLE], tmp_path / "out", options)
    same_tables(tmp_path / "out", tmp_path / "single")
    assert made.notes == one.notes
    assert made.rows["exchanges"] == one.rows["exchanges"]
    assert 0 < one.rows["exchanges"] < 402


def test_tls_with_a_key_log(tmp_path: Path) -> None:
    options = TablesOptions(keylog=str(KEYLOG), range_bytes=7_000)
    one = by_one_process([TLS], tmp_path / "single", options)
    on_spark([TLS], tmp_path / "out", options)
    same_tables(tmp_path / "out", tmp_path / "single")
    assert one.exchanges > 10


def test_where_headers_do_nothing_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = TablesOptions(tables=("exchanges",), columns=HEADER, range_bytes=20_000)
    by_one_process([SAMPLE], tmp_path / "single", options)
    # the tasks get a copy of this, and would fail with it
    monkeypatch.setattr(pipeline, "RangeWriter", None)
    on_spark([SAMPLE], tmp_path / "out", options)
    same_tables(tmp_path / "out", tmp_path / "single")


def test_chosen_columns(tmp_path: Path) -> None:
    options = TablesOptions(
        tables=("exchanges",),
        columns=("run", "number", "time", "time_ns", "api", "topics"),
        range_bytes=50_000,
    )
    by_one_process([SAMPLE], tmp_path / "single", options)
    on_spark([SAMPLE], tmp_path / "out", options)
    same_tables(tmp_path / "out", tmp_path / "single")


def test_files_that_are_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="captures elsewhere are read through fsspec (extra 'remote')")
    cut(SAMPLE, 3, tmp_path / "ring")
    there = f"local://{tmp_path}/ring"
    single.write_tables([there], str(tmp_path / "single"), ALL)
    made = pipeline.write_tables([there], str(tmp_path / "out"), replace(ALL, range_bytes=60_000))
    same_tables(tmp_path / "out", tmp_path / "single")
    assert all(file.path.startswith(there) for file in made.files)
    again = pipeline.write_tables([f"{there}/*.pcap"], str(tmp_path / "out"), replace(ALL, append=True))
    assert len(again.skipped) == 3


# ---------------------------------------------------------------- runs
def test_appending_adds_what_is_new_once(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    copied([DATA / "20_k430_ck_zstd.pcap"], ring)
    options = TablesOptions(tables=("exchanges", "findings"), append=True)
    first = on_spark([ring], tmp_path / "out", options)
    again = on_spark([ring], tmp_path / "out", options)
    assert [each.path for each in again.skipped] == [str(ring / "20_k430_ck_zstd.pcap")]
    assert again.rows == {"exchanges": 0, "findings": 0}
    copied([DATA / "22_k430_java_commit_abort.pcap"], ring)
    more = on_spark([ring], tmp_path / "out", options)
    exchanges = rows_of(tmp_path / "out")["exchanges"]
    assert len(exchanges) == first.exchanges + more.exchanges
    assert {row["run"] for row in exchanges} == {
        manifest.run for manifest in read_manifests(str(tmp_path / "out"))
    }
    with pytest.raises(FolderError):
        on_spark([ring], tmp_path / "out", replace(options, append=False))


def broken(path: Path) -> Path:
    """A capture with bytes in its middle that are no packets."""
    data = bytearray(SAMPLE.read_bytes())
    at = len(data) // 2
    data[at : at + 3_000] = random.Random(3).randbytes(3_000)
    path.write_bytes(data)
    return path


def test_a_broken_file_is_told_and_ends_nothing(tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    copied([DATA / "20_k430_ck_zstd.pcap"], ring)
    damaged = broken(ring / "damaged.pcap")
    (ring / "notes.txt").write_text("no capture\n" * 10)
    whole = (DATA / "21_k430_share_group.pcap.zst").read_bytes()
    (ring / "short.pcap.zst").write_bytes(whole[: len(whole) // 2])
    nothing = tmp_path / "nothing.pcap"
    paths = [ring, nothing]
    one = by_one_process(paths, tmp_path / "single")
    made = on_spark(paths, tmp_path / "out", replace(ALL, range_bytes=25_000))
    same_tables(tmp_path / "out", tmp_path / "single")
    same_summary(made, one)
    assert not made.clean
    assert [each.path for each in made.unreadable] == [str(nothing)]
    assert any(str(damaged) in each for each in made.damage)
    with pytest.raises(CaptureError, match=r"nothing\.pcap"):
        on_spark(paths, tmp_path / "strict", replace(ALL, strict=True))
    with pytest.raises(CaptureError, match=r"notes\.txt: this is no capture"):
        on_spark([ring], tmp_path / "strict", replace(ALL, strict=True))
    (ring / "notes.txt").unlink()
    with pytest.raises(CaptureError, match=r"(damaged|short)\.pcap"):
        on_spark([ring], tmp_path / "strict", replace(ALL, strict=True))
    assert not (tmp_path / "strict").exists()


# ---------------------------------------------------------------- workers that die
class _Dies:
    """A task whose process is killed the first time, in the middle of its output."""

    def __init__(self, task: Any, flag: Path) -> None:
        self._task = task
        self._flag = flag

    def __call__(self, batches: Any) -> Any:
        for batch in self._task(batches):
            try:
                self._flag.touch(exist_ok=False)
            except FileExistsError:
                yield batch
            else:
                os._exit(1)


def test_a_killed_worker_changes_nothing(
    expected: tuple[Path, TablesSummary], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = []
    for module, name in (
        (capture_reader, "_PartsReader"),
        (capture_reader, "_BucketStitcher"),
        (pipeline, "RangeWriter"),
        (pipeline, "TableBuilder"),
    ):
        flag = tmp_path / name
        flags.append(flag)
        kind = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, kind=kind, flag=flag, **more: _Dies(kind(*given, **more), flag)
        )
    made = on_spark([SAMPLE], tmp_path / "out", replace(ALL, range_bytes=60_000))
    assert all(flag.exists() for flag in flags)
    same_tables(tmp_path / "out", expected[0] / "out")
    same_summary(made, expected[1])
    assert not leftovers(tmp_path / "out")


def test_a_run_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        def __init__(self, *_: Any) -> None:
            """Take what it is given."""

        def __call__(self, batches: Any) -> Any:
            raise ValueError("no luck")
            yield

    monkeypatch.setattr(pipeline, "TableBuilder", Fails)
    with pytest.raises(Exception, match="no luck"):
        on_spark([SAMPLE], tmp_path / "out", TablesOptions(range_bytes=100_000))
    assert not (tmp_path / "out").exists()


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    pipeline.write_tables(
        [str(SAMPLE)],
        str(tmp_path / "out"),
        TablesOptions(tables=("exchanges",), range_bytes=60_000),
        lambda *each: told.append(each),
    )
    assert told[0][0] == "reading"
    assert told[-1][0] == "writing"
    assert all(done <= total for _, done, total in told)


def test_a_fault_in_a_task_is_told_by_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingRule(RefusedByKafka4):  # of no module, so that its code goes to the tasks
        def deciding(self, rows: DecisionColumns) -> None:
            """All exchanges decide."""

        def add(self, exchange: Exchange) -> None:
            if exchange.number in (17, 300):
                raise KeyError("planted")

    wanted = TableRequest(rules=(FailingRule, *RULES))
    monkeypatch.setattr(TableRequest, "of", lambda _: wanted)
    made = on_spark([SAMPLE], tmp_path / "out", replace(ALL, tables=wanted.tables, range_bytes=60_000))
    single = by_one_process([SAMPLE], tmp_path / "single", replace(ALL, tables=wanted.tables))
    assert made.faults == single.faults
    assert made.faults.count == 2
    assert made.faults.sentences[0].startswith(
        f"exchange 17 of {SAMPLE}: the rule refused_by_kafka_4 failed: KeyError: 'planted'"
    )
    assert not made.clean
    same_tables(tmp_path / "out", tmp_path / "single")
    assert rows_of(tmp_path / "out")["findings"]
    (manifest,) = read_manifests(str(tmp_path / "out"))
    assert manifest.summary["faults"]["count"] == 2
