"""Doctor reports the Java for a Spark session; the tests of captures.spark cover how it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.spark.errors import JavaMissing
from captures.spark.java import Java
from kproxy.doctor import State, spark


def test_a_java_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark, "find_java", lambda: Java(tmp_path, 17, "PATH"))
    check = spark.java()
    assert check.state is State.OK
    assert check.found == f"Java 17 in {tmp_path} (PATH)"


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Java:
        raise JavaMissing("Spark needs Java 17 or later (Java 8 in /opt/java (PATH) is too old).")

    monkeypatch.setattr(spark, "find_java", missing)
    check = spark.java()
    assert check.state is State.MISSING
    assert "Java 8 in /opt/java" in check.about
    assert check.command.endswith("'kproxy[jdk]'")


def test_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(spark, "version_of", lambda _: None)
    assert spark.pyspark().state is State.MISSING
    monkeypatch.setattr(spark, "version_of", lambda _: "4.1.0")
    monkeypatch.setattr(spark, "requirements", tuple)
    assert spark.pyspark().found == "4.1.0"
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark.pyspark().command == "unset SPARK_HOME"
