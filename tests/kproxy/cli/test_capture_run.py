"""Notices about the reading, printed by commands that read a whole capture."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
# half of its responses have trailing bytes: librdkafka's mock broker rejecting ApiVersions v4
BROKEN = ROOT / "tests" / "data" / "captures" / "01_mock_java_throttle_bug.pcap"
COMMANDS = [
    ("groups",),
    ("groups", "--json"),
    ("groups", "--mermaid"),
    ("lag",),
    ("lag", "--json"),
    ("api-versions",),
    ("api-versions", "--json"),
    ("stats", "--json"),
    ("diagnose", "--json"),
]
CLOSING = "kproxy: 6 exchanges of 1 client in 44.3 ms: 6 ok. 0 bytes lost. 50.0 % decoded.\n"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_exit_code_for_what_was_not_decoded_is_explained(command: tuple[str, ...]) -> None:
    result = run(*command, BROKEN)
    assert (result.exit_code, result.stderr) == (3, CLOSING)


def test_what_stands_in_the_text_is_not_said_twice() -> None:
    result = run("stats", BROKEN)
    assert (result.exit_code, result.stderr) == (3, "")
    assert CLOSING.removeprefix("kproxy: ") in result.stdout


@pytest.mark.sample(7)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_of_a_capture_that_was_read_as_a_whole_there_is_nothing_to_say(command: tuple[str, ...]) -> None:
    result = run(*command, SAMPLE)
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", ["groups", "lag", "api-versions", "stats", "diagnose"])
def test_colours_go_into_a_pipe_if_they_are_always_wanted(command: str) -> None:
    assert "\x1b[1m" in run(command, "--color", "always", SAMPLE).stdout
    assert "\x1b" not in run(command, SAMPLE).stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_capture_without_packets(command: tuple[str, ...], tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(SAMPLE.read_bytes()[:24])
    result = run(*command, empty)
    assert result.exit_code == 3
    assert "No Kafka exchanges." in result.stderr
