"""``kproxy incidents`` as its users run it."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner, Result

from kproxy.cli import main

GROUPS = Path(__file__).parents[2] / "data" / "groups"
OUTAGE = GROUPS / "46_k430_broker_killed.pcap.zst"
AWAY = 1_795_450_199
"""Seconds since the epoch at which the broker was away."""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


@pytest.mark.slow
def test_an_incident_is_told_with_what_followed() -> None:
    said = run("incidents", "--utc", OUTAGE).stdout
    assert "16:09:51.165 to 16:10:18.160 (27 s)  broker_outage-1  inferred" in said
    assert "findings  session_timeouts, long_stops" in said


@pytest.mark.slow
def test_json_is_one_object_an_incident() -> None:
    (found,) = map(json.loads, run("incidents", "--json", OUTAGE).stdout.splitlines())
    assert found["kind"] == "broker_outage"
    assert list(found) == [
        "id", "kind", "begin", "end", "who", "certainty", "alternatives", "sentence", "advice", "evidence",
        "connections", "consequences",
    ]  # fmt: skip
    assert {each["kind"] for each in found["consequences"]} >= {"rebalance", "stop", "finding"}


@pytest.mark.slow
def test_markdown_has_a_heading_for_each() -> None:
    said = run("incidents", "--markdown", OUTAGE).stdout
    assert "\n### from 2026-" in said or "\n### 2026-" in said
    assert "broker_outage-1" in said


@pytest.mark.slow
def test_only_incidents_of_a_time_are_shown() -> None:
    assert "No incident was seen." in run("incidents", "--utc", "--to", "16:09:45", OUTAGE).stdout


@pytest.mark.slow
def test_a_pipe_is_followed_and_an_outage_reported_again_when_it_is_over() -> None:
    """The file arrives in two halves: the first ends while the broker is away (16:09:51 to 16:10:18)."""
    command = [sys.executable, "-m", "kproxy", "incidents", "--follow", "--json", "-"]
    data = zstandard.ZstdDecompressor().stream_reader(OUTAGE.read_bytes()).read()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        half = _packets_until(data, AWAY)
        running.stdin.write(data[:half])
        running.stdin.flush()
        first = json.loads(running.stdout.readline())
        running.stdin.write(data[half:])
        running.stdin.close()
        later = [json.loads(line) for line in running.stdout]
    assert (first["kind"], first["end"]) == ("broker_outage", None)
    assert [(each["kind"], each["begin"]) for each in later] == [("broker_outage", first["begin"])]
    assert later[0]["end"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "21_k430_java_sigstop",
        "46_k430_rolling_restart_static",
        "47_k430_connect_workers_lost",
        "48_k430_network_cut_from_broker",
    ],
)
def test_what_was_followed_is_in_the_end_what_one_reading_reports(name: str) -> None:
    """This includes decisions that need packets, which are read at the end of the capture: whether a process was
    suspended.

    In a growing capture, exchanges are numbered as they become complete, so that evidence has other numbers.
    """

    def told(incident: dict[str, Any]) -> dict[str, Any]:
        effects = [each | {"evidence": None} for each in incident["consequences"]]
        return incident | {"evidence": None, "consequences": effects}

    path = GROUPS / f"{name}.pcap.zst"
    command = [sys.executable, "-m", "kproxy", "incidents", "--follow", "--json", "-"]
    data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    followed = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout
    last = {(each["kind"], each["begin"]): told(each) for each in map(json.loads, followed.splitlines())}
    found = [told(json.loads(line)) for line in run("incidents", "--json", path).stdout.splitlines()]
    assert found
    assert [last.get((each["kind"], each["begin"])) for each in found] == found


def _packets_until(data: bytes, time: int) -> int:
    """Return where the first packet after a time begins in a pcap file (little-endian, microseconds or nanoseconds)."""
    at = 24
    while struct.unpack_from("<I", data, at)[0] < time:
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    return at


def test_two_shapes_exclude_each_other() -> None:
    assert run("incidents", "--json", "--markdown", OUTAGE).exit_code == 2


@pytest.mark.slow
def test_diagnose_begins_with_incidents_and_does_not_repeat_their_effects() -> None:
    said = run("diagnose", "--utc", OUTAGE).stdout
    assert said.index("broker_outage-1") < said.index("[coordinator_unavailable]")
    assert "[session_timeouts" not in said
    every = " ".join(run("diagnose", "--all", OUTAGE).stdout.split())
    assert "[session_timeouts, inferred, because of broker_outage-1]" in every


@pytest.mark.sample(1)
@pytest.mark.parametrize("only", [["--only", "long_stops"], ["-Y", "client_id == m1"]])
def test_who_asks_for_some_findings_gets_no_incidents(only: list[str]) -> None:
    told = json.loads(run("diagnose", "--json", *only, OUTAGE).stdout)
    assert told["incidents"] == []


@pytest.mark.slow
def test_rebalances_name_their_incident() -> None:
    told = [json.loads(line) for line in run("groups", "--json", OUTAGE).stdout.splitlines()]
    assert {each["because_of"] for each in told if each["generation"] == 4} == {"broker_outage-1"}
    assert "happened" in run("groups", "--utc", OUTAGE).stdout


def test_the_page_of_a_group_has_its_incidents(tmp_path: Path) -> None:
    page = tmp_path / "groups.html"
    assert run("groups", "--utc", "--html", page, OUTAGE).exit_code == 0
    assert "broker_outage-1  16:09:51.165 to 16:10:18.160  Broker 127.0.0.1:45985" in page.read_text()
