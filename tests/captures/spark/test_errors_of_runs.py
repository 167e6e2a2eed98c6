"""Runs of ``kproxy tables`` with a JVM of their own that fail: the command says why, though the JVM has ended.

Each run starts a JVM. So only the JVM dies here; ``test_errors`` has the words for all that a worker may raise, and
lets workers fail and die in the session of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from captures.spark.errors import SparkRunError, reraised_as_run_errors
from tests.captures.export.files import SAMPLE
from tests.spark import SHORT_LIVED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
PLANTED = """
import os, psutil, signal, sys
def planted(*_, **__):
    os.kill(psutil.Process().parent().parent().pid, signal.SIGKILL)  # of a daemon, of the JVM
if "pyspark.daemon" in sys.orig_argv:
    from captures.spark import table_writer
    table_writer.RangeWriter._write = planted
"""
"""A ``sitecustomize`` that lets the workers of Spark, and nothing else, end the JVM while they write."""


def tables(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the command with one worker; return its exit code and the last line of standard error."""
    command = [
        sys.executable,
        "-m",
        "kproxy",
        "tables",
        str(SAMPLE),
        "--table",
        "exchanges",
        "--engine",
        "spark",
    ]
    out = [] if "-o" in arguments else ["-o", str(folder / "out")]
    path = os.pathsep.join((str(folder), str(ROOT)))
    done = subprocess.run(
        [*command, *out, *arguments, *SHORT_LIVED],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stderr.splitlines()[-1]


def test_a_machine_that_dies(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    code, last = tables(tmp_path, "--master", "local[1]")
    assert code == 1
    assert last.startswith(
        "kproxy: Spark's JVM ended in the middle of the job, which mostly means that memory ran out"
    ), last
    assert not list(tmp_path.glob("out/.staging*"))


def test_a_master_that_does_not_answer(tmp_path: Path) -> None:
    code, last = tables(tmp_path, "--master", "spark://127.0.0.1:1,127.0.0.1:2")
    assert code == 1
    assert last == (
        "kproxy: no Spark master answers at 127.0.0.1:1: Connection refused, 127.0.0.1:2: Connection refused"
    )


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    code, last = tables(tmp_path, "--master", "local[1]", "-o", "/proc/kproxy-tables")
    assert code == 1
    assert "/proc/kproxy-tables" in last


def test_words_of_ours_go_through() -> None:
    with pytest.raises(TypeError), reraised_as_run_errors():
        raise TypeError
    with pytest.raises(SparkRunError, match="Connection refused"), reraised_as_run_errors():
        raise ConnectionRefusedError(111, "Connection refused")
