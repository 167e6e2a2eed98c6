"""The audit finds vulnerable packages, and reports when it cannot determine them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.version import Version

from tests.lanes import audit
from tests.lanes.audit import UNKNOWN, VULNERABLE, UnknownError, advisories, asked, installed, vulnerable
from tests.packaging.tree import ROOT

_ABOUT = "click runs what it is given"


def advisory(
    *events: dict[str, str], name: str = "Click", kind: str = "ECOSYSTEM", **more: Any
) -> dict[str, Any]:
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "ranges": [{"type": kind, "events": list(events)}],
    }
    return {"id": "PYSEC-0000-1", "summary": _ABOUT, "affected": [affected | more]}


def planted() -> dict[str, Any]:
    """Return an advisory about the installed version of click, fixed in the next version."""
    mine = Version(installed()["click"])
    return advisory({"introduced": "0"}, {"fixed": f"{mine.major}.{mine.minor}.{mine.micro + 1}"})


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.lanes.audit", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["file", "list", "folder", "zip"])
def test_a_planted_vulnerable_version_is_found(tmp_path: Path, form: str) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps([planted()] if form == "list" else planted()))
    if form == "zip":
        with ZipFile(tmp_path / "all.zip", "w") as archive:
            archive.write(path, "PYSEC-0000-1.json")
        path = tmp_path / "all.zip"
    done = run("--advisories", str(tmp_path if form == "folder" else path))
    assert done.returncode == VULNERABLE, done
    assert f"click {installed()['click']}: PYSEC-0000-1, fixed in " in done.stdout
    assert _ABOUT in done.stdout


@pytest.mark.slow
def test_what_is_fixed_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(advisory({"introduced": "0"}, {"fixed": installed()["click"]})))
    done = run("--advisories", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "no known vulnerabilities" in done.stdout


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": 3}'])
def test_what_is_no_advisory_leaves_nothing_known(tmp_path: Path, text: str) -> None:
    path = tmp_path / "one.json"
    path.write_text(text)
    done = run("--advisories", str(path))
    assert done.returncode == UNKNOWN
    assert "audit: nothing is known: " in done.stderr


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="cannot be read"):
        list(advisories([tmp_path / "none.json"]))


@pytest.mark.parametrize(
    ("version", "events", "affected"),
    [
        ("1.0", [{"introduced": "0"}], True),
        ("1.0", [{"introduced": "1.0"}, {"fixed": "1.1"}], True),
        ("1.1", [{"introduced": "1.0"}, {"fixed": "1.1"}], False),
        ("1.1rc1", [{"introduced": "1.0"}, {"fixed": "1.1"}], True),
        ("0.9", [{"introduced": "1.0"}, {"fixed": "1.1"}], False),
        ("1.1", [{"introduced": "1.0"}, {"last_affected": "1.1"}], True),
        ("1.1.post1", [{"introduced": "1.0"}, {"last_affected": "1.1"}], False),
        ("2.1", [{"introduced": "0"}, {"fixed": "1.5"}, {"introduced": "2.0"}, {"fixed": "2.2"}], True),
        ("1.7", [{"introduced": "2.0"}, {"fixed": "2.2"}, {"introduced": "0"}, {"fixed": "1.5"}], False),
        ("10.0", [{"introduced": "9.0"}], True),
    ],
)
def test_ranges(version: str, events: list[dict[str, str]], affected: bool) -> None:
    assert bool(vulnerable({"click": version}, [advisory(*events)])) is affected


def test_versions_that_are_listed() -> None:
    listed = advisory(versions=["1.0", "2.0.0", "not a version"])
    assert [each.version for each in vulnerable({"click": "2.0"}, [listed])] == ["2.0"]
    assert vulnerable({"click": "3.0"}, [listed]) == []


@pytest.mark.parametrize(
    "other",
    [
        advisory({"introduced": "0"}, name="clack"),
        advisory({"introduced": "0"}, kind="GIT"),
        advisory({"introduced": "0"}) | {"withdrawn": "2020-01-01T00:00:00Z"},
        advisory({"introduced": "0"}, package={"ecosystem": "npm", "name": "click"}),
    ],
)
def test_what_is_not_about_it(other: dict[str, Any]) -> None:
    assert vulnerable({"click": "1.0"}, [other]) == []


def test_a_version_that_cannot_be_compared_leaves_nothing_known() -> None:
    with pytest.raises(UnknownError, match="PYSEC-0000-1"):
        vulnerable({"click": "1.0"}, [advisory({"introduced": "one"})])


# ---------------------------------------------------------------- pip-audit
def pip_audit(folder: Path, probe: str, whole: str) -> str:
    """Write a program that prints one text when it audits the probe, and another when it audits everything."""
    path = folder / "pip-audit"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nprint({probe!r} if '-r' in sys.argv else {whole!r})\nsys.exit(1)\n"
    )
    path.chmod(0o755)
    return str(path)


def answer(*dependencies: dict[str, Any]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


_VULNERABLE = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [{"id": "PYSEC-2014-8", "fix_versions": ["2.7.2"], "description": "a folder for all"}],
}
_FINE = {"name": "click", "version": "8.4.1", "vulns": []}
_SKIPPED = {"name": "click", "skip_reason": "not found on PyPI"}


def test_what_pip_audit_finds(tmp_path: Path) -> None:
    program = pip_audit(tmp_path, answer(_VULNERABLE), answer(_VULNERABLE, _FINE))
    assert [each.advisory for each in asked([program])] == ["PYSEC-2014-8"]
    assert asked([pip_audit(tmp_path, answer(_VULNERABLE), answer(_FINE))]) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "probe",
    [
        "",
        answer({"name": "jinja2", "version": "2.4.1", "vulns": []}),
        answer({"name": "jinja2", "skip_reason": "not found on PyPI"}),
    ],
)
def test_a_source_that_knows_nothing_is_not_believed(tmp_path: Path, probe: str) -> None:
    with pytest.raises(UnknownError):
        asked([pip_audit(tmp_path, probe, answer(_FINE))])
    done = run("--pip-audit", pip_audit(tmp_path, "", answer(_FINE)))
    assert done.returncode == UNKNOWN
    assert "no advisory source could be reached" in done.stderr


def test_a_package_that_is_left_out_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="knows nothing of click"):
        asked([pip_audit(tmp_path, answer(_VULNERABLE), answer(_SKIPPED))])


def test_pip_audit_is_not_there() -> None:
    with pytest.raises(UnknownError, match="not installed"):
        asked(["/nowhere/pip-audit"])


def test_the_gate_hands_its_arguments_down() -> None:
    """``.ci/audit --advisories PATH`` runs this module with its arguments."""
    last = (ROOT / ".ci" / "audit").read_text().strip().splitlines()[-1]
    assert f"-m {audit.__name__} " in last
    assert last.endswith('"$@"')
