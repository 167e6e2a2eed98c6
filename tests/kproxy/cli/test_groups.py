"""``kproxy groups`` as its users run it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
GROUPS = ROOT / "tests" / "data" / "groups"
DATA = ROOT / "tests" / "data" / "captures"

BY_MEMBER = {"assigned", "tasks"}
"""Keys of objects whose own keys are member IDs."""

KEYS = {
    *(
        "group",
        "kind",
        "generation",
        "generation_before",
        "unknown_owners",
        "delay_ns",
        "unassigned",
        "tasks",
        "status",
        "time",
        "duration_ns",
        "running",
        "emptied",
        "trigger",
    ),
    *(
        "causes",
        "member",
        "instance_id",
        "client_id",
        "timeout_cause",
        "certainty",
        "alternatives",
        "sentence",
    ),
    *(
        "evidence",
        "members",
        "size",
        "joined",
        "gone",
        "leader",
        "protocol",
        "cooperative",
        "moved",
        "assigned",
    ),
    *(
        "waits",
        "slowest",
        "awaited",
        "stopped",
        "duplicates",
        "commit_failures",
        "consumed_on",
        "storm",
        "because_of",
    ),
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["groups", "--utc", *map(str, arguments)], catch_exceptions=False)


def told(*arguments: str | Path) -> list[dict]:
    return [json.loads(line) for line in run("--json", *arguments).stdout.splitlines()]


def coordinator_log(name: str) -> list[str]:
    truth = json.loads((GROUPS / "truth" / f"{name}.json").read_text())
    return re.findall(r"Stabilized group \S+ generation (\d+)", json.dumps(truth))


# from the coordinator's log: truth/ of the recording that the sample is a copy of
def test_every_generation_of_the_sample_has_a_story() -> None:
    logged = [int(generation) for generation in dict.fromkeys(coordinator_log("21_k430_java_eager_range"))]
    found = told(SAMPLE)
    assert [each["generation"] for each in found if not each["emptied"]] == logged
    assert [each["trigger"] for each in found][4] == "session_timeout"


def test_the_shape_is_the_documented_one() -> None:
    documented = (ROOT / "docs" / "json-groups.md").read_text()
    for each in told(SAMPLE):
        assert set(each) == KEYS
    table = documented.partition("\n\nA cause has ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    keys = [key for cell in cells for key in re.findall("`(.+?)`", cell)]
    assert sorted(keys) == sorted([*KEYS, "cluster_id"])  # only with several clusters


def nested(value: object) -> set[str]:
    """Return the keys of all nested objects."""
    if isinstance(value, list):
        return {key for item in value for key in nested(item)}
    if isinstance(value, dict):
        return {*value} | {key for item in value.values() for key in nested(item)}
    return set()


@pytest.mark.slow
def test_the_keys_inside_are_documented() -> None:
    documented = (ROOT / "docs" / "json-groups.md").read_text()
    every = [story for path in sorted(GROUPS.glob("21_*.zst")) for story in told(path)]
    found = {
        key
        for story in every
        for name, value in story.items()
        if name not in BY_MEMBER
        for key in nested(value)
    }
    assert {"from_offset", "silence_ns", "asked_ns", "error_code"} <= found
    assert [key for key in sorted(found) if f"`{key}`" not in documented] == []


def test_the_vocabulary_is_documented() -> None:
    from captures.analysis.groups.vocabulary import Certainty, Kind, TimeoutCause, Trigger

    documented = (ROOT / "docs" / "json-groups.md").read_text()
    for word in (*Trigger, *Certainty, *TimeoutCause, *Kind):
        assert f"`{word}`" in documented, word


def test_the_text_tells_group_members_and_stories() -> None:
    text = run(SAMPLE).stdout
    assert text.startswith("gr2-java_eager_range  classic group, range, Empty, generation 8, 0 members\n")
    assert "Members\n" in text
    assert "09:51:24.741  generation 4 → 5  took 42.7 ms  session_timeout m3" in text
    assert text.count("evidence") == 8
    assert "\x1b" not in text


@pytest.mark.slow
def test_a_story_names_exchanges_that_read_shows() -> None:
    (timeout,) = [each for each in told(SAMPLE) if each["trigger"] == "session_timeout"]
    shown = CliRunner().invoke(main, ["read", "--json", str(SAMPLE)]).stdout.splitlines()
    apis = {row["number"]: row["api"] for row in map(json.loads, shown)}
    assert {apis[number] for number in timeout["evidence"]} <= {
        "Heartbeat",
        "JoinGroup",
        "OffsetCommit",
        "SyncGroup",
    }


@pytest.mark.slow
def test_storms_are_one_block_unless_all_is_asked_for() -> None:
    loop = GROUPS / "21_k430_ck_crashloop.pcap.zst"
    assert "storm of" in run(loop).stdout
    every = run("--all", loop).stdout
    assert "storm of" not in every
    assert every.count("generation ") - 1 == len(told(loop))


def test_from_and_to_choose_rebalances_and_keep_what_was_before() -> None:
    text = run("--from", "20s", "--to", "28s", SAMPLE).stdout
    assert "generation 4 → 5" in text
    assert "7 rebalances before --from or after --to" in text
    (found,) = told("--from", "20s", "--to", "28s", SAMPLE)
    assert found["generation_before"] == 4


@pytest.mark.parametrize("wanted", ["gr2-java_eager_range", "gr2-*"])
def test_a_group_is_chosen_by_name_or_pattern(wanted: str) -> None:
    assert len(told("--group", wanted, SAMPLE)) == 8


def test_a_group_that_is_not_there() -> None:
    result = run("--group", "orders", SAMPLE)
    assert result.exit_code == 2
    assert "no group 'orders' in the capture; there is 'gr2-java_eager_range'" in result.stderr


def test_a_capture_without_groups() -> None:
    result = run(DATA / "31_k0901_cluster2.pcap")
    assert (result.exit_code, result.stdout) == (
        0,
        "No group was seen: no client spoke with a coordinator as a member.\n",
    )
    assert told(DATA / "31_k0901_cluster2.pcap") == []


@pytest.mark.slow
def test_a_page(tmp_path: Path) -> None:
    out = tmp_path / "groups.html"
    result = run("--html", out, SAMPLE)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "1 group with 8 rebalances written to" in result.stderr
    assert "<svg" in out.read_text()
    assert run("--html", out, SAMPLE).exit_code == 2
    assert run("--force", "--html", out, SAMPLE).exit_code == 0
    assert run("--html", "-", SAMPLE).stdout == out.read_text()


def test_a_page_never_overwrites_a_capture(tmp_path: Path) -> None:
    copy = tmp_path / "c.pcap"
    copy.write_bytes(SAMPLE.read_bytes())
    assert run("--force", "--html", copy, copy).exit_code == 2
    assert copy.read_bytes() == SAMPLE.read_bytes()


def test_a_diagram() -> None:
    lines = run("--mermaid", SAMPLE).stdout.splitlines()
    assert lines[0] == "sequenceDiagram"
    assert sum(line.startswith("    rect") for line in lines) == 8


def test_outputs_exclude_each_other() -> None:
    assert run("--json", "--mermaid", SAMPLE).exit_code == 2


def test_hosts_have_names(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 kafka-one\n")
    assert "coordinator kafka-one:10101" in run("--hosts", hosts, SAMPLE).stdout


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert run(tmp_path / "none.pcap").exit_code == 1
    (tmp_path / "text").write_text("no capture")
    assert run(tmp_path / "text").exit_code == 1
