"""Rows of exchanges agree with ``read --json`` and ``stats`` for the same captures."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from captures.analysis.topic_stats import TopicStats, place_of
from captures.exchanges import ExchangeReader
from captures.exchanges.columns import NO_VALUE, ExchangeColumns
from captures.json_objects import to_json
from captures.meaning import errors_in
from captures.tables.columns import Needs
from captures.tables.exchange_rows import MANY, ExchangeTables, header_batch
from captures.tables.schema import PER_EXCHANGE, TABLES
from dissectors.frames import decode_request, decode_response
from dissectors.sides import SIDES
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.tables.kit import VARIED, exchanges_of, gathered, reopened, rows, rows_of

ALL_COLUMNS = {"exchanges": [column.name for column in TABLES["exchanges"].columns]}

every_capture = pytest.mark.parametrize("path", VARIED, ids=lambda path: str(path.name).partition(".")[0])

PRODUCE, FETCH_SNAPSHOT = 0, 59
SWEEPS = [DATA / "36_k251_sweep.pcap.zst", DATA / "21_k430_share_group.pcap.zst"]


def shown(path: Path) -> list[dict[str, Any]]:
    """What ``read --json`` prints."""
    return [json.loads(msgspec.json.encode(to_json(exchange))) for exchange in ExchangeReader(reopened(path))]


@pytest.mark.slow
@every_capture
def test_exchanges_are_what_read_prints(path: Path) -> None:
    mine, theirs = rows_of(path, "exchanges", ALL_COLUMNS), shown(path)
    exchanges, _ = exchanges_of(path)
    inside = {"number", "time", "flags", "problems", "request", "response"}
    same = [name for name in mine[0] if name in theirs[0] and name not in inside]
    assert len(same) == 17
    for row, shape, exchange in zip(mine, theirs, exchanges, strict=True):
        assert {name: row[name] for name in same} == {name: shape[name] for name in same}
        assert row["run"] == 3
        assert row["number"] == exchange.number
        assert row["time_ns"] == exchange.time
        assert row["time"].timestamp() == pytest.approx(exchange.time / 1e9, abs=1e-6)
        assert row["answered"] == bool(shape["response_size"])
        # what is wrong inside record batches is not looked for
        deep = len(shape["problems"]) > len(row["problems"])
        assert row["problems"] == shape["problems"][: len(row["problems"])]
        assert [*row["flags"], *(["problem"] if deep and "problem" not in row["flags"] else [])] == shape[
            "flags"
        ]
        for side in SIDES:
            assert (None if row[side] is None else json.loads(row[side])) == shape[side]


@pytest.mark.sample(2)
@every_capture
def test_exchanges_name_what_columns_name(path: Path) -> None:
    mine = rows_of(path, "exchanges")
    exchanges, reader = exchanges_of(path)
    capture = reader.capture
    columns = ExchangeColumns(capture, capture.table.order(), names=reader.knowledge.topic_name)
    columns.prepare(["topics", "groups", "records", "throttle_time_ms", "error_codes"])
    for name in ("topics", "groups"):
        found, texts = columns.ragged(name), columns.texts(name)
        named = [
            [texts[code] for code in found.values[begin:end]]
            for begin, end in zip(found.offsets[:-1], found.offsets[1:], strict=True)
        ]
        assert [row[name] for row in mine] == named
    # a piece of a snapshot may begin inside a batch, which columns do not know
    ours = [row["records"] for row in mine if row["api_key"] != FETCH_SNAPSHOT]
    for name, values in (("records", ours), ("throttle_time_ms", [row["throttle_time_ms"] for row in mine])):
        theirs = [
            None if value == NO_VALUE else value
            for value, row in zip(columns.flat(name).tolist(), mine, strict=True)
            if name != "records" or row["api_key"] != FETCH_SNAPSHOT
        ]
        assert values == theirs
    counts = np.diff(columns.ragged("error_codes").offsets).tolist()
    assert [row["error_count"] for row in mine] == counts
    for row, exchange in zip(mine, exchanges, strict=True):
        assert row["expected_errors"] == list(dict.fromkeys(each.name for each in exchange.expected))


@every_capture
def test_partitions_add_up_to_what_stats_tell(path: Path) -> None:
    exchanges, reader = exchanges_of(path)
    stats = TopicStats(reader.knowledge.topic_name)
    for exchange in exchanges:
        stats.add(exchange)
    mine: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    errors: Counter[tuple[str, int | None, str]] = Counter()
    for row in rows_of(path, "topic_partitions"):
        flow = {0: "produced", 1: "fetched" if row["replica_id"] is None else "replicated", 78: "fetched"}
        if row["api_key"] in flow and row["bytes"]:
            place = row["topic"], row["partition"], flow[row["api_key"]]
            for name in ("bytes", "batches", "records", "uncounted", "markers"):
                mine[place][name] += row[name]
        if row["error"] and not row["expected"]:
            errors[row["topic"], row["partition"], row["error"]] += 1
    theirs = {
        (topic.topic, each.partition, name): Counter(
            {
                "bytes": flow.bytes,
                "batches": flow.batches,
                "records": flow.records,
                "uncounted": flow.uncounted,
                "markers": flow.markers,
            }
        )
        for topic in stats.result()
        for each in topic.partitions
        for name, flow in zip(("produced", "fetched", "replicated"), each.flows, strict=True)
        if flow.bytes
    }
    assert mine == theirs
    told: Counter[tuple[str, int | None, str]] = Counter()
    for exchange in exchanges:
        expected = {error.path for error in exchange.expected}
        for error in exchange.errors:
            topic, partition = place_of(error.holders)
            if topic is not None and partition is not None and error.path not in expected:
                told[reader.knowledge.topic_name(topic) or topic, partition, error.name] += 1
    assert errors == told


@pytest.mark.sample(1)
@every_capture
def test_batches_and_records_are_what_read_prints(path: Path) -> None:
    batches = [
        (exchange["number"], side, batch)
        for exchange in shown(path)
        for side in SIDES
        for batch in record_batches(exchange[side])
    ]
    mine = rows_of(path, "record_batches")
    assert len(mine) == len(batches)
    for row, (number, side, batch) in zip(mine, batches, strict=True):
        assert (row["number"], row["side"]) == (number, side)
        old = row["magic"] < 2 and row["codec"] != "none"
        for name in set(row) & set(batch):
            if old and name in ("base_offset", "count"):  # what only its inside tells is not looked at
                assert row[name] is None
            else:
                assert row[name] == batch[name], name
        assert row["log_offset"] is None or row["log_offset"] >= 0
    records = [(number, side, record) for number, side, batch in batches for record in batch["records"]]
    found = rows_of(path, "records")
    assert len(found) == len(records)
    for row, (number, side, record) in zip(found, records, strict=True):
        assert (row["number"], row["side"]) == (number, side)
        assert (row["offset"], row["timestamp"]) == (record["offset"], record["timestamp"])
        encoded = json.loads(msgspec.json.encode([row["key"], row["value"], row["headers"]]))
        assert encoded == [record["key"], record["value"], record["headers"]]
        assert row["key_size"] == (None if row["key"] is None else len(row["key"]))


def record_batches(body: Any) -> list[dict[str, Any]]:
    """The batches in a body as ``read --json`` prints it."""
    if isinstance(body, list):
        return [batch for each in body for batch in record_batches(each)]
    if not isinstance(body, dict):
        return []
    if "magic" in body and "records" in body:
        return [body]
    return [batch for value in body.values() for batch in record_batches(value)]


def test_what_was_produced_has_the_offsets_that_are_fetched() -> None:
    """The same batch, seen on its way to the broker and back, is at the same place of the log."""
    sent: dict[tuple[Any, ...], int] = {}
    met = 0
    for row in rows_of(SAMPLE, "records"):
        what = row["topic"], row["partition"], row["value"]
        if row["api_key"] == PRODUCE:
            sent[what] = row["log_offset"]
        elif what in sent:
            met += 1
            assert row["log_offset"] == row["offset"] == sent[what]
    assert met > 20
    partitions = {
        (row["number"], row["partition"]): row
        for row in rows_of(SAMPLE, "topic_partitions")
        if row["api_key"] == PRODUCE
    }
    for row in rows_of(SAMPLE, "record_batches"):
        if row["api_key"] == PRODUCE:
            whole = partitions[row["number"], row["partition"]]
            assert whole["first_offset"] == row["log_offset"]
            assert whole["last_offset"] == row["log_offset"] + row["count"] - 1


def test_tagged_fields_come_and_go() -> None:
    """Partitions of one answer may have different fields: a leader for one, where the log parts for another."""
    told = {"partition_index": 0, "error_code": 6, "high_watermark": 7, "records": None}
    body = {
        "throttle_time_ms": 0,
        "responses": [
            {
                "topic": "orders",
                "partitions": [
                    {**told, "diverging_epoch": {"epoch": 3, "end_offset": 5}},
                    {**told, "partition_index": 1, "current_leader": {"leader_id": 4, "leader_epoch": 9}},
                    {"partition_index": 2, "error_code": 0},
                    None,
                    {},
                ],
            }
        ],
    }
    _, reader = exchanges_of(SAMPLE)
    fetch = next(exchange for exchange in exchanges_of(SAMPLE)[0] if exchange.api == "Fetch")
    assert fetch.response is not None
    response = replace(fetch.response, version=12, value=body)
    errors = errors_in(1, 12, body)
    made = gathered(
        [replace(fetch, request=None, response=response, errors=errors, expected=errors[1:])], reader
    )
    found = rows(made["topic_partitions"])
    names = ("partition", "error", "expected", "high_watermark", "leader_id", "leader_epoch", "bytes")
    assert [tuple(row[name] for name in names) for row in found] == [
        (0, "NOT_LEADER_OR_FOLLOWER", False, 7, None, None, 0),
        (1, "NOT_LEADER_OR_FOLLOWER", True, 7, 4, 9, 0),
        (2, None, None, None, None, None, None),
    ]
    assert [row["error_count"] for row in rows(made["exchanges"])] == [1]


@pytest.mark.parametrize("path", [SAMPLE, *SWEEPS], ids=lambda path: str(path.name).partition(".")[0])
def test_messages_that_were_cut_off_give_what_they_hold(path: Path) -> None:
    chance = Random(7)
    exchanges, reader = exchanges_of(path)
    tables = ExchangeTables(PER_EXCHANGE, names=reader.knowledge.topic_name, run=0)
    met = 0
    for exchange in exchanges[:300]:
        request, response = exchange.request, exchange.response
        if request is None or response is None or exchange.api_key is None or exchange.version is None:
            continue
        cut = exchange
        if chance.random() < 0.5:
            some = request.raw[: chance.randrange(len(request.raw))]
            cut = replace(cut, request=decode_request(some, complete=False))
        else:
            some = response.raw[: chance.randrange(len(response.raw))]
            answer = decode_response(some, exchange.api_key, exchange.version, complete=False)
            errors = errors_in(exchange.api_key, answer.version or 0, answer.value)
            cut = replace(cut, response=answer, errors=errors, expected=[])
        tables.add(cut)
        met += 1
    assert met > 100
    assert len(rows(tables.take()["exchanges"])) == met


def test_commits_name_their_group() -> None:
    committed = [row for row in rows_of(SAMPLE, "topic_partitions") if row["api"] == "OffsetCommit"]
    assert committed
    assert all(row["group"] and row["committed_offset"] >= 0 and row["error_code"] == 0 for row in committed)


# ---------------------------------------------------------------- how they are made
@every_capture
def test_headers_alone_tell_the_same(path: Path) -> None:
    exchanges, reader = exchanges_of(path)
    order = reader.capture.table.order()
    connections = reader.capture.table.column("connection")[order]
    made = header_batch(reader.capture, order, np.arange(len(order)) + 1, connections, 3)
    assert made.equals(gathered(exchanges, reader, ["exchanges"])["exchanges"].select(made.schema.names))
    assert {column.name for column in TABLES["exchanges"].columns if column.needs is Needs.HEADER} == set(
        made.schema.names
    )


def test_headers_refuse_what_needs_bodies() -> None:
    _, reader = exchanges_of(SAMPLE)
    rows_ = np.arange(3)
    made = header_batch(reader.capture, rows_, rows_ + 7, rows_ + 20, 0, ["connection", "number"])
    assert rows(made) == [{"number": 7 + each, "connection": 20 + each} for each in range(3)]
    with pytest.raises(ValueError, match="errors need decoding"):
        header_batch(reader.capture, rows_, rows_, rows_, 0, ["number", "errors"])


@pytest.mark.slow
def test_rows_may_be_taken_at_any_time() -> None:
    exchanges, reader = exchanges_of(SAMPLE)
    whole = gathered(exchanges, reader)
    tables = ExchangeTables(PER_EXCHANGE, names=reader.knowledge.topic_name, run=3)
    taken: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    for number, exchange in enumerate(exchanges):
        tables.add(exchange)
        assert len(tables) > 0
        if not number % 7:
            for name, batch in tables.take().items():
                taken[name].append(batch)
            assert len(tables) == 0
            assert tables.take() == {}
    for name, batch in tables.take().items():
        taken[name].append(batch)
    assert {name: pa.Table.from_batches(batches) for name, batches in taken.items()} == {
        name: pa.Table.from_batches([batch]) for name, batch in whole.items()
    }


def test_it_says_when_it_is_time_to_take_rows() -> None:
    exchanges, reader = exchanges_of(SAMPLE)
    tables = ExchangeTables(["exchanges"], names=reader.knowledge.topic_name, run=0)
    for exchange in (exchanges * (MANY // len(exchanges) + 1))[: MANY - 1]:
        tables.add(exchange)
    assert not tables.full
    tables.add(exchanges[0])
    assert tables.full


def test_needs() -> None:
    def needed(*chosen: str, columns: list[str] | None = None) -> Needs:
        given = {"exchanges": columns} if columns else None
        return ExchangeTables(chosen, names=lambda _: None, run=0, columns=given).needs

    assert needed() is Needs.HEADER
    assert needed("findings") is Needs.HEADER
    assert needed("exchanges") is Needs.BODIES
    assert needed("exchanges", columns=["number", "time", "api"]) is Needs.HEADER
    assert needed("exchanges", "record_batches", columns=["number"]) is Needs.BODIES
    assert needed("exchanges", columns=["response"]) is Needs.BODIES


def test_few_columns() -> None:
    exchanges, reader = exchanges_of(SAMPLE)
    few = {"exchanges": ["wait_reason"], "topic_partitions": ["partition", "number"]}
    made = gathered(exchanges, reader, few, few)
    assert made["exchanges"].schema.names == ["wait_reason"]
    assert made["topic_partitions"].schema.names == ["partition", "number"]
    only = gathered(exchanges, reader, ["exchanges"], {"exchanges": ["run"]})["exchanges"]
    assert rows(only)[:2] == [{"run": 3}] * 2


def test_exchanges_that_were_made_ready_to_be_shown_are_refused() -> None:
    tables = ExchangeTables(["topic_partitions"], names=lambda _: None, run=0)
    produce = next(exchange for exchange in ExchangeReader(reopened(SAMPLE)) if exchange.api_key == PRODUCE)
    with pytest.raises(ValueError, match="annotate=False"):
        tables.add(produce)


def test_bodies_as_text_leave_the_exchange_as_it_was() -> None:
    reader = ExchangeReader(reopened(SAMPLE), annotate=False)
    produce = next(exchange for exchange in reader if exchange.api_key == PRODUCE)
    assert produce.request is not None
    before = msgspec.json.encode(produce.request.value)
    gathered([produce], reader, ["exchanges"], ALL_COLUMNS)
    assert msgspec.json.encode(produce.request.value) == before
