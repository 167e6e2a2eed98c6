"""Sessions: a running one is used; an embedded one starts quietly and leaves nothing behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest

from captures.spark import session as sessions
from captures.spark.errors import SessionConflict, SparkMissing, SparkStartError
from captures.spark.pipeline import _EXCHANGES, _WHOLE
from captures.spark.session import LOCAL, running_session, session, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[3]


def test_the_running_session_is_taken_and_left(spark: SparkSession) -> None:
    with running_session() as other:
        assert other is spark
    with running_session("local[2,4]") as other:
        assert other is spark
    assert spark.range(5).count() == 5


def test_another_place_than_the_running_one_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SessionConflict, match=r"already, on local\[2,4\], not local\[7\]"):
        session("local[7]")
    with pytest.raises(SessionConflict, match="sc://host cannot be used"):
        session(remote="sc://host")


def test_settings_of_sql_are_given_to_the_running_session(spark: SparkSession) -> None:
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    try:
        session(settings={name: "3"})
        assert spark.conf.get(name) == "3"
    finally:
        spark.conf.set(name, before)


def test_the_embedded_session(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"

    def told(batches: Iterator[object]) -> Iterator[object]:
        import pyarrow as pa

        list(batches)
        words = [sys.executable, os.environ["OPENBLAS_NUM_THREADS"], str(__import__("captures").__path__[0])]
        yield pa.RecordBatch.from_pydict({"said": words})

    said = [row.said for row in spark.range(1, numPartitions=1).mapInArrow(told, "said string").collect()]  # type: ignore[arg-type]
    assert said == [sys.executable, "1", str(ROOT / "captures")]


SCRIPT = """
import os, signal, sys, threading, time
from captures.spark import session as sessions
from captures.spark.session import running_session
from tests.spark import LIGHT

def slow(batches):
    time.sleep(60)
    yield from batches

def interrupt():
    context = spark.sparkContext
    while not context.statusTracker().getActiveStageIds():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

try:
    with running_session("local[1]", settings={"spark.driver.memory": "512m", **LIGHT}) as spark:
        print(spark.range(3).count(), os.listdir(os.environ["TMPDIR"])[0][:13], flush=True)
        process = sessions._embedded.gateway.process
        threading.Thread(target=interrupt, daemon=True).start()
        spark.range(3).mapInArrow(slow, "id long").collect()
except (KeyboardInterrupt, Exception):  # pyspark's own clearing away may fail, as its connection was interrupted
    print("stopped", process.poll() is not None, os.listdir(os.environ["TMPDIR"]))
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_machine_and_leaves_nothing(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    here = tmp_path / "here"
    here.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    # its own process: one has one session
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=here, env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "3 kproxy-spark-\nstopped True []\n", run.stderr
    assert "JVM" not in run.stderr
    assert "WARN" not in run.stderr
    assert list(here.iterdir()) == []


# ---------------------------------------------------------------- without starting anything
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkMissing, match=r"pip install 'kproxy\[spark,jdk\]'"):
        session()


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.4")
    with pytest.raises(SparkMissing, match=r"pyspark 3\.5\.4 is too old"):
        sessions.spark_version()


def test_two_places_are_one_too_many() -> None:
    with pytest.raises(SessionConflict):
        session("local", remote="sc://host")


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        place = urlsplit(f"sc://127.0.0.1:{port}/;token=x")
        with pytest.raises(SparkStartError, match=rf"answers at 127\.0\.0\.1:{port}: Connection refused"):
            sessions._check_answers("Spark Connect server", [place], 15002)


def test_defaults_go_after_what_the_user_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.driver.memory  7g\nspark.master=spark://h:7077\nspark.driver.extraJavaOptions -Da=b -Dc=d\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    told = sessions._defaults(spark_home())
    assert told["spark.master"] == "spark://h:7077"
    local = sessions._settings(LOCAL, told, tmp_path, own_log=False)
    assert local["spark.driver.memory"] == "7g"
    assert local["spark.driver.extraJavaOptions"].endswith(" -Da=b -Dc=d")
    assert "-Dlog4j2.configurationFile=file:/" in local["spark.driver.extraJavaOptions"]
    cluster = sessions._settings("spark://h:7077", {}, tmp_path, own_log=True)
    assert "spark.driver.host" not in cluster
    assert "log4j2" not in cluster["spark.driver.extraJavaOptions"]
    assert cluster["spark.executorEnv.OPENBLAS_NUM_THREADS"] == "1"
    pools = ElementTree.parse(cluster["spark.scheduler.allocation.file"].removeprefix("file://"))  # ours
    assert [each.get("name") for each in pools.iter("pool")] == [_WHOLE, _EXCHANGES]
