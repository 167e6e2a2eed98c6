"""``kproxy lag`` as its users run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from captures.analysis.lag import LagOverTime, LagRow
from kproxy.cli import main
from kproxy.cli.selection import chosen
from kproxy.text.lag import lag_table, sparkline

ROOT = Path(__file__).parents[3]
SIGSTOP = ROOT / "tests" / "data" / "groups" / "21_k430_java_sigstop.pcap.zst"
SHARE = ROOT / "tests" / "data" / "groups" / "21_k430_share_group.pcap.zst"
SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["lag", *map(str, arguments)], catch_exceptions=False)


def test_a_table_for_each_group() -> None:
    shown = run("--utc", SIGSTOP)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "gr2-java_sigstop  lag 1 in 6 partitions"
    header = "partition committed position end lag highest at UTC fetched by because of"
    assert " ".join(lines[1].split()) == header
    # partition 5 was last consumed by m2: 16 of 17 records are committed, as kafka-consumer-groups would report
    assert lines[2].split()[:6] == ["r2-java_sigstop-5", "16", "16", "17", "1", "4"]
    assert lines[8:10] == ["", next(line for line in lines if line.startswith("process_pause-1"))]
    assert len(lines) == 10


def test_json_has_every_partition_and_the_sums() -> None:
    shape = json.loads(run("--json", SIGSTOP).stdout)
    assert shape["captures"] == [str(SIGSTOP)]
    assert shape["groups"] == [{"group": "gr2-java_sigstop", "lag": 1, "unknown_partitions": 0}]
    assert [each["partition"] for each in shape["partitions"]] == [0, 1, 2, 3, 4, 5]
    last = shape["partitions"][5]
    assert (last["committed"], last["end"], last["lag"], last["client"]) == (16, 17, 1, "m2")
    assert max(last["over_time"]["highest"]) == last["highest_lag"] == 4


def test_the_documented_keys_are_those_that_there_are() -> None:
    documented = (ROOT / "docs" / "lag.md").read_text().split("Each of `partitions`:")[1]
    for key in json.loads(run("--json", SIGSTOP).stdout)["partitions"][0]:
        assert f"`{key}`" in documented


def test_only_the_groups_that_were_asked_for() -> None:
    assert "gr2-java_sigstop" in run("-g", "gr2-*", SIGSTOP).stdout
    refused = run("-g", "billing", SIGSTOP)
    assert refused.exit_code == 2
    assert "no group 'billing' in the capture; there is 'gr2-java_sigstop'" in refused.stderr


def test_the_incident_that_the_lag_grew_in_is_named_and_told_below() -> None:
    gone = SIGSTOP.with_name("41_k430_host_gone.pcap.zst")
    lines = run("--utc", gone).stdout.splitlines()
    assert [line.split()[0] for line in lines if line.endswith("network_outage-1")] == [
        "t-host_gone-2",
        "t-host_gone-3",
    ]
    assert lines[-1].startswith(
        "network_outage-1  09:45:41.131  m2 of group g-host_gone may have been unreachable"
    )
    told = json.loads(run("--json", gone).stdout)["partitions"]
    assert [each["because_of"] for each in told] == [None, None, *["network_outage-1"] * 2, None, None]


def test_nothing_to_tell_is_said() -> None:
    shown = run(SHARE)
    assert shown.stdout.startswith("No lag to show")
    assert json.loads(run("--json", SHARE).stdout)["partitions"] == []


def test_no_capture_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no capture")
    assert run(tmp_path / "x").exit_code == 1


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ((), {"a-1", "a-2", "b-[1]"}),
        (("a-*",), {"a-1", "a-2"}),
        (("b-[1]", "a-2"), {"b-[1]", "a-2"}),
    ],
)
def test_groups_are_chosen_by_name_or_pattern(wanted: tuple[str, ...], found: set[str]) -> None:
    assert chosen(["a-1", "a-2", "b-[1]"], wanted) == found


# ---------------------------------------------------------------- tables
def row(**fields: Any) -> LagRow:
    made: dict[str, Any] = {
        "group": "billing",
        "topic": "orders",
        "partition": 2,
        "committed": 100,
        "committed_at": NOW,
        "position": 110,
        "client": "app",
        "end": 120,
        "end_at": NOW,
        "lag": 20,
        "behind": 10,
        "highest": 40,
        "highest_at": NOW,
        "over_time": LagOverTime(NOW, SECOND, [0, 40, 20]),
    }
    return LagRow(**made | fields)


def lines(*rows: LagRow, width: int | None = None, picture: bool = True) -> list[str]:
    table = lag_table(list(rows), NOW, None, picture=picture)
    return list(table.lines(width))


def test_the_greatest_lag_comes_first_and_what_is_unknown_last() -> None:
    unknown = row(partition=0, lag=None, end=None, end_at=None)
    shown = lines(unknown, row(partition=1, lag=3), row(partition=2, lag=9))
    assert shown[0] == "billing  lag 12 in 2 partitions, not known of 1"
    assert [line.split()[0] for line in shown[2:5]] == ["orders-2", "orders-1", "orders-0"]
    assert shown[5].strip() == "its end is not known"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"end": None, "end_at": None}, "its end is not known"),
        ({"committed": None, "position": None}, "no position of the group is known"),
        ({"committed": 130}, "the last known end is older than the position"),
    ],
)
def test_an_unknown_lag_says_why(fields: dict[str, Any], why: str) -> None:
    assert lines(row(lag=None, **fields))[-1].strip() == why


def test_an_old_end_says_how_old_it_is() -> None:
    assert "120 (30 s ago)" in lines(row(end_at=NOW - 30 * SECOND))[2]
    assert "ago" not in lines(row(end_at=NOW - 5 * SECOND))[2]


def test_lag_is_drawn_against_the_highest() -> None:
    assert sparkline([None, 0, 1, 20, 40], 40) == " ▁▂▄█"
    assert sparkline([0, 0], 0) == "▁▁"
    assert lines(row())[2].endswith("▁█▄")
    assert not lines(row(), picture=False)[2].endswith("▄")


def test_names_from_the_wire_cannot_break_the_line() -> None:
    shown = lines(row(group="bill\ning", topic="or\x1b[31mders", client="a\npp"))
    assert len(shown) == 3
    assert "\x1b" not in "".join(shown)


def keys_of(section: str) -> set[str]:
    """The keys in the first column of the tables of a section."""
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {key for cell in cells for key in re.findall("`(.+?)`", cell)}


def test_json_has_the_documented_keys() -> None:
    text = (ROOT / "docs" / "lag.md").read_text()
    whole, each = text.partition("## The shape of `--json`")[2].split("\nEach of `partitions`:")
    shape = json.loads(run("--json", SIGSTOP).stdout)
    assert set(shape) == keys_of(whole)
    of_several_clusters = {"cluster_id"}
    assert all(set(row) == keys_of(each) - of_several_clusters for row in shape["partitions"])
    about_groups = next(line for line in whole.splitlines() if line.startswith("| `groups`"))
    assert all(f"`{key}`" in about_groups for group in shape["groups"] for key in group)
    about_time = next(line for line in each.splitlines() if line.startswith("| `over_time`"))
    assert all(f"`{key}`" in about_time for row in shape["partitions"] for key in row["over_time"])


def test_no_heavy_package_is_imported_for_the_help() -> None:
    program = "import sys; from kproxy.cli import main; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
