"""The GitHub Action: its inputs, and its script, executed as by a runner."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.tree import ROOT

DATA = ROOT / "tests" / "data" / "groups"
HIGH, MEDIUM = "21_k430_java_inconsistent.pcap.zst", "21_k430_java_sigstop.pcap.zst"


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "action.yml").read_text())


def test_every_input_is_used_in_the_environment_and_none_in_a_script(action: dict[str, Any]) -> None:
    install, diagnose = action["runs"]["steps"]
    used = re.findall(r"\$\{\{ inputs\.(\S+) \}\}", " ".join(diagnose["env"].values()))
    assert sorted(used) == sorted(action["inputs"])
    assert "${{" not in install["run"] + diagnose["run"]


def diagnose(action: dict[str, Any], tmp_path: Path, **given: str) -> tuple[int, str, str]:
    """Run the script as with ``shell: bash``; return exit code, log and summary."""
    *_, step = action["runs"]["steps"]
    inputs = {name: each.get("default", "") for name, each in action["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    environment = {
        name: re.sub(r"\$\{\{ inputs\.(\S+) \}\}", lambda match: inputs[match[1]], value)
        for name, value in step["env"].items()
    }
    (tmp_path / "kproxy").symlink_to(sys.prefix)
    summary = tmp_path / "summary.md"
    runner = {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **environment, **runner},
        capture_output=True,
        text=True,
        cwd=DATA,
    )
    return done.returncode, done.stdout, summary.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("captures", "given", "code"),
    [
        (MEDIUM, {}, 0),
        (MEDIUM, {"fail_on": "medium"}, 4),
        (f"{MEDIUM}\n\n{HIGH}\n", {}, 4),
        (HIGH, {"arguments": "--only heartbeat_gaps --least high"}, 0),
        ("$(touch pwned)", {}, 1),
    ],
)
def test_it_fails_on_findings(
    action: dict[str, Any], tmp_path: Path, captures: str, given: dict[str, str], code: int
) -> None:
    found, log, summary = diagnose(action, tmp_path, captures=captures, **given)
    assert found == code
    assert summary == log
    assert code == 1 or log.startswith("# Diagnosis of ")
    assert not (DATA / "pwned").exists()
