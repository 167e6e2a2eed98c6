"""Spark and Java: their versions and locations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from captures.spark.errors import JavaMissing
from captures.spark.java import find_java
from kproxy.doctor.examination import Check, State
from kproxy.doctor.packages import install_command, requirements, version_of


def checks() -> Iterator[Check]:
    """Check Spark and the Java it needs."""
    yield pyspark()
    yield java()


def pyspark() -> Check:
    """Check PySpark, and the Spark in ``SPARK_HOME``, which PySpark would use instead of its own."""
    name = "PySpark"
    have = version_of("pyspark")
    if have is None:
        about = "Captures cannot be read in Spark"
        return Check(name, State.MISSING, "not installed", about, install_command("kproxy[spark]"))
    bounds = next((each.bounds for each in requirements() if each.name == "pyspark"), "")
    home = os.environ.get("SPARK_HOME", "")
    found = f"{have}, with the Spark in SPARK_HOME={home}" if home else have
    if not all(each.fits for each in requirements() if each.name == "pyspark"):
        about = f"kproxy needs {bounds}"
        return Check(name, State.LIMITED, found, about, install_command("kproxy[spark]"))
    if home and not (Path(home) / "bin" / "spark-submit").exists():
        return Check(name, State.LIMITED, found, "there is no Spark in SPARK_HOME", "unset SPARK_HOME")
    return Check(name, State.OK, found)


def java() -> Check:
    """Check for the Java that a session would run on."""
    try:
        found = find_java()
    except JavaMissing as missing:
        return Check(
            "Java", State.MISSING, "no suitable version", str(missing), install_command("kproxy[jdk]")
        )
    return Check("Java", State.OK, f"Java {found.version} in {found.home} ({found.where})")
