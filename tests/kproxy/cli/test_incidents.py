"""``kproxy incidents`` as its users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main

GROUPS = Path(__file__).parents[2] / "data" / "groups"
OUTAGE = GROUPS / "46_k430_broker_killed.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def test_an_incident_is_told_with_what_followed() -> None:
    said = run("incidents", "--utc", OUTAGE).stdout
    assert "16:09:51.165 to 16:10:18.160 (27 s)  broker_outage-1  inferred" in said
    assert "findings  session_timeouts, long_stops" in said


def test_json_is_one_object_an_incident() -> None:
    (found,) = map(json.loads, run("incidents", "--json", OUTAGE).stdout.splitlines())
    assert found["kind"] == "broker_outage"
    assert list(found) == [
        "id", "kind", "begin", "end", "who", "certainty", "alternatives", "sentence", "advice", "evidence",
        "connections", "consequences",
    ]  # fmt: skip
    assert {each["kind"] for each in found["consequences"]} >= {"rebalance", "stop", "finding"}


def test_markdown_has_a_heading_for_each() -> None:
    said = run("incidents", "--markdown", OUTAGE).stdout
    assert "## Broker outage: 127.0.0.1:45985" in said


def test_only_incidents_of_a_time_are_shown() -> None:
    assert "No incident was seen." in run("incidents", "--utc", "--to", "16:09:45", OUTAGE).stdout


def test_two_shapes_exclude_each_other() -> None:
    assert run("incidents", "--json", "--markdown", OUTAGE).exit_code == 2


def test_diagnose_begins_with_incidents_and_does_not_repeat_their_effects() -> None:
    said = run("diagnose", "--utc", OUTAGE).stdout
    assert said.index("broker_outage-1") < said.index("[coordinator_unavailable]")
    assert "[session_timeouts" not in said
    every = " ".join(run("diagnose", "--all", OUTAGE).stdout.split())
    assert "[session_timeouts, inferred, because of broker_outage-1]" in every


@pytest.mark.parametrize("only", [["--only", "long_stops"], ["-Y", "client_id == m1"]])
def test_who_asks_for_some_findings_gets_no_incidents(only: list[str]) -> None:
    told = json.loads(run("diagnose", "--json", *only, OUTAGE).stdout)
    assert told["incidents"] == []


def test_rebalances_name_their_incident() -> None:
    told = [json.loads(line) for line in run("groups", "--json", OUTAGE).stdout.splitlines()]
    assert {each["because_of"] for each in told if each["generation"] == 4} == {"broker_outage-1"}
    assert "happened" in run("groups", "--utc", OUTAGE).stdout
