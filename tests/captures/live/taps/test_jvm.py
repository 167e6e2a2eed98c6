"""The agent of a JVM, with a script in place of ``java``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from captures.live.device import DeviceError
from captures.live.taps import jvm
from captures.live.taps.jvm import AgentKeyLog


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Put a script in place of java; it writes its arguments to the returned file."""
    script, log = tmp_path / "java", tmp_path / "asked"
    script.write_text(
        f'#!/bin/sh\necho "$@" >>{log}\n[ "$2" != "/bad.jar" ] || {{ echo no such jar >&2; exit 1; }}\n'
    )
    script.chmod(0o700)
    monkeypatch.setattr("shutil.which", lambda _: str(script))
    monkeypatch.setattr(jvm, "is_jvm", lambda _: True)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return log


def test_the_agent_is_sent_elsewhere_at_the_end_and_its_key_log_removed(java: Path) -> None:
    agent = AgentKeyLog(os.getpid(), "/agent.jar")
    assert Path(agent.path).stat().st_mode & 0o777 == 0o600
    agent.close()
    assert not Path(agent.path).exists()
    attach = f"-jar /agent.jar {os.getpid()}"
    assert java.read_text().splitlines() == [f"{attach} {agent.path}", f"{attach} /dev/null"]


def test_an_agent_that_is_refused_says_why_and_leaves_nothing(java: Path) -> None:
    with pytest.raises(DeviceError, match="the agent cannot be attached: no such jar"):
        AgentKeyLog(os.getpid(), "/bad.jar")
    assert not list(java.parent.glob("*.keys"))


def test_other_processes_have_no_agent() -> None:
    with pytest.raises(DeviceError, match="is not a JVM"):
        AgentKeyLog(os.getpid(), "agent.jar")
