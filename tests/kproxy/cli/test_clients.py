"""``kproxy clients`` as its users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from captures.analysis.clients.inventory import Client
from captures.analysis.clients.libraries import Library
from captures.analysis.clients.setting_display import DisplayedSetting
from captures.analysis.clients.settings import COMMIT, COMMON, FETCH, GROUP, PRODUCE, Setting, ValueSource
from captures.names import Names
from kproxy.cli import main
from kproxy.text.clients import client_table, properties

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
RANGE = DATA / "groups" / "27_k391_java_eager_range.pcap.zst"
MIXED = DATA / "groups" / "35_k282_rebalance_mixed.pcap.zst"
ACKS = DATA / "clean" / "20_k430_java_acks0.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["clients", *map(str, arguments)], catch_exceptions=False)


def test_a_table_of_clients() -> None:
    shown = run(MIXED)
    assert shown.exit_code == 0
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[0] == "Clients 3 clients"
    assert "kp kafka-python 1.4 guess consumer 127.0.0.1 1 3 111" in lines
    assert "guessed from: the versions it uses of 10 APIs" in lines
    assert "rdk librdkafka 2.16.0 told consumer 127.0.0.1 1 3 70" in lines
    assert "software: confluent-kafka-python 2.16.1-rdkafka-2.16.0" in lines
    assert "java apache-kafka-java 2.8.2 told consumer 127.0.0.1 1 3 39" in lines


def test_settings_are_a_properties_file() -> None:
    shown = run("--settings", "--client", "m1", RANGE).stdout
    pairs = dict(line.split("=", 1) for line in shown.splitlines() if line and not line.startswith("#"))
    assert pairs["session.timeout.ms"] == "6000"
    assert pairs["heartbeat.interval.ms"] == "1000"
    assert pairs["partition.assignment.strategy"] == "org.apache.kafka.clients.consumer.RangeAssignor"
    assert "group.instance.id" not in pairs
    assert "# not seen; no authentication was captured\n#sasl.mechanism=\n" in shown
    assert "default 45000\nsession.timeout.ms=6000\n" in shown


def test_defaults_are_left_out_on_request() -> None:
    shown = run("--settings", "--changed", "--client", "m1", RANGE).stdout
    assert "session.timeout.ms=6000" in shown
    assert "fetch.max.wait.ms" not in shown
    assert "sasl.mechanism" not in shown


def test_dangers_are_pointed_at() -> None:
    shown = run("--settings", "--changed", ACKS).stdout
    assert "# ! the producer learns of no error: records are lost without a trace\nacks=0\n" in shown


def test_names_of_the_library() -> None:
    shown = run("--settings", "--client", "kp", MIXED).stdout
    assert "# the library is a guess: the versions it uses of 10 APIs" in shown
    assert "\nsession_timeout_ms=6000\n" in shown


@pytest.mark.slow
def test_json() -> None:
    shape = json.loads(run("--json", "--settings", RANGE).stdout)
    assert shape["captures"] == [str(RANGE)]
    client = next(each for each in shape["clients"] if each["client"] == "m1")
    assert client["library"] == {
        "name": "apache-kafka-java",
        "release": "3.9.1",
        "told": True,
        "why": "ApiVersions names apache-kafka-java 3.9.1",
    }
    setting = next(each for each in client["settings"] if each["key"] == "session.timeout.ms")
    assert (setting["value"], setting["how"], setting["default"], setting["changed"]) == (
        6000,
        "read",
        "45000",
        True,
    )
    assert "settings" not in json.loads(run("--json", RANGE).stdout)["clients"][0]


def test_the_documented_keys_are_those_that_there_are() -> None:
    documented = (ROOT / "docs" / "clients.md").read_text().split("## The shape of `--json`")[1]
    client = json.loads(run("--json", "--settings", RANGE).stdout)["clients"][0]
    for key in (*client, *client["library"], *client["settings"][0]):
        assert f"`{key}`" in documented


def test_every_setting_is_documented() -> None:
    documented = (ROOT / "docs" / "clients.md").read_text()
    for key in (*COMMON, *GROUP, *COMMIT, *FETCH, *PRODUCE):
        assert f"`{key}`" in documented


def test_only_the_clients_that_were_asked_for() -> None:
    shown = run("-c", "m*", RANGE).stdout
    assert "m1" in shown
    assert "pump" not in shown
    refused = run("-c", "billing", RANGE)
    assert refused.exit_code == 2
    assert "no client 'billing'" in refused.output


def test_changed_is_about_settings() -> None:
    assert run("--changed", RANGE).exit_code == 2


def test_a_capture_that_begins_in_the_middle() -> None:
    shape = json.loads(run("--json", DATA / "findings" / "26_k430_broker_sigstop_clients.pcap.zst").stdout)
    assert shape["clients"]


@pytest.mark.parametrize("flags", [(), ("--settings",), ("--json",)])
def test_no_kafka_at_all(flags: tuple[str, ...], tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    shown = run(*flags, empty)
    assert shown.exit_code == 3
    assert "clients" in shown.stdout


def test_what_clients_call_themselves_cannot_move_the_cursor() -> None:
    evil = "a\x1b[2Jb\nc=1"
    library = Library(evil, evil, announced=True, why=evil)
    told = DisplayedSetting(
        Setting("group.id", evil, ValueSource.READ, 1, (1,)), "group.id", evil, [(evil, 1)], None, None, ""
    )
    client = Client(evil, evil, library, [evil], [evil], ["10.0.0.9"], [], [evil], settings=[told])
    table = client_table([client], Names()).lines(None)
    lines = [*table, *properties(client, Names(), changed=False)]
    assert all("\x1b" not in line and "\n" not in line for line in lines)
