"""``kproxy compat`` as its users run it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main

pytestmark = pytest.mark.quick

DATA = Path(__file__).parents[2] / "data"
OLD = DATA / "clean" / "36_k01001_java.pcap.zst"
NEW = DATA / "clean" / "20_k430_ck_lz4.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["compat", *map(str, arguments)], catch_exceptions=False)


def as_json(*arguments: str | Path) -> dict[str, Any]:
    result = run("--json", *arguments)
    assert result.exit_code == 0
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_clients_that_kafka_4_refuses() -> None:
    result = run("--broker-version", "4.3", OLD)
    assert result.exit_code == 0
    lines = [re.sub(r" +", " ", line.strip()) for line in result.stdout.splitlines()]
    assert lines[0] == "With Kafka 4.3, of 3 clients: 3 would be refused."
    assert "java-cons refused never - 2 7" in lines
    assert any(
        re.fullmatch(r"refused Produce 2 3-13 java-gzip java-lz4 4 #\d+ inferred", line) for line in lines
    )
    assert any("Kafka 4.0 removed v0-2: KIP-896" in line for line in lines)
    assert not any(line.startswith("served") for line in lines)
    assert "served   Metadata" in run("--all", "--broker-version", "4.3", OLD).stdout


def test_an_older_broker_in_json() -> None:
    found = as_json("--broker-version", "0.10.2", NEW)
    assert found["target"]["name"] == "Kafka 0.10.2"
    assert found["captures"] == [str(NEW)]
    (client,) = found["clients"]
    assert (client["client"], client["verdict"], client["asks_for_versions"]) == ("ck-lz4", "older", True)
    fetch = next(each for each in client["apis"] if each["api"] == "Fetch")
    assert fetch == {
        "api": "Fetch",
        "api_key": 1,
        "used": {"16": 4},
        "serves": {"min": 0, "max": 3},
        "verdict": "older",
        "certainty": "possible",
        "would_use": 3,
        "or_higher": False,
        "first": fetch["first"],
        "sentence": fetch["sentence"],
    }
    assert "if it still speaks that" in fetch["sentence"]


def test_ranges_of_a_file_are_a_broker_too(tmp_path: Path) -> None:
    told = CliRunner().invoke(
        main, ["api-versions", "--json", str(DATA / "questions" / "32_k0102_ck_lz4.pcap.zst")]
    )
    ranges = tmp_path / "ranges.json"
    ranges.write_text(told.stdout)
    by_file = as_json("--broker-version", ranges, NEW)
    by_name = as_json("--broker-version", "0.10.2.2", NEW)
    assert by_file["target"]["name"] == f"the broker of {ranges}"
    for one, other in zip(by_file["clients"][0]["apis"], by_name["clients"][0]["apis"], strict=True):
        keys = ("api", "verdict", "would_use", "serves")
        assert [one[key] for key in keys] == [other[key] for key in keys]


def test_zookeeper() -> None:
    assert as_json("--broker-version", "3.9", NEW)["target"]["name"] == "Kafka 3.9 with KRaft"
    found = as_json("--broker-version", "3.9", "--zookeeper", NEW)["target"]
    assert found["name"] == "Kafka 3.9 with ZooKeeper"
    assert {"LeaderAndIsr", "StopReplica"} <= {each["api"] for each in found["apis"]}


def test_brokers_that_are_too_old_for_a_client() -> None:
    result = run("--client-version", "apache-kafka-java-4.0", DATA / "questions" / "32_k0102_ck_lz4.pcap.zst")
    lines = [re.sub(r" +", " ", line.strip()) for line in result.stdout.splitlines()]
    assert lines[0] == "For apache-kafka-java 4.0, of 1 broker: 1 too old or too new for it."
    assert any(re.fullmatch(r"127\.0\.0\.1:20301 refused #\d+ Kafka 0\.10\.2", line) for line in lines)
    assert any(line.startswith("refused Fetch 4-17 0-3 yes") for line in lines)
    short = as_json("--client-version", "4.0", DATA / "questions" / "32_k0102_ck_lz4.pcap.zst")
    assert (short["client"], short["brokers"][0]["verdict"]) == ("apache-kafka-java 4.0", "refused")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "use either --broker-version or --client-version"),
        (["--broker-version", "4.3", "--client-version", "4.3"], "use either"),
        (["--broker-version", "5.0"], "'5.0' is no release of Apache Kafka from 0.8.0 to 4.4, and no file"),
        (["--broker-version", "4.3", "--zookeeper"], "works without ZooKeeper"),
        (["--broker-version", str(OLD)], "is not output of 'kproxy api-versions --json'"),
        (["--client-version", "sarama-1.61"], "the versions of sarama are not known"),
        (["--client-version", "apache-kafka-java"], "not known"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = run(*arguments, OLD)
    assert result.exit_code == 2
    assert said in re.sub(r"\s+", " ", result.stderr)


def test_files_without_ranges(tmp_path: Path) -> None:
    for text in ('{"brokers": []}', "[]", "3", '{"brokers": [{"apis": [null, 3]}, 5]}'):
        path = tmp_path / "ranges.json"
        path.write_text(text)
        result = run("--broker-version", path, OLD)
        assert result.exit_code == 2
        assert "has no broker with its versions" in re.sub(r"\s+", " ", result.stderr)


def test_a_capture_that_is_not_there() -> None:
    assert run("--broker-version", "4.3", "nowhere.pcap").exit_code == 1
