"""The performance book: its options, parts that cannot run, and stored results. No timing."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks import book, machine
from benchmarks.book import PARTS, Part, measure, merged, rounded, told, without_places
from benchmarks.outcome import Aim, for_programs
from docs.tools import performance
from tests.lanes.tools import CannotRun

FOUND = for_programs({"s": 1.23456789, "rows": [2, 0.000123456789]}, [Aim("s", 1.23456789, 2, at_most=True)])

RUN = book._run


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Replace the measurements with fixed results; return the parts' commands."""
    commands: list[list[str]] = []

    def run(command: list[str], say: Any) -> tuple[str, str, int]:
        commands.append(command)
        say("  going on")
        return FOUND, "", 0

    monkeypatch.setattr(book, "_run", run)
    monkeypatch.setattr(book, "version_of", lambda peer: "1.2")
    monkeypatch.setattr(book, "commit", lambda: "0123456789ab")
    return commands


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep the book in another folder; its page is tested with the page."""
    monkeypatch.setattr(performance, "RESULTS", tmp_path / "performance.json")
    monkeypatch.setattr(performance, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(performance, "page", lambda parts: f"{sorted(parts)}\n")
    return tmp_path


# ---------------------------------------------------------------- options
@pytest.mark.parametrize("name", PARTS)
def test_every_part_is_a_benchmark_with_these_options(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each part accepts the book's arguments: argparse gets as far as the ``--help`` after them."""
    benchmark = import_module(f"benchmarks.{name}")
    for arguments in (PARTS[name].whole, PARTS[name].quick):
        monkeypatch.setattr(sys, "argv", [name, "--json", *arguments, "--help"])
        with pytest.raises(SystemExit) as ended:
            benchmark.main()
        printed = capsys.readouterr()
        assert ended.value.code == 0, printed.err
        assert all(option in printed.out for option in arguments if option.startswith("--"))


def test_the_page_has_a_section_for_every_part() -> None:
    assert list(performance.SECTIONS) == list(PARTS)


def test_all_parts_are_measured_and_printed(ran: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--quick", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert list(found) == list(PARTS)
    assert found["decode"]["figures"] == {"s": 1.2346, "rows": [2, 0.00012346]}
    assert found["decode"]["command"] == "python -m benchmarks.decode --rounds 3"
    assert [each[2] for each in ran] == [f"benchmarks.{name}" for name in PARTS]
    assert "1 of 9: python -m benchmarks.analyses --mb 5" in printed.err
    assert "  going on" in printed.err


def test_chosen_parts_have_the_sizes_of_the_book(ran: list[list[str]], kept: Path) -> None:
    assert command.main(["--json", "spark", "captures", "spark"]) == 0
    assert ran == [
        [sys.executable, "-m", f"benchmarks.{name}", *PARTS[name].whole, "--json"]
        for name in ("spark", "captures")
    ]
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["proxi"], "there is no part proxi; there are analyses, captures, decode, proxy"),
        (["--quick", "--write"], "--quick measures too little to be kept"),
    ],
)
def test_what_is_wrong_is_told(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(arguments)
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


# ---------------------------------------------------------------- keeping
def test_a_part_replaces_itself_only(ran: list[list[str]], kept: Path) -> None:
    before = {"spark": {"figures": {"a": 1}, "began": "2026-01-01"}, "decode": {"figures": {"b": 2}}}
    performance.RESULTS.write_text(json.dumps(before))
    assert command.main(["--write", "decode", "captures"]) == 0
    after = json.loads(performance.RESULTS.read_text())
    assert list(after) == ["captures", "decode", "spark"]  # in the page's order
    assert after["spark"] == before["spark"]
    assert after["decode"]["figures"] == {"s": 1.2346, "rows": [2, 0.00012346]}
    assert performance.PAGE.read_text() == "['captures', 'decode', 'spark']\n"


def test_what_was_measured_is_kept_when_the_rest_is_interrupted(
    kept: Path, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = book._run

    def interrupted(command: list[str], say: Any) -> tuple[str, str, int]:
        if "benchmarks.decode" in command:
            raise KeyboardInterrupt
        return run(command, say)

    monkeypatch.setattr(book, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        command.main(["--write", "captures", "decode"])
    assert list(performance.load()) == ["captures"]


def test_a_part_that_cannot_run_leaves_the_figures_that_there_were() -> None:
    had, has_not = {"figures": {"a": 1}}, {"cannot": "no gcc"}
    assert merged({"proxy": had}, {"proxy": has_not}) == {"proxy": had}
    assert merged({}, {"proxy": has_not}) == {"proxy": has_not}
    assert merged({"proxy": has_not}, {"proxy": had}) == {"proxy": had}


# ---------------------------------------------------------------- running
def entry_of(monkeypatch: pytest.MonkeyPatch, code: str, *peers: str) -> tuple[dict[str, Any], list[str]]:
    """Run Python code in place of a benchmark."""
    said: list[str] = []
    monkeypatch.setitem(PARTS, "decode", Part((), (), peers))
    monkeypatch.setattr(book, "_run", lambda _, say: RUN([sys.executable, "-c", code], say))
    [(name, entry)] = measure(["decode"], quick=True, say=said.append)
    assert name == "decode"
    return entry, said


def test_progress_and_figures_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    told_by_it = f"import sys; print('round 1', file=sys.stderr); print('''{FOUND}'''); sys.exit(1)"
    entry, said = entry_of(monkeypatch, told_by_it)  # a missed target may be an exit code
    assert entry["figures"]["s"] == 1.2346
    assert entry["aims"] == [{"what": "s", "value": 1.2346, "target": 2, "at_most": True}]
    assert "cannot" not in entry
    assert said[1] == "  round 1"
    assert entry["machine"]["Python"].endswith(".".join(map(str, sys.version_info[:3])))


def test_why_a_part_cannot_run_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "import sys; sys.exit('error: /opt/some/where/tool ended')"
    entry, said = entry_of(monkeypatch, broken)
    assert entry["cannot"] == "error: tool ended (exit code 1)"
    assert "figures" not in entry
    assert said[-1].startswith("  error: tool ended (exit code 1), ")
    empty = for_programs({}, missing={"server": "gcc is not installed"})
    entry, _ = entry_of(monkeypatch, f"print('''{empty}''')")
    assert entry["cannot"] == "gcc is not installed"


def test_a_part_that_cannot_run_is_told_by_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "_run", lambda *_: ("", "no", 1))
    assert command.main(["--quick", "--json", "decode"]) == 1


def test_what_is_missing_is_told_and_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version_of(peer: str) -> str:
        if peer == "socat":
            raise CannotRun("socat is not installed (Debian: socat)")
        return "1.2"

    monkeypatch.setattr(book, "version_of", version_of)
    found = for_programs({"a": 1}, missing={"mitmproxy": "pip failed"})
    entry, _ = entry_of(monkeypatch, f"print('''{found}''')", "socat", "mitmproxy", "HAProxy")
    assert entry["versions"] == {"HAProxy": "1.2"}
    assert entry["missing"] == {"socat": "socat is not installed (Debian: socat)", "mitmproxy": "pip failed"}


def test_what_broke_off_told_nothing() -> None:
    assert told('{"figures": {') == told("[1]") == told("") == {}


def test_reasons_have_no_places() -> None:
    said = "mvn failed: https://repo.example/x of /home/me/.m2/x.jar, and/or 1/2\nmore\n"
    assert without_places(said) == "mvn failed: ... of x.jar, and/or 1/2"


def test_figures_have_the_digits_that_mean_something() -> None:
    assert rounded({"a": [123456.789, True, 1234567], "b": "x"}) == {"a": [123460.0, True, 1234567], "b": "x"}


# ---------------------------------------------------------------- versions
def test_versions_come_from_packages_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "socat"
    program.write_text("#!/bin/sh\necho 'socat by somebody'; echo 'socat version 1.7.4.4 on 06 Nov 2022'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert machine.version_of("socat") == "1.7.4.4"
    assert machine.version_of("construct").startswith("2.10.")
    assert machine.version_of("mitmproxy").count(".") == 2
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CannotRun, match="socat is not installed"):
        machine.version_of("socat")


def test_an_aim_is_reached_from_its_side() -> None:
    assert Aim("x", 1, 1).reached
    assert not Aim("x", 0.9, 1).reached
    assert Aim("x", 0.9, 1, at_most=True).reached
    assert str(Aim("ms", 20, 16, at_most=True)).endswith("20.00  ms, at most 16.00: MISSED")
