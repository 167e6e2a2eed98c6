"""``kproxy api-versions`` as its users run it."""

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


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["api-versions", *map(str, arguments)], catch_exceptions=False)


def test_the_tables_of_the_sample() -> None:
    result = run(SAMPLE)
    assert result.exit_code == 0
    lines = [re.sub(r" +", " ", line.strip()) for line in result.stdout.splitlines()]
    assert any(line.startswith("127.0.0.1:10101 77 #1 ") for line in lines)
    assert "m1 apache-kafka-java 4.3.0 yes 1 13 127.0.0.1" in lines
    assert "Fetch 4-18 18 18 127 m1 m2 m3 +1 127.0.0.1:10101 broker offers no more" in lines
    assert "Produce 0-13 10 10-13 74 pump 127.0.0.1:10101 client uses less" in lines
    assert lines[-1] == "No warnings."


def test_apis_that_nobody_uses() -> None:
    assert "DescribeAcls" not in run(SAMPLE).stdout
    assert "DescribeAcls" in run("--all", SAMPLE).stdout


def test_warnings_of_an_old_client() -> None:
    text = run(GROUPS / "31_k0901_rebalance_range.pcap.zst").stdout
    assert "refused_by_kafka_4" in text
    assert "never_asked" in text
    assert "not announced" in text


def test_the_shape_is_the_documented_one() -> None:
    documented = (ROOT / "docs" / "api-versions.md").read_text()
    shape = json.loads(run("--json", SAMPLE).stdout)
    assert list(shape) == ["captures", "brokers", "clients", "warnings"]
    old = json.loads(run("--json", GROUPS / "31_k0901_rebalance_range.pcap.zst").stdout)
    for shown in (
        shape["brokers"][0],
        shape["clients"][0],
        shape["clients"][0]["versions"][0],
        old["warnings"][0],
    ):
        for key in shown:
            assert re.search(rf"^\|.*`{key}`.*\|", documented, re.MULTILINE), key
    apis = {each["api"]: (each["min"], each["max"]) for each in shape["brokers"][0]["apis"]}
    assert apis["Fetch"] == (4, 18)


def test_the_words_are_documented() -> None:
    from captures.analysis.negotiation import Limit, WarningKind

    documented = (ROOT / "docs" / "api-versions.md").read_text()
    for word in (*WarningKind, *Limit):
        assert f"`{word}`" in documented, word


def keys_of(section: str) -> set[str]:
    """The keys in the first column of the table of a section."""
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {key for cell in cells for key in re.findall("`(.+?)`", cell)}


def test_json_has_the_documented_keys() -> None:
    text = (ROOT / "docs" / "api-versions.md").read_text().partition("## The shape of `--json`")[2]
    sections = text.partition("\n## ")[0].split("\nOf a ")
    whole, broker, client, version, warning = map(keys_of, sections)
    shape = json.loads(run("--json", GROUPS / "31_k0901_rebalance_range.pcap.zst").stdout)
    assert set(shape) == whole
    assert all(set(each) == broker for each in shape["brokers"])
    assert all(set(each) == client for each in shape["clients"])
    assert all(set(use) == version for each in shape["clients"] for use in each["versions"])
    assert shape["warnings"]
    assert all(set(each) == warning for each in shape["warnings"])


def test_one_client() -> None:
    shape = json.loads(run("--json", "--client", "pump", SAMPLE).stdout)
    assert [each["client"] for each in shape["clients"]] == ["pump"]
    wrong = run("--client", "nobody", SAMPLE)
    assert wrong.exit_code == 2
    assert "there are 'm1', 'm2'" in wrong.stderr


@pytest.mark.slow
def test_one_broker(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 kafka-one\n")
    for name in ("127.0.0.1:10101", "127.0.0.1", "kafka-one:10101", "kafka-one"):
        shape = json.loads(run("--json", "--hosts", hosts, "--broker", name, SAMPLE).stdout)
        assert [(each["broker"], each["name"]) for each in shape["brokers"]] == [
            ("127.0.0.1:10101", "kafka-one")
        ]
    wrong = run("--broker", "10.9.9.9", SAMPLE)
    assert wrong.exit_code == 2
    assert "no broker is '10.9.9.9' in the capture" in wrong.stderr
