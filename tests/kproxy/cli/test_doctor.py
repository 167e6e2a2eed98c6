"""``kproxy doctor``: its text output, its JSON output, and its exit code."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from kproxy.cli.doctor import lines
from kproxy.doctor import AREAS, Check, Examination, State
from kproxy.output import unstyled

LIMITED = Check(
    "capturing", State.MISSING, "not permitted", "kproxy sniff needs CAP_NET_RAW", "sudo kproxy sniff"
)


def found(*checks: Check) -> Examination:
    return Examination("1.2.3", "3.13.0", "/x/python", "Linux 6.1 x86_64", {"core": list(checks)})


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.doctor.terminal._TERMINAL", "/no/terminal")


@pytest.mark.slow
def test_for_people() -> None:
    result = CliRunner().invoke(main, ["doctor"], catch_exceptions=False)
    assert result.exit_code == 0
    head, *rest = result.output.splitlines()
    assert head.startswith(f"kproxy {version('kproxy')}, Python 3.")
    assert [line for line in rest if line in AREAS] == list(AREAS)
    assert rest[-1].startswith(("kproxy works.", "All works."))


@pytest.mark.slow
def test_for_programs() -> None:
    result = CliRunner().invoke(main, ["doctor", "--json"], catch_exceptions=False)
    told = json.loads(result.output)
    assert told["works"] is True
    assert told["kproxy"] == version("kproxy")
    assert {check["area"] for check in told["checks"]} == set(AREAS)
    assert all(
        set(check) == {"area", "name", "state", "found", "about", "command"} for check in told["checks"]
    )


def test_the_exit_code_tells_what_is_broken_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.doctor.examine", lambda: found(LIMITED))
    assert CliRunner().invoke(main, ["doctor"]).exit_code == 0
    monkeypatch.setattr("kproxy.doctor.examine", lambda: found(LIMITED, Check("codecs", State.BROKEN, "no")))
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "Broken: codecs."


def test_what_is_missing_is_told_with_its_command() -> None:
    assert list(lines(found(LIMITED), None)) == [
        "kproxy 1.2.3, Python 3.13.0, Linux 6.1 x86_64",
        "",
        "core",
        "  capturing  missing  not permitted",
        "                      kproxy sniff needs CAP_NET_RAW.",
        "                      sudo kproxy sniff",
        "",
        "kproxy works. Not there or less than it could be: capturing (missing).",
    ]


def test_texts_are_wrapped_and_commands_are_not() -> None:
    check = Check("packages", State.LIMITED, "word " * 30, "another " * 20, f"pip install {'x' * 100}")
    shown = [unstyled(line) for line in lines(found(check), 60)]
    assert max(len(line) for line in shown if "pip install" not in line) <= 60
    assert sum("pip install" in line for line in shown) == 1
    assert " ".join(shown).split().count("word") == 30


def test_all_works() -> None:
    assert list(lines(found(Check("Python", State.OK, "3.13")), None))[-1] == "All works."
