"""``kproxy journey`` as its users run it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
EOS = DATA / "findings" / "27_k391_tx_java_eos.pcap.zst"
SHARE = DATA / "groups" / "21_k430_share_group.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["journey", *map(str, arguments)], catch_exceptions=False)


def test_a_record_hop_by_hop() -> None:
    shown = run("--utc", "o-tx3-in-0@3", EOS)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0].startswith('o-tx3-in-0@3  key "k')
    assert "record 4 of 17 in its batch" in lines[1]
    assert [line.split("#")[0].split()[0] for line in lines[2:5]] == ["sent", "acknowledged", "readable"]
    assert lines[5].strip() == "group g-o-tx3"
    # numbers from kproxy read: Produce 10, Fetch 28, and EndTxn 35 of the transaction that contains offset 10
    assert [line.split("#")[1].split()[0] for line in lines if "#" in line] == ["10", "10", "28", "28", "35"]
    assert "offset 10, in a transaction" in lines[-1]


def test_a_transaction_that_was_aborted() -> None:
    shape = json.loads(run("--json", "o-tx3-0@12", EOS).stdout)
    (journey,) = shape["journeys"]
    transaction = journey["transaction"]
    # EndTxn 43 aborts the records of Produce 42
    assert (journey["attempts"][0]["exchange"], transaction["ended"]["exchange"]) == (42, 43)
    assert (transaction["transactional_id"], transaction["committed"]) == ("eos-o-tx3", False)
    assert [each["client"] for each in journey["groups"]] == ["read_committed", "read_uncommitted"]


def test_all_records_of_a_topic() -> None:
    shown = run("-t", "o-tx3-in", EOS)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "o-tx3-in  30 records sent, 30 acknowledged, 2 partitions"
    assert lines[1].split() == ["hop", "records", "p50", "ms", "p95", "ms", "p99", "ms", "max", "ms"]
    (committed,) = [line.split() for line in lines if "committed" in line and "->" in line]
    # offsets 10 and 13 were committed, 17 only in an aborted transaction
    assert committed[3] == "23"


def test_records_by_key_and_text() -> None:
    found = json.loads(run("--json", "--key", "k7", EOS).stdout)["journeys"]
    assert found
    assert all(base64.b64decode(each["record"]["key"]) == b"k7" for each in found)
    one = json.loads(run("--json", "-t", "o-tx3-in", "-p", "0", "-c", "v7", EOS).stdout)["journeys"]
    assert all((each["topic"], each["partition"]) == ("o-tx3-in", 0) for each in one)
    assert one


@pytest.mark.slow
def test_many_records_are_counted_unless_all_are_asked_for() -> None:
    shown = run("-t", "r2-share_group", "-c", "n", SHARE).stdout
    assert shown.splitlines()[-1] == "… 159 records more fit, --all shows them"
    every = json.loads(run("--json", "--all", "-t", "r2-share_group", "-c", "n", SHARE).stdout)
    assert (len(every["journeys"]), every["more"]) == (179, 0)


@pytest.mark.slow
def test_only_the_groups_that_were_asked_for() -> None:
    assert "share group gr2-share_group" in run("-t", "r2-share_group", "-g", "gr2-*", SHARE).stdout
    refused = run("-t", "r2-share_group", "-g", "billing", SHARE)
    assert refused.exit_code == 2
    assert "no group 'billing' in the capture" in refused.stderr


def test_what_is_not_there_is_said() -> None:
    assert run("o-tx3-in-0@500", EOS).stdout == (
        "o-tx3-in-0@500 is not in the capture: the capture has records from 0 to 16 of that partition.\n"
    )
    assert run("nowhere-0@5", EOS).stdout == "No such record of nowhere is in the capture.\n"
    assert run("-t", "nowhere", EOS).stdout == "No records of nowhere.\n"


def test_a_record_that_only_a_log_has() -> None:
    log = DATA / "log_segments" / "prices-0"
    shown = run("prices-0@467", EOS, log)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("prices-0@467  (its content is not in the capture)\n  in the log  ")
    [journey] = json.loads(run("--json", "prices-0@9999", EOS, log).stdout)["journeys"]
    assert "the log ends before it" in journey["logs"][0]["reason"]
    other = run("nowhere-0@5", EOS, log)
    assert other.stderr == "kproxy: no log of nowhere-0 was named\n"
    assert other.stdout.startswith("No such record of nowhere is in the capture.")
    assert "'kproxy records'" in run("--key", "nobody", EOS, log).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((EOS,), "is not a record: write TOPIC-PARTITION@OFFSET"),
        (("orders-3@1",), "Missing argument 'CAPTURE...'"),
        (("--partition", "1", "orders-3@1", EOS), "--partition goes with --key"),
    ],
)
def test_wrong_usage(arguments: tuple[Any, ...], said: str) -> None:
    refused = run(*arguments)
    assert refused.exit_code == 2
    assert said in refused.stderr


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each)


def test_the_documented_keys_are_those_that_there_are() -> None:
    documented = (ROOT / "docs" / "journey.md").read_text().split("## The shape of `--json`")[1]
    for arguments in (("o-tx3-0@12", EOS), ("-t", "o-tx3-in", EOS), ("-t", "r2-share_group", SHARE)):
        for key in keys(json.loads(run("--json", *arguments).stdout)):
            assert f"`{key}`" in documented
