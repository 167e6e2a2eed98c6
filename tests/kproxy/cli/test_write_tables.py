"""``kproxy tables``: the choice of engine, messages, and exit."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from captures.spark import java, session
from captures.spark.errors import JavaMissing
from captures.tables.options import TablesOptions
from kproxy.cli import main
from kproxy.cli.write_tables import SMALL, StageBars, choose_engine
from tests.spark import SHORT_LIVED
from tests.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
# the command's function has the name of its module
MODULE = sys.modules["kproxy.cli.write_tables"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["tables", *map(str, arguments)])


def rows(out: Path, table: str) -> int:
    import pyarrow.dataset as ds

    return int(ds.dataset(out / table, partitioning="hive").count_rows())


# ---------------------------------------------------------------- one process
@pytest.mark.slow
def test_tables_of_a_capture(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(SAMPLE, "-o", out)
    assert done.exit_code == 0, done.output
    assert "one process: for 209 KiB Spark would take longer to start" in done.stderr
    read = json.loads(CliRunner().invoke(main, ["stats", "--json", str(SAMPLE)]).stdout)
    assert f"{read['exchanges']:,} exchanges" in done.stdout
    assert rows(out, "exchanges") == read["exchanges"]
    assert not (out / "records").exists()


def test_a_choice_of_tables_as_json(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(
        SAMPLE, "-o", out, "--table", "exchanges", "--columns", "api", "-Y", "api == Heartbeat", "--json"
    )
    shape = json.loads(done.stdout)
    assert done.exit_code == 0
    assert shape["engine"] == "single"
    assert shape["complete"] is True
    assert list(shape["rows"]) == ["exchanges"]
    assert 0 < shape["rows"]["exchanges"] < shape["exchanges"]
    assert sorted(path.name for path in out.iterdir()) == ["_kproxy", "exchanges"]


@pytest.mark.slow
def test_what_is_there_is_not_touched_unasked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    chosen = ("--table", "exchanges")
    assert run(SAMPLE, "-o", out, *chosen).exit_code == 0
    refused = run(SAMPLE, "-o", out, *chosen)
    assert (refused.exit_code, "--append adds to them" in refused.stderr) == (1, True)
    again = run(SAMPLE, "-o", out, *chosen, "--append")
    assert (again.exit_code, "a run before has read it" in again.stdout) == (0, True)
    before = rows(out, "exchanges")
    assert run(SAMPLE, "-o", out, *chosen, "--overwrite").exit_code == 0
    assert rows(out, "exchanges") == before


@pytest.mark.slow
def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(SAMPLE.read_bytes()[:-7])
    text = tmp_path / "text.pcap"
    text.write_text("no capture")
    chosen = ("--table", "exchanges")
    some = run(SAMPLE, text, "-o", tmp_path / "a", *chosen)
    assert some.exit_code == 3
    assert f"not read: {text}" in some.stdout
    none = run(text, "-o", tmp_path / "b", *chosen)
    assert none.exit_code == 1
    strict = run(SAMPLE, text, "-o", tmp_path / "c", *chosen, "--strict")
    assert (strict.exit_code, str(text) in strict.stderr) == (1, True)
    assert not list(tmp_path.glob("c/exchanges"))
    damaged = run(broken, "-o", tmp_path / "d", *chosen)
    assert damaged.exit_code == 3
    assert f"damaged: {broken}" in damaged.stdout


def test_files_of_a_folder_that_are_no_captures(tmp_path: Path) -> None:
    pass_over_files(tmp_path, "single")


def test_files_of_a_folder_that_are_no_captures_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    pass_over_files(tmp_path, "spark")


def pass_over_files(tmp_path: Path, engine: str) -> None:
    folder = tmp_path / "day"
    folder.mkdir()
    shutil.copy(SAMPLE, folder)
    damaged = folder / "damaged.pcap"
    damaged.write_bytes(bytes(4) + SAMPLE.read_bytes()[4:])
    chosen = ("--table", "exchanges", "--columns", "api", "--engine", engine)
    done = run(folder, "-o", tmp_path / "a", *chosen)
    assert f"passed over, as it is no capture: {damaged}" in done.stdout
    assert "1 file (1 passed over), " in done.stdout
    assert done.exit_code == 0
    summary = json.loads(run(folder, "-o", tmp_path / "b", *chosen, "--json").stdout)
    assert (summary["passed_over"], summary["complete"]) == ([str(damaged)], False)
    strict = run(folder, "-o", tmp_path / "c", *chosen, "--strict")
    assert strict.exit_code == 1
    assert f"{damaged}: this is no capture" in strict.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--append", "--overwrite"], "--append and --overwrite cannot be combined"),
        (["--engine", "single", "--master", "yarn"], "--master and --engine single cannot be combined"),
        (["--jobs", "2", "--remote", "sc://x"], "--jobs and --remote cannot be combined"),
        (["--follow", "--engine", "single"], "--follow and --engine single cannot be combined"),
        (["--table", "nope"], "'nope' is no table"),
        (["--table", "findings", "--columns", "api"], "the table exchanges is not written"),
        (["--columns", "nope"], "'nope' is not a column of exchanges"),
        (["--spark-conf", "memory=4g"], "'memory=4g' is not a Spark setting"),
        (["--skip", "nope"], "nope"),
        (["-Y", "api =="], "invalid filter"),
        (["--keylog", "/none/such"], "the key log /none/such cannot be read"),
    ],
)
def test_mistakes_are_told_before_anything_starts(options: list[str], told: str, tmp_path: Path) -> None:
    done = run(SAMPLE, "-o", tmp_path / "out", *options)
    assert done.exit_code == 2
    assert told in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_tables() -> None:
    done = run("--list")
    assert done.exit_code == 0
    assert "records (only with --table): " in done.stdout
    assert "    run, number, time, time_ns, " in done.stdout


def test_names_of_addresses(tmp_path: Path) -> None:
    name_addresses(tmp_path, "single")


def test_names_of_addresses_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    name_addresses(tmp_path, "spark")


def name_addresses(tmp_path: Path, engine: str) -> None:
    import pyarrow.dataset as ds

    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 m3\n")
    for name, columns in (("headers", ("--columns", "broker_name")), ("all", ())):
        chosen = ("--table", "exchanges", "--table", "connections", "--engine", engine, *columns)
        assert run(SAMPLE, "-o", tmp_path / name, *chosen, "--hosts", hosts).exit_code == 0
        for table in ("exchanges", "connections"):
            found = ds.dataset(tmp_path / name / table, partitioning="hive").to_table()["broker_name"]
            assert set(found.to_pylist()) == {"m3"}
    hosts.write_text("nowhere m3\n")
    refused = run(SAMPLE, "-o", tmp_path / "out", "--hosts", hosts)
    assert (refused.exit_code, "--hosts: " in refused.stderr) == (2, True)


# ---------------------------------------------------------------- choice of engine
@pytest.mark.slow
def test_which_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    single, spark = MODULE._single, MODULE._on_spark  # type: ignore[attr-defined]
    small, large = [str(SAMPLE)], [str(tmp_path / "large.pcap")]
    with Path(large[0]).open("wb") as file:
        file.truncate(SMALL + 1)
    found = java.Java(tmp_path, 21, "PATH")
    monkeypatch.setattr(java, "find_java", lambda: found)
    monkeypatch.setattr(session, "find_java", java.find_java)
    plain = TablesOptions()
    assert choose_engine("auto", small, plain).engine is single
    assert choose_engine("spark", small, plain).engine is spark
    assert choose_engine("single", large, plain).engine is single
    assert choose_engine("auto", ["-"], plain).engine is single
    choice = choose_engine("auto", large, plain)
    assert choice.engine is spark
    assert "on this machine, Java 21 (PATH)" in choice.why
    assert choose_engine("auto", ["s3a://bucket/day"], plain).engine is spark
    for told in (
        TablesOptions(master="local[2]"),
        TablesOptions(remote="sc://h"),
        TablesOptions(follow=True),
    ):
        assert choose_engine("auto", small, told).engine is spark


@pytest.mark.parametrize(
    ("names", "engine"),
    [
        (["4.3.0.pcap.zst", "4.3.0.log.gz"], "_single"),
        (["3.9.2.log.gz", "4.3.0.log.gz"], "_single"),
        (["4.3.0.pcap.zst"], "_on_spark"),
        (["4.3.0.log.gz"], "_on_spark"),
    ],
)
def test_a_log_and_other_captures_are_read_by_one_process(
    names: list[str], engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(MODULE, "SMALL", 1)
    monkeypatch.setattr(MODULE, "_spark", lambda where: where)
    folder = ROOT / "tests" / "data" / "request_log"
    paths = [str(folder / f"kafka_{name}") for name in names] + [str(tmp_path)]
    (tmp_path / "notes.txt").write_text("no capture\n" * 10)
    assert choose_engine("auto", paths, TablesOptions()).engine is getattr(MODULE, engine)


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> java.Java:
        raise JavaMissing("Spark needs Java 17. pip install 'kproxy[spark,jdk]' brings one.")

    for module in (java, session):
        monkeypatch.setattr(module, "find_java", missing)
    monkeypatch.setattr(MODULE, "SMALL", 1)
    choice = choose_engine("auto", [str(SAMPLE)], TablesOptions())
    assert choice.engine is MODULE._single  # type: ignore[attr-defined]
    assert "pip install 'kproxy[spark,jdk]'" in choice.why
    done = run(SAMPLE, "-o", tmp_path / "out", "--engine", "spark")
    assert done.exit_code == 2
    assert "pip install 'kproxy[spark,jdk]'" in done.stderr


# ---------------------------------------------------------------- on Spark
def test_the_same_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    chosen = ("--table", "exchanges", "--table", "topic_partitions", "--json")
    assert run(SAMPLE, "-o", one, *chosen, "--engine", "single").exit_code == 0
    done = run(SAMPLE, "-o", many, *chosen, "--engine", "spark")
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("kproxy: Spark ")
    assert json.loads(done.stdout)["engine"] == "spark"
    for table in ("exchanges", "topic_partitions"):
        assert rows(many, table) == rows(one, table) > 0
    assert spark.range(2).count() == 2  # the session is still usable


def test_errors_of_workers_are_told_in_words(spark: SparkSession, tmp_path: Path, monkeypatch: Any) -> None:
    def failing(*_: object) -> None:
        spark.range(1, numPartitions=1).mapInArrow(lambda batches: 1 / 0, "id long").collect()  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(MODULE, "_on_spark", failing)
    done = run(SAMPLE, "-o", tmp_path / "out", "--engine", "spark")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[1:] == [
        "kproxy: a worker failed with ZeroDivisionError: division by zero",
    ]


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kproxy",
            "tables",
            str(SAMPLE),
            "-o",
            str(out),
            "--engine",
            "spark",
            "-j",
            "1",
            *SHORT_LIVED,
        ],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: list(temporary.glob("kproxy-spark-*/spill/*")) or process.poll() is not None)
    assert process.poll() is None, process.communicate()  # Spark has started
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == f"kproxy: stopped: nothing of this run was written to {out}"
    assert "Traceback" not in errors
    assert told == ""
    assert list(temporary.iterdir()) == []  # the JVM removes its files on exit
    assert not out.exists() or [path.name for path in out.iterdir()] == []
    shutil.rmtree(out, ignore_errors=True)


# ---------------------------------------------------------------- progress
class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_stages_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := Terminal())
    with StageBars() as progress:
        for done in (0, 1 << 20, 2 << 20):
            progress("reading", done, 2 << 20)
        progress("judging", 0, 0)
        progress("judging", 3, 3)
    text = written.getvalue()
    assert text.index("reading") < text.index("100%") < text.index("judging")
    assert "MB/s" in text


def test_nothing_is_shown_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := io.StringIO())
    with StageBars() as progress:
        progress("reading", 1, 2)
    assert written.getvalue() == ""
