"""The Spark examples run on the sample in the package."""

from __future__ import annotations

import csv
import json
import runpy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs.generate import DOCS

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

EXAMPLES = DOCS / "examples"
SAMPLE = DOCS.parent / "captures" / "samples" / "rebalance.pcap"


def test_the_script_for_spark_submit(spark: SparkSession, tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLES / "spark_submit.py"))["main"](str(SAMPLE), str(tmp_path / "out"))
    texts = [path.read_text() for path in (tmp_path / "out").glob("*.csv")]
    rows = [row for text in texts for row in csv.DictReader(text.splitlines())]
    assert {row["api"] for row in rows} >= {"Fetch", "JoinGroup", "Heartbeat"}
    assert sum(int(row["exchanges"]) for row in rows) == spark_count(spark)


def spark_count(spark: SparkSession) -> int:
    from captures.spark import exchanges

    return exchanges(spark, str(SAMPLE), columns=["number"]).count()


def test_the_script_for_spark_connect(spark: SparkSession) -> None:
    from captures.spark import tables

    example = runpy.run_path(str(EXAMPLES / "spark_connect.py"))
    found = example["findings"](tables(spark, str(SAMPLE), ["findings"])).collect()
    assert len(found) == 3
    order = ["high", "medium", "low", "info"]
    assert [row.severity for row in found] == sorted((row.severity for row in found), key=order.index)


def test_the_notebook(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kafka.pcap").write_bytes(SAMPLE.read_bytes())
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code.pop() == "stop(spark)"  # other tests use the session
    space: dict[str, Any] = {}
    for each in code:
        exec(each, space)
    assert len(space["found"]["rebalances"].collect()) == 8
