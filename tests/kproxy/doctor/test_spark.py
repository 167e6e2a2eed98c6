"""Each Java is asked for its version, and the one that Spark's launcher takes is the one that has to fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.doctor import State, spark

# first lines of `java -version`: Temurin 25, Debian's OpenJDK 17, OpenJDK 8, IBM's Java 11
_TEMURIN_25 = 'openjdk version "25.0.1" 2025-10-21 LTS'
_DEBIAN_17 = 'openjdk version "17.0.15" 2025-04-15'
_JAVA_8 = 'openjdk version "1.8.0_292"'
_IBM_11 = 'openjdk version "11.0.11" 2021-04-20'
_EARLY = 'openjdk version "27-ea" 2026-09-15'


def a_java(home: Path, line: str, code: int = 0) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{line}' >&2\nexit {code}\n")
    executable.chmod(0o755)
    return executable


@pytest.fixture(autouse=True)
def _none_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(spark, "find_spec", lambda _: None)


@pytest.mark.parametrize(
    ("line", "major", "state"),
    [
        (_TEMURIN_25, 25, State.OK),
        (_DEBIAN_17, 17, State.OK),
        (_EARLY, 27, State.OK),
        (_IBM_11, 11, State.LIMITED),
        (_JAVA_8, 8, State.LIMITED),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", 0, State.LIMITED),
    ],
)
def test_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, major: int, state: State
) -> None:
    a_java(tmp_path, line.replace("'", ""))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (found,) = spark.javas()
    assert found.major == major
    assert spark.java().state is state


def test_no_java() -> None:
    check = spark.java()
    assert check.state is State.MISSING
    assert check.command.endswith("'kproxy[jdk]'")


def test_a_java_that_fits_behind_one_that_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path / "eight", _JAVA_8)
    good = a_java(tmp_path / "seventeen", _DEBIAN_17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "eight"))
    monkeypatch.setattr("shutil.which", lambda _: str(good))
    check = spark.java()
    assert check.state is State.LIMITED
    assert check.command == f"export JAVA_HOME={tmp_path / 'seventeen'}"
    monkeypatch.delenv("JAVA_HOME")
    assert spark.java().state is State.OK


def test_a_java_home_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "does not run" in spark.java().found


def test_the_same_java_is_asked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    good = a_java(tmp_path, _DEBIAN_17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda _: str(good))
    assert [each.origin for each in spark.javas()] == ["JAVA_HOME"]


def test_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark, "version_of", lambda _: None)
    assert spark.pyspark().state is State.MISSING
    monkeypatch.setattr(spark, "version_of", lambda _: "4.1.0")
    monkeypatch.setattr(spark, "requirements", tuple)
    assert spark.pyspark().found == "4.1.0"
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark.pyspark().command == "unset SPARK_HOME"
