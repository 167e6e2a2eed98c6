"""``kproxy diff`` as its users run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main

DATA = Path(__file__).parents[2] / "data"
GOOD = DATA / "clean" / "27_k391_java_zstd.pcap.zst"
BAD = DATA / "clean" / "20_k430_java_zstd.pcap.zst"
STOPPED = DATA / "findings" / "26_k430_broker_sigstop_clients.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, arguments)], catch_exceptions=False)


def test_two_captures() -> None:
    result = run("--utc", GOOD, BAD)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert re.match(r"\d+ differences\. The largest: brokers offer other versions", lines[0])
    assert lines[2].startswith(f"good  {GOOD}  32 exchanges of 1 client in 4.4 s, from 2026-")
    assert lines[3].startswith(f"bad   {BAD}  31 exchanges of 1 client")
    assert "note  good has 32 exchanges: only large differences can be detected" in lines
    first = next(index for index, line in enumerate(lines) if line.startswith("  1.  [versions] "))
    assert lines[first + 1] == "      good  72 APIs, as Kafka 3.9 with KRaft  (#1)"
    assert lines[first + 2] == "      bad   77 APIs, as Kafka 4.3  (#1)"


def test_json() -> None:
    result = run("--json", GOOD, BAD)
    found = json.loads(result.stdout)
    assert found["captures"] == [str(GOOD), str(BAD)]
    assert (found["good"]["exchanges"], found["bad"]["exchanges"]) == (32, 31)
    assert set(found) == {"captures", "sentence", "good", "bad", "notes", "differences"}
    keys = {"aspect", "subject", "what", "sentence", "certain", "ratio", "sure_ratio", "score", "good", "bad"}
    assert {frozenset(each) for each in found["differences"]} == {frozenset(keys)}
    scores = [(not each["certain"], -each["score"]) for each in found["differences"]]
    assert scores == sorted(scores)


@pytest.mark.slow
def test_two_times_of_one_capture() -> None:
    result = run("--json", "--against", "..9s", "--window", "9s..", STOPPED)
    found = json.loads(result.stdout)
    assert (found["good"]["label"], found["bad"]["label"]) == ("..9s", "9s..")
    assert found["good"]["exchanges"] + found["bad"]["exchanges"] == 277
    text = run("--against", "..9s", "--window", "9s..", STOPPED).stdout
    assert "May differ, with too little data to be sure:" in text


@pytest.mark.slow
def test_few_are_shown_and_all_on_request() -> None:
    steady = DATA / "clean" / "26_k430_steady_clients.pcap.zst"
    few, every = (run(*option, steady, STOPPED).stdout for option in ((), ("--all",)))
    assert re.search(r"… \d+ more, --all shows them", few)
    assert "--all shows them" not in every
    assert len(every) > len(few)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([GOOD], "give two captures, GOOD and BAD"),
        ([GOOD, BAD, BAD], "give two captures"),
        (["--window", "1s..2s", GOOD], "use --window and --against together"),
        (["--window", "1s", "--against", "2s..", GOOD], "'1s' is not a time range"),
        (["--window", "..", "--against", "2s..", GOOD], "'..' is not a time range"),
        (["--window", "x..2s", "--against", "2s..", GOOD], "'x' is not a time"),
    ],
)
def test_wrong_usage(arguments: list[str | Path], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in re.sub(r"\s+", " ", result.stderr)


def test_a_window_in_which_nothing_is() -> None:
    result = run("--against", "..5s", "--window", "1h..2h", STOPPED)
    assert result.exit_code == 3  # requests of the recording have trailing bytes
    assert result.stdout.startswith("There is nothing in 1h..2h")


def test_a_capture_that_is_not_there() -> None:
    assert run(GOOD, "nowhere.pcap").exit_code == 1
