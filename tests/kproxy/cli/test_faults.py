"""Invalid input from strangers, and internal errors that it triggers: no command dies, and each reports the error."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner, Result

from captures.analysis.findings.rules.versions import RefusedByKafka4
from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.single import SingleConnection
from captures.export import mermaid
from kproxy.cli import main
from tests.kproxy.frames import framed
from tests.kproxy.replay.recording import Connection, Recording

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"
TOPIC_ID = "Mw8jd2xLRi-9ql0CZI2UXA"
MOST = (1 << 63) - 1
OFFERED = {
    "error_code": 0,
    "api_keys": [
        {"api_key": 0, "min_version": 0, "max_version": 11},
        {"api_key": 1, "min_version": 4, "max_version": 16},
        {"api_key": 3, "min_version": 0, "max_version": 12},
    ],
    "throttle_time_ms": 0,
}


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def tables_of(path: Path, out: Path, *options: str) -> Result:
    return run("tables", path, "-o", out, "--engine", "single", *options)


def rows_of(out: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(out / table, partitioning="hive").to_table().to_pylist()
    return rows


def ask_raw(connection: Connection, at: int, key: int, version: int, body: bytes = bytes(8)) -> None:
    """Send a request that no declaration covers, with a response."""
    connection.asked += 1
    head = struct.pack(">hhih", key, version, connection.asked, 3) + b"app"
    connection._send(framed(head + body), at, from_client=True)
    connection._send(framed(struct.pack(">i", connection.asked) + bytes(8)), at + 1, from_client=False)


@pytest.fixture(scope="module")
def negative(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture with requests of nonexistent versions and APIs, among others."""
    recording = Recording()
    for at, (key, version) in enumerate([(3, -1), (1, -32768), (3, 32767), (18, -7), (999, -1), (32767, 5)]):
        app = recording.connection("app", at=20 * at)
        app.exchange(
            20 * at + 1, 18, 3, {"client_software_name": "a", "client_software_version": "1"}, OFFERED
        )
        ask_raw(app, 20 * at + 5, key, version)
        app.exchange(20 * at + 9, 3, 1, {"topics": None}, {"brokers": [], "controller_id": 1, "topics": []})
    return recording.write(tmp_path_factory.mktemp("negative") / "negative.pcap")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["read"],
        ["read", "-V"],
        ["read", "--json"],
        ["read", "--exchange", "2"],
        ["stats"],
        ["stats", "--by", "latency"],
        ["groups"],
        ["lag"],
        ["clients"],
        ["clients", "--settings"],
        ["follow", "app"],
        ["journey", "--topic", "orders"],
        ["api-versions"],
        ["api-versions", "--json"],
        ["compat", "--broker-version", "4.3"],
        ["compat", "--client-version", "4.0"],
        ["diagnose"],
        ["diagnose", "--json"],
    ],
    ids=" ".join,
)
def test_versions_that_there_are_not_end_no_command(arguments: list[str], negative: Path) -> None:
    result = run(*arguments, negative)
    assert result.exit_code in (0, 3)
    assert "fault" not in result.stderr


@pytest.mark.slow
def test_versions_that_there_are_not_are_compared_and_written(negative: Path, tmp_path: Path) -> None:
    assert "fault" not in run("diff", negative, negative).stderr
    result = tables_of(negative, tmp_path / "t")
    assert "fault" not in result.stderr
    assert {-1, -32768, 32767, -7, 5} < {row["version"] for row in rows_of(tmp_path / "t", "exchanges")}


def topology(partitions: int) -> dict[str, Any]:
    internal = {
        "name": "app-repartition",
        "partitions": partitions,
        "replication_factor": 1,
        "topic_configs": [],
    }
    return {
        "epoch": 1,
        "subtopologies": [
            {
                "subtopology_id": "0",
                "source_topics": ["orders"],
                "source_topic_regex": [],
                "state_changelog_topics": [{**internal, "name": "app-changelog"}],
                "repartition_sink_topics": ["app-repartition"],
                "repartition_source_topics": [internal],
                "copartition_groups": [],
            }
        ],
    }


@pytest.mark.parametrize("partitions", [0, 3, -1, (1 << 31) - 1])
def test_a_topology_with_partitions_becomes_rows(partitions: int, tmp_path: Path) -> None:
    recording = Recording()
    tasks = [{"subtopology_id": "0", "partitions": [0, 1]}]
    ask = {
        "group_id": "app",
        "member_id": "m1",
        "member_epoch": 0,
        "endpoint_information_epoch": 0,
        "topology": topology(partitions),
        "active_tasks": tasks,
        "client_tags": None,
        "shutdown_application": False,
        "user_endpoint": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "standby_tasks": None,
        "warmup_tasks": None,
    }
    recording.connection("app").ask(1, 88, 0, ask, answered=False)
    path = recording.write(tmp_path / "streams.pcap")
    result = tables_of(path, tmp_path / "t")
    assert "fault" not in result.stderr
    (row,) = rows_of(tmp_path / "t", "exchanges")
    assert {"app-repartition", "app-changelog", "orders"} <= set(row["topics"])


def acquired(*ranges: tuple[int, int]) -> dict[str, Any]:
    return {
        "partition_index": 0,
        "error_code": 0,
        "acknowledge_error_code": 0,
        "current_leader": {"leader_id": 1, "leader_epoch": 1},
        "records": b"",
        "acquired_records": [
            {"first_offset": first, "last_offset": last, "delivery_count": 1} for first, last in ranges
        ],
    }


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("ranges", "count"),
    [
        ([(0, 9)], 10),
        ([(0, MOST)], None),
        ([(-MOST - 1, MOST)], None),
        ([(5, MOST), (0, MOST)], None),
        ([], 0),
    ],
)
def test_more_records_than_a_column_holds_are_unknown(
    ranges: list[tuple[int, int]], count: int | None, tmp_path: Path
) -> None:
    recording = Recording()
    request = {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": 1,
        "topics": [],
        "forgotten_topics_data": [],
    }
    request |= {"max_wait_ms": 1, "min_bytes": 1, "max_bytes": 1, "max_records": 1, "batch_size": 1}
    response = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "acquisition_lock_timeout_ms": 1,
        "node_endpoints": [],
    }
    response["responses"] = [{"topic_id": TOPIC_ID, "partitions": [acquired(*ranges)]}]
    recording.connection("app").exchange(1, 78, 1, request, response)
    path = recording.write(tmp_path / "share.pcap")
    result = tables_of(path, tmp_path / "t")
    assert result.exit_code == 0, result.output
    (row,) = rows_of(tmp_path / "t", "topic_partitions")
    assert row["acquired"] == count
    assert row["leader_id"] == 1


# ---------------------------------------------------------------- planted errors
def failing(on: Callable[[Exchange], bool], does: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper that fails for some exchanges, and calls the original for others."""

    def fail(self: Any, exchange: Exchange, *more: Any, **options: Any) -> Any:
        if on(exchange):
            raise KeyError("planted")
        return does(self, exchange, *more, **options)

    return fail


def at(number: int) -> Callable[[Exchange], bool]:
    return lambda exchange: exchange.number == number


def plant(
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    number: int = 17,
    on: Callable[[Exchange], bool] | None = None,
) -> None:
    """Make a method fail for an exchange, which is its first argument.

    :param on: condition for the exchange; by default it has the given `number`
    """
    module, name, method = where.rsplit(".", 2)
    kind = getattr(__import__(module, fromlist=[name]), name)
    monkeypatch.setattr(kind, method, failing(on or at(number), getattr(kind, method)))


COMMANDS: list[tuple[list[str], str, str]] = [
    (["groups"], "captures.analysis.groups.history.GroupHistories.add", "the histories of groups"),
    (["lag"], "captures.analysis.lag.LagStats.add", "following offsets"),
    (["clients"], "captures.analysis.clients.inventory.Clients.add", "getting to know its client"),
    (["follow", "pump"], "captures.analysis.client_trace.log.PartyLog.add", "following it"),
    (
        ["journey", "--topic", "r2-java_eager_range"],
        "captures.analysis.journey.journeys.Journeys.add",
        "following records",
    ),
    (["api-versions"], "captures.analysis.negotiation.Negotiation.learn", "learning versions"),
    (
        ["compat", "--broker-version", "4.3"],
        "captures.analysis.compat.Compatibility.learn",
        "learning versions",
    ),
    (["diff", str(SAMPLE)], "captures.analysis.negotiation.Negotiation.learn", "learning what to compare"),
    (["read", "--color", "always"], "kproxy.text.lines.Lines.line", "showing it"),
    (["read", "-V"], "kproxy.text.lines.Lines.line", "showing it"),
]


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        (["read"], "kproxy.text.lines.Lines.block"),
        (["export", "--format", "csv", "-o", "-"], "captures.export.columns.Column.values"),
    ],
    ids=["read", "export"],
)
def test_a_block_that_fails_is_shown_one_by_one(
    arguments: list[str], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(*arguments, SAMPLE)
    plant(monkeypatch, where, on=lambda _: True)
    found = run(*arguments, SAMPLE)
    assert (found.exit_code, found.stdout) == (whole.exit_code, whole.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "where", "doing"), COMMANDS, ids=[" ".join(each[0]) for each in COMMANDS]
)
def test_a_fault_ends_no_command(
    arguments: list[str], where: str, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = _number_of(arguments[0]) if arguments[0] in _LOOKED_AT else 17
    plant(monkeypatch, where, number)
    result = run(*arguments, SAMPLE)
    assert result.exit_code == 3
    assert f"kproxy: exchange {number}: {doing} failed: KeyError: 'planted'" in result.stderr
    assert "Please report" in result.stderr
    assert len(result.stdout) > 100  # the rest is printed


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_fault_in_a_table_of_stats_leaves_the_others(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("captures.analysis.topic_stats.TopicStats.add_columns", fails)
    result = run("stats", *options, SAMPLE)
    assert result.exit_code == 3
    assert "the table topic failed: KeyError: 'planted'" in result.stderr
    assert len(result.stdout) > 100  # the rest is printed


_LOOKED_AT = {
    "journey": "Fetch",
    "follow": "Metadata",
    "groups": "JoinGroup",
    "lag": "SyncGroup",
    "api-versions": "ApiVersions",
    "diff": "ApiVersions",
}
"""APIs whose exchanges are read by commands that do not read all exchanges."""


def _number_of(command: str) -> int:
    """Return the number of an exchange that a command reads."""
    wanted = _LOOKED_AT[command]
    for line in run("read", "--json", SAMPLE).stdout.splitlines():
        told = json.loads(line)
        if told["api"] == wanted and (command != "follow" or told["client_id"] == "pump"):
            return int(told["number"])
    raise AssertionError(command)


@pytest.mark.slow
def test_a_fault_of_decoding_is_told_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ExchangeReader._finish

    def fail(reader: ExchangeReader, made: Exchange) -> None:
        if made.number == 17:
            raise RecursionError("planted")
        plain(reader, made)

    monkeypatch.setattr(ExchangeReader, "_finish", fail)
    result = run("read", SAMPLE)
    assert result.exit_code == 3
    assert "exchange 17: decoding failed: RecursionError: planted" in result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 403
    assert "an internal error in kproxy: decoding failed: RecursionError: planted" in lines[17]
    # errors are reported even if several processes decode
    told = run("read", "--json", SAMPLE)
    assert told.exit_code == 3
    assert "exchange 17: decoding failed: RecursionError: planted" in told.stderr
    shape = [json.loads(line) for line in told.stdout.splitlines()]
    assert len(shape) == 402
    assert shape[16]["request"] is shape[16]["response"] is None
    assert shape[16]["flags"] == ["problem"]
    one = run("read", "--exchange", "17", SAMPLE)
    assert one.exit_code == 3
    assert "exchange 17: decoding failed" in one.stderr


def test_a_filter_that_fails_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    import captures.filters.bodies as bodies

    compiled, asked = bodies.compile_bodies, list[int]()

    def compile_failing(bound: Any) -> Callable[..., bool]:
        match = compiled(bound)

        def fail(exchange: Exchange, context: Any) -> bool:
            asked.append(exchange.number)
            if len(asked) == 1:
                raise TypeError("planted")
            return match(exchange, context)

        return fail

    monkeypatch.setattr("captures.filters.filter.bodies.compile_bodies", compile_failing)
    result = run("read", "-Y", "topic == r2-java_eager_range", SAMPLE)
    assert f"exchange {asked[0]}: the filter failed: TypeError: planted" in result.stderr
    assert result.exit_code == 3
    assert len(result.stdout.splitlines()) > 100


# ---------------------------------------------------------------- the diagnosis
@pytest.mark.slow
def test_a_rule_that_fails_is_shown_the_next_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def add(rule: RefusedByKafka4, exchange: Exchange) -> None:
        if exchange.number <= 30:
            raise KeyError("planted")
        seen.append(exchange.number)

    monkeypatch.setattr(RefusedByKafka4, "add", add)
    monkeypatch.setattr(RefusedByKafka4, "deciding", lambda *_: None)  # it is passed all of them
    expected = json.loads(run("diagnose", "--json", "--skip", "refused_by_kafka_4", SAMPLE).stdout)
    seen.clear()
    result = run("diagnose", "--json", SAMPLE)
    assert result.exit_code == 3
    assert seen == list(range(31, 403))
    assert "exchange 1: the rule refused_by_kafka_4 failed: KeyError: 'planted'" in result.stderr
    assert "these are 30 internal errors in kproxy (25 of them are not listed)" in result.stderr
    told = json.loads(result.stdout)
    assert told["complete"] is False
    assert told["findings"] == expected["findings"]
    assert {
        "rule": "refused_by_kafka_4",
        "why": "it failed 30 times, because of an internal error in kproxy",
    } in told["blind"]


@pytest.mark.slow
def test_a_rule_that_cannot_tell_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def findings(rule: RefusedByKafka4) -> Iterator[Any]:
        raise KeyError("planted")
        yield

    expected = run("diagnose", SAMPLE).stdout
    monkeypatch.setattr(RefusedByKafka4, "findings", findings)
    result = run("diagnose", SAMPLE)
    assert result.exit_code == 3
    assert "kproxy: the rule refused_by_kafka_4 failed: KeyError: 'planted'" in result.stderr
    assert expected.split("Not judged")[0].splitlines()[:20] == result.stdout.splitlines()[:20]
    assert "refused_by_kafka_4: it failed once, because of an internal error in kproxy" in " ".join(
        result.stdout.split()
    )


@pytest.mark.slow
def test_grave_findings_go_before_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "captures.analysis.groups.history.GroupHistories.add")
    assert run("diagnose", "--fail-on", "info", SAMPLE).exit_code == 4


def test_one_group_that_cannot_be_told_ends_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from captures.analysis.groups.history import GroupHistories

    told = GroupHistories._timeline

    def fail(histories: GroupHistories, calls: Any, now: int) -> Any:
        if calls.group == "bad":
            raise AssertionError("planted")
        return told(histories, calls, now)

    monkeypatch.setattr(GroupHistories, "_timeline", fail)
    recording = Recording()
    for group in ("bad", "good"):
        beat = {"group_id": group, "generation_id": 1, "member_id": "m"}
        recording.connection(group).exchange(1, 12, 0, beat, {"error_code": 0})
    result = run("groups", recording.write(tmp_path / "groups.pcap"))
    assert result.exit_code == 3
    assert "the history of group bad failed: AssertionError: planted" in result.stderr
    assert "good" in result.stdout


# ---------------------------------------------------------------- exports and tables
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "mmd"])
def test_exports_go_on(form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def flags(exchange: Exchange) -> list[str]:
        if exchange.number == 17:
            raise KeyError("planted")
        return []

    monkeypatch.setattr(Exchange, "flags", property(flags))
    if form == "mmd":
        plain = mermaid.exchange_step

        def step(exchange: Exchange, *more: Any) -> Any:
            flags(exchange)
            return plain(exchange, *more)

        monkeypatch.setattr(mermaid, "exchange_step", step)
    out = tmp_path / f"out.{form}"
    result = run("export", "-o", out, SAMPLE)
    assert result.exit_code == 3
    assert "exchange 17: " in result.stderr
    assert "failed: KeyError: 'planted'" in result.stderr
    assert out.stat().st_size > 1_000
    if form == "parquet":
        table = ds.dataset(out).to_table().to_pylist()
        assert len(table) == 402
        assert table[16]["flags"] is None
        assert table[17]["flags"] == []
    elif form != "mmd":
        assert len(out.read_text().splitlines()) == 401 + (form == "csv")


@pytest.mark.slow
def test_a_row_that_cannot_be_made_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, "captures.tables.partition_rows.PartitionRows.of", 3)
    plant(monkeypatch, "captures.analysis.connection_stats.ConnectionStats.add", 4)
    plant(monkeypatch, "captures.analysis.negotiation.Negotiation.learn", 7)
    monkeypatch.setattr(RefusedByKafka4, "add", failing(at(6), RefusedByKafka4.add))
    result = tables_of(SAMPLE, tmp_path / "t")
    assert result.exit_code == 3
    for number, table in ((3, "topic_partitions"), (4, "connections"), (7, "client_versions")):
        assert (
            f"exchange {number} of {SAMPLE}: the table {table} failed: KeyError: 'planted'" in result.stderr
        )
    assert f"exchange 6 of {SAMPLE}: the rule refused_by_kafka_4 failed" in result.stderr
    assert len(rows_of(tmp_path / "t", "exchanges")) == 402
    assert len(rows_of(tmp_path / "t", "connections")) > 5
    told = json.loads(tables_of(SAMPLE, tmp_path / "u", "--json").stdout)
    assert told["complete"] is False
    assert told["faults"]["count"] == 4
    assert f"exchange 3 of {SAMPLE}: the table topic_partitions failed" in told["faults"]["told"][0]


def test_a_value_that_its_column_does_not_hold_is_null(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from captures.tables.partition_rows import PartitionRows

    of, changed = PartitionRows.of, list[int]()

    def too_large(rows: PartitionRows, exchange: Exchange) -> Any:
        said = of(rows, exchange)
        if said.totals is None or changed:
            return said
        changed.append(exchange.number)
        return said._replace(totals=said.totals._replace(records=1 << 70))

    monkeypatch.setattr(PartitionRows, "of", too_large)
    result = tables_of(SAMPLE, tmp_path / "t", "--table", "exchanges")
    assert result.exit_code == 3
    (number,) = changed
    assert f"exchange {number} of {SAMPLE}: the table exchanges, column records failed: " in result.stderr
    rows = {row["number"]: row for row in rows_of(tmp_path / "t", "exchanges")}
    assert len(rows) == 402
    assert rows[number]["records"] is None
    assert rows[number]["batches"] is not None


# ---------------------------------------------------------------- results at the end
def broken(*_: Any, **__: Any) -> Any:
    raise KeyError("planted")


RESULTS: list[tuple[list[str], str, str]] = [
    (["stats"], "kproxy.text.stats.topic_table", "the table topic"),
    (["stats", "--json"], "captures.analysis.topic_stats.TopicStats.result", "the table topic"),
    (["lag"], "captures.analysis.lag.LagStats.result", "telling how far groups are behind"),
    (["clients"], "captures.analysis.clients.inventory.Clients._describe", "describing a client"),
    (["follow", "pump"], "captures.analysis.client_trace.log.PartyLog.result", "telling what it did"),
    (
        ["journey", "--topic", "x"],
        "captures.analysis.journey.journeys.Journeys.result",
        "telling the way of records",
    ),
    (
        ["api-versions"],
        "captures.analysis.negotiation.Negotiation._client",
        "telling the versions of a client",
    ),
    (
        ["compat", "--broker-version", "4.3"],
        "captures.analysis.compat.Compatibility._client",
        "judging a client",
    ),
    (
        ["compat", "--client-version", "4.0"],
        "captures.analysis.compat.ClientCompatibility._broker",
        "judging",
    ),
    (["diff", str(SAMPLE)], "captures.analysis.comparison.compare.rate_differences", "comparing rates"),
    (
        ["groups"],
        "captures.analysis.groups.history.fill_effects",
        "the history of group gr2-java_eager_range",
    ),
    (["read", "--exchange", "17"], "kproxy.text.tree.traced_exchange", "exchange 17: showing it"),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("arguments", "where", "doing"), RESULTS, ids=[" ".join(each[0]) for each in RESULTS]
)
def test_a_part_of_the_result_is_left_out(
    arguments: list[str], where: str, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, _yielding if where.endswith("traced_exchange") else broken)
    result = run(*arguments, SAMPLE)
    assert result.exit_code == 3
    assert doing in result.stderr
    assert "failed: KeyError: 'planted'" in result.stderr
    assert "Please report" in result.stderr


def _yielding(*_: Any) -> Iterator[str]:
    yield "the first line"
    raise KeyError("planted")


def test_tables_of_figures_besides_the_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.text.stats.topic_table", broken)
    said = run("stats", SAMPLE).stdout
    assert "APIs" in said
    assert "Connections" in said
    assert "\nTopics" not in said


def test_a_connection_that_cannot_be_read_on_ends_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recording = Recording()
    for number in range(3):
        app = recording.connection(f"app{number}")
        if number:
            # without its SYN it takes the slow path
            del app.conversation.records[:3]
        for at in (1, 5, 9):
            app.exchange(at, 3, 1, {"topics": None}, {"brokers": [], "controller_id": 1, "topics": []})
    path = recording.write(tmp_path / "three.pcap")
    assert len(run("read", path).stdout.splitlines()) == 10
    receive = SingleConnection._receive

    def fail(single: SingleConnection, piece: Any) -> None:
        if single.connection == 1:
            raise IndexError("planted")
        receive(single, piece)

    monkeypatch.setattr(SingleConnection, "_receive", fail)
    result = run("read", path)
    assert result.exit_code == 3
    assert (
        "reading the connection 10.0.0.1:40001 > 10.0.0.2:9092 on failed: IndexError: planted"
        in result.stderr
    )
    assert len(result.stdout.splitlines()) == 7
