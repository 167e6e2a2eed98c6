"""``kproxy stats`` as its users run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from captures.analysis.api_stats import ApiStats
from captures.analysis.client_stats import ClientStats
from captures.analysis.connection_stats import ConnectionStats
from captures.analysis.error_stats import ErrorStats
from captures.analysis.throttling import ThrottleStats
from captures.analysis.topic_stats import TopicStats
from captures.exchanges import ExchangeReader, open_capture
from captures.json_objects import to_json
from kproxy.cli import main
from kproxy.text.summary import Tally
from tests.captures.recorded import CAPTURES

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
DATA = ROOT / "tests" / "data" / "captures"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["stats", *map(str, arguments)], catch_exceptions=False)


def shape(*arguments: str | Path) -> dict:
    return json.loads(run("--json", *arguments).stdout)


@pytest.fixture(scope="module")
def stats() -> dict:
    return shape(SAMPLE)


def row(rows: list[dict], **wanted: object) -> dict:
    (found,) = [each for each in rows if all(each[name] == value for name, value in wanted.items())]
    return found


# The expected values for the sample were counted in the output of Apache kafka-clients
# (oracle/21_k430_java_eager_range.pcap.jsonl.gz of the recordings).
def test_apis_of_the_sample(stats: dict) -> None:
    counts = {(each["api"], each["version"]): each["exchanges"] for each in stats["apis"]}
    assert counts[("Fetch", 18)] == 127
    assert counts[("Produce", 10)] == 74
    assert sum(counts.values()) == stats["exchanges"] == 402


def test_errors_of_the_sample(stats: dict) -> None:
    assert [(each["api"], each["code"], each["expected"], each["exchanges"]) for each in stats["errors"]] == [
        ("Heartbeat", 27, False, 8),
        ("JoinGroup", 79, True, 4),
    ]


def test_long_polls_are_told_apart_from_broker_time(stats: dict) -> None:
    fetch = row(stats["apis"], api="Fetch")
    # fetch.max.wait.ms is 500: most fetches of idle partitions wait that long
    assert fetch["waited"]["p50_ns"] == pytest.approx(500_000_000, rel=0.01)
    assert fetch["broker_time"]["p50_ns"] < 10_000_000
    assert fetch["latency"]["p50_ns"] > 400_000_000
    assert "long poll: nothing new to read" in fetch["wait_reasons"]


def test_clients_of_the_sample(stats: dict) -> None:
    software = {each["client_id"]: each["software"] for each in stats["clients"]}
    assert set(software) == {"m1", "m2", "m3", "m4", "pump", "mk"}
    assert software["m1"] == ["apache-kafka-java 4.3.0"]
    assert software["pump"] == ["confluent-kafka-python 2.16.1-rdkafka-2.16.0"]


def test_topics_of_the_sample(stats: dict) -> None:
    (topic,) = stats["topics"]
    assert topic["topic"] == "r2-java_eager_range"
    assert topic["produced"]["records"] == 74
    assert set(topic["produced"]["clients"]) == {"pump"}
    assert set(topic["fetched"]["clients"]) == {"m1", "m2", "m3", "m4"}
    assert [each["partition"] for each in topic["partitions"]] == [0, 1, 2, 3, 4, 5]
    for flow in ("produced", "fetched"):
        for name in ("bytes", "records", "batches"):
            assert sum(each[flow][name] for each in topic["partitions"]) == topic[flow][name]


def test_connections_add_up(stats: dict) -> None:
    assert len(stats["connections"]) == 16
    assert sum(each["exchanges"] for each in stats["connections"]) == 402
    assert {each["ended"] for each in stats["connections"]} == {"closed by client"}


def test_json_has_the_documented_keys(stats: dict) -> None:
    head, *sections = (ROOT / "docs" / "json-stats.md").read_text().split("\n## ")
    throttled = shape("--by", "throttle", DATA / "01_mock_java_throttle_bug.pcap")
    shapes = {"": [stats]} | {name: stats[name] for name in stats if isinstance(stats[name], list)}
    shapes["throttling"] = throttled["throttling"]
    shapes["time_shares"] = shape("--by", "latency", SAMPLE)["time_shares"]
    shapes[""] = [stats | {"time_shares": []}]  # present only on request
    documented = {"": head} | {section.partition("`\n")[0].strip("`"): section for section in sections}
    assert documented.keys() == shapes.keys() - {"captures"}
    for name, text in documented.items():
        cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        keys = {key for cell in cells for key in re.findall("`(.+?)`", cell)}
        assert shapes[name], name
        assert all(set(each) == keys - {"cluster_id"} for each in shapes[name]), name


def test_tables_of_the_overview() -> None:
    text = run("--utc", SAMPLE).stdout
    titles = [line.split("  ")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    assert titles[1:] == [
        "09:50:58.908 to 09:51:35.647 UTC",
        "APIs",
        "Errors",
        "Clients",
        "Topics",
        "Connections",
    ]
    assert "  … 6 more, --all shows them" in text  # of 16 connections


def test_all_shows_every_row() -> None:
    text = run("--all", SAMPLE).stdout
    assert "more, --all" not in text
    assert text.count("127.0.0.1:10101") == 16


def test_by_chooses_tables_in_the_order_given() -> None:
    assert list(shape("--by", "topic", "--by", "api", SAMPLE))[-2:] == ["topics", "apis"]
    text = run("--by", "connection", SAMPLE).stdout
    assert "\nConnections" in text
    assert "\nAPIs" not in text
    assert "apache-kafka-java 4.3.0" in text
    # the client disconnected during a long poll
    assert re.search(r"1 Fetch unanswered for \d+\.\d ms", text)


def test_a_table_that_was_asked_for_and_is_empty_says_so() -> None:
    assert "Throttling: none" in run("--by", "throttle", SAMPLE).stdout


def test_throttling() -> None:
    # librdkafka's mock cluster answers ApiVersions v4 in a way that Java misreads as a throttle time
    text = run("--by", "throttle", DATA / "01_mock_java_throttle_bug.pcap").stdout
    assert re.search(r"java-none +ApiVersions +3 +6 +\d+ min", text)


def test_principals_are_shown_and_secrets_are_not(recorded_scram: Path) -> None:
    result = run("--by", "client", "--by", "connection", recorded_scram)
    assert "admin (SCRAM-SHA-256)" in result.stdout
    assert "SCRAM-SHA-256 as admin" in result.stdout
    assert "ApiVersions v5 not known, fell back to v0" in result.stdout
    assert "p=" not in run("--json", recorded_scram).stdout  # no proof of a client-final token


def test_tls_is_named_on_its_connections() -> None:
    result = run("--by", "connection", DATA / "24_k430_tls13_franz.pcap")
    assert "not Kafka: TLS" in result.stdout
    assert result.exit_code == 3


def test_from_and_to_limit_the_time(stats: dict) -> None:
    some = shape("--utc", "--from", "09:51:00", "--to", "09:51:05", SAMPLE)
    assert "2026-11-21T09:51:00" <= some["first"] <= some["last"] <= "2026-11-21T09:51:05.1"
    assert 0 < some["exchanges"] < 402
    assert sum(each["exchanges"] for each in some["connections"]) == some["exchanges"]
    assert len(some["connections"]) < len(stats["connections"])
    # names of topics learned earlier are known in it
    assert {each["topic"] for each in some["topics"]} == {"r2-java_eager_range"}


def test_a_filter_chooses_exchanges_and_their_connections() -> None:
    some = shape("-Y", "client_id == m1 and api == Fetch", SAMPLE)
    (api,) = some["apis"]
    (client,) = some["clients"]
    assert (api["api"], client["client_id"]) == ("Fetch", "m1")
    assert api["exchanges"] == client["exchanges"] == some["exchanges"] == 71
    assert all(each["client_ids"] == ["m1"] for each in some["connections"])


@pytest.mark.slow
def test_connections_have_the_numbers_that_filters_take(stats: dict) -> None:
    lines = run("--by", "connection", SAMPLE).stdout.splitlines()
    told = {
        int(found[1]): int(found[2])
        for line in lines
        if (found := re.match(r" +(\d+)  127\..* m?s +(\d+) ", line))
    }
    assert told == {each["connection"]: each["exchanges"] for each in stats["connections"]}
    for number, exchanges in list(told.items())[:3]:
        assert shape("-Y", f"connection=={number}", SAMPLE)["exchanges"] == exchanges


def test_a_filter_that_needs_bodies() -> None:
    some = shape("-Y", 'error == "REBALANCE_IN_PROGRESS"', SAMPLE)
    assert [(each["api"], each["errors"]) for each in some["apis"]] == [("Heartbeat", 8)]


def test_a_filter_that_is_not_understood_is_shown_with_a_caret() -> None:
    result = run("-Y", "apx == Fetch", SAMPLE)
    assert result.exit_code == 2
    assert "  apx == Fetch\n  ^^^" in result.stderr


def test_quick_counts_the_same_without_bodies(stats: dict) -> None:
    quick = shape("--quick", SAMPLE)
    same = ("api", "version", "exchanges", "unanswered", "request_bytes", "response_bytes", "latency")
    assert [[each[name] for name in same] for each in quick["apis"]] == [
        [each[name] for name in same] for each in stats["apis"]
    ]
    assert all(each["broker_time"] is None for each in quick["apis"])
    assert "with waits by design" in run("--quick", SAMPLE).stdout


def test_quick_takes_filters_by_columns_only() -> None:
    assert [each["api"] for each in shape("--quick", "-Y", "api == Fetch", SAMPLE)["apis"]] == ["Fetch"]
    assert run("--quick", "-Y", "topic == orders", SAMPLE).exit_code == 2
    assert run("--quick", "--by", "topic", SAMPLE).exit_code == 2


def test_several_captures_add_up(recorded_scram: Path, stats: dict) -> None:
    both, other = shape(SAMPLE, recorded_scram), shape(recorded_scram)
    for name in ("clients", "connections"):
        assert len(both[name]) == len(stats[name]) + len(other[name])
    assert both["exchanges"] == 402 + other["exchanges"]
    assert {each["topic"] for each in both["topics"]} == {
        each["topic"] for each in stats["topics"] + other["topics"]
    }


def test_a_file_that_is_no_capture(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are no packets at all")
    result = run(file)
    assert result.exit_code == 1
    assert "notes.txt" in result.stderr


def test_a_capture_without_kafka(recorded_garbage: Path) -> None:
    result = run(recorded_garbage)
    assert result.exit_code == 3
    assert "is not Kafka" in result.stderr
    assert "not Kafka" in result.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom kproxy.cli import main\n"
        "try:\n    main(['stats', '--help'])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', *[name for name in ('numpy', 'construct', 'msgspec') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_where_the_time_went() -> None:
    text = run("--by", "latency", SAMPLE).stdout
    assert "Where the time went" in text
    head = next(line.split() for line in text.splitlines() if line.split()[:1] == ["API"])
    assert head == ["API", "answered", "p50", "p99", "broker", "p99", "by", "design", "network", "client"]
    assert "    long poll: nothing new to read: 29.5 s in all" in text.splitlines()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CAPTURES)
def test_columns_add_up_to_what_the_exchanges_do(name: str) -> None:
    capture = open_capture(str(DATA / name))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    tally, apis, errors, clients = Tally(), ApiStats(), ErrorStats(), ClientStats()
    topics, throttling = TopicStats(reader.knowledge.topic_name), ThrottleStats()
    connections = ConnectionStats(capture)
    adding = (tally, apis, errors, clients, topics, connections, throttling)
    for exchange in reader:
        for each in adding:
            each.add(exchange)
    made = shape(DATA / name)
    assert made["exchanges"] == tally.exchanges
    expected = {
        "apis": apis,
        "errors": errors,
        "clients": clients,
        "topics": topics,
        "connections": connections,
        "throttling": throttling,
    }
    for table, stats in expected.items():
        rows, others = made[table], json.loads(json.dumps(to_json(stats.result())))
        if table == "connections":
            rows, others = ([*sorted(each, key=lambda row: row["connection"])] for each in (rows, others))
        assert rows == others, table
    said = run(DATA / name).stdout.splitlines()
    assert not len(capture.table) or said[0] == tally.sentence(capture)
