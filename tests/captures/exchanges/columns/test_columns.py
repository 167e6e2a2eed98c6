"""Columns by projection against the full decode, on every recorded capture.

The expected values are computed here from fully decoded bodies by :mod:`captures.meaning`, which is tested against the
reference elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest

from captures.exchanges import ExchangeReader, open_capture
from captures.exchanges.columns import COLUMNS, NO_VALUE, ExchangeColumns, RaggedArray
from captures.exchanges.columns.partition_builders import Flows, Offsets
from captures.meaning import groups_in, members_in, topics_in
from captures.meaning.exchange import rows
from captures.meaning.payload import payload, record_fields, record_paths
from captures.meaning.topic_partitions import index, partitions, topic
from dissectors.api_keys import ASKED_BY_REPLICAS, ApiKey
from dissectors.records import record_set
from dissectors.sides import SIDES
from tests.captures.recorded import CAPTURES, FOLDER

TABLES = {**Flows.TABLES, **Offsets.TABLES}
COMPARED = {name for name in COLUMNS if name.partition("_")[0] not in TABLES} - {"partition_topics"} | {
    *TABLES
}


def of_full_decode(capture):
    """Return the value of every exchange for each column, by row of the table."""
    values = [{} for _ in range(len(capture.table))]
    reader = ExchangeReader(capture, annotate=False, summary=False)
    exchanges = list(reader)
    software = {}
    for x in exchanges:
        if x.api_key == 18 and x.request and x.request.value and x.request.value.get("client_software_name"):
            software[x.connection] = x.request.value
    for x in exchanges:
        told = software.get(x.connection, {})
        expected = {error.path for error in x.expected}
        topics, groups, members = {}, {}, {}
        counted = NO_VALUE, NO_VALUE, NO_VALUE
        for side in SIDES:
            body = getattr(x, side)
            if x.api_key is None or body is None or body.version is None or not body.value:
                continue
            key, version, value = x.api_key, body.version, body.value
            for name, numbers in topics_in(key, version, value, reader.knowledge.topic_name, side).items():
                topics.setdefault(name, {}).update(dict.fromkeys(numbers))
            groups.update(dict.fromkeys(groups_in(key, version, value, side)))
            members.update(dict.fromkeys(members_in(key, version, value, side)))
            if record_paths(key, version, side):
                counted = of_batches(list(record_fields(key, version, value, side)))
        asked = (x.request.value if x.request and x.api_key is not None else None) or {}
        state = asked.get("replica_state") or asked
        response = (x.response.value if x.response and x.api_key is not None else None) or {}
        throttle = response.get("throttle_time_ms")  # also None if the message was cut off before it
        values[x.row] = {
            "time": x.time,
            "latency": NO_VALUE if x.latency is None else x.latency,
            "client": x.client,
            "broker": x.broker,
            "client_id": x.client_id,
            "software_name": told.get("client_software_name"),
            "software_version": told.get("client_software_version"),
            "wait": x.wait,
            "wait_reason": x.wait_reason or None,
            "excess": NO_VALUE if x.latency is None else x.latency - x.wait,
            "error_codes": [error.code for error in x.errors if error.path not in expected],
            "expected_error_codes": [error.code for error in x.expected],
            "throttle_time_ms": NO_VALUE if throttle is None else throttle,
            "topics": sorted(topics),
            "partitions": sorted((topic, number) for topic, numbers in topics.items() for number in numbers),
            "groups": list(groups),
            "members": list(members),
            **of_calls(x, asked, response),
            "records": counted[0],
            "batches": counted[1],
            "record_bytes": counted[2],
            "flow": of_flows(x, reader.knowledge.topic_name),
            **of_offsets(x, reader.knowledge.topic_name),
            "undecoded": sum(
                1 << ("request", "response").index(side) for side in {side for side, _ in x.problems}
            )
            * (x.api_key is not None),
            "guessed": int(any(body is not None and bool(body.guess) for body in (x.request, x.response))),
            "intervened": x.intervened + x.interventions.has_injected_errors,
            "response_told": int(bool(response)),
            "replica_id": state.get("replica_id", -1)
            if asked and x.api_key in ASKED_BY_REPLICAS
            else NO_VALUE,
            **of_headers(x),
            "acks": asked.get("acks", -1) if asked and x.api_key == ApiKey.PRODUCE else NO_VALUE,
        }
    return values


def of_calls(x, request, response):
    """The calls of a member to its coordinator."""
    found = {"member": None, "call": None, "session_timeout_ms": NO_VALUE}
    if x.api_key not in (8, 11, 12, 13, 14, 68, 76, 88):
        return found
    found["member"] = request.get("member_id") or response.get("member_id") or None
    found["session_timeout_ms"] = request.get("session_timeout_ms", NO_VALUE)
    whole = request and response and not (x.errors or x.problems or x.request.guess or x.response.guess)
    if x.api_key not in (11, 13, 14) and whole:
        request, response = (
            {name: value for name, value in body.items() if name not in ("throttle_time_ms", "topics")}
            for body in (request, response)
        )
        found["call"] = repr((x.api_key, request, {} if x.api_key == 8 else response))
    return found


def of_flows(x, names):
    """Topic, partition, bytes, batches, records, uncounted and markers in an exchange."""
    bodies = [(body.value if body else None) or {} for body in (x.request, x.response)]
    found = []
    if x.api_key in (1, 78):
        for holder in rows(bodies[0], "topics"):
            found += [
                (topic(holder, lambda uuid: names(uuid) or uuid), where, 0, 0, 0, 0, 0, -1)
                for where in partitions(holder)
            ]
    carried = {0: (bodies[0], "topic_data", "partition_data"), 1: (bodies[1], "responses", "partitions")}
    body, outer, inner = carried.get(0 if x.api_key == 0 else 1 if x.api_key in (1, 78) else 2, ({}, "", ""))
    for holder in rows(body, outer):
        for partition in rows(holder, inner):
            if index(partition) is not None and topic(holder, lambda uuid: names(uuid) or uuid) != "?":
                held = payload([partition.get("records")])
                codec = codec_of(partition.get("records"))
                figures = held.size, held.batches, held.records, held.uncounted, held.markers, codec
                found.append((topic(holder, lambda uuid: names(uuid) or uuid), index(partition), *figures))
    return found


def codec_of(data):
    """The codec of a records field if all its batches are whole, of magic 2, and use the same one, else -1."""
    batches = record_set(data or b"").batches
    codecs = {batch.codec for batch in batches if batch.magic == 2}
    whole = sum(batch.size for batch in batches if batch.magic == 2) == len(data or b"")
    return int(codecs.pop()) if len(codecs) == 1 and whole else -1


def of_offsets(x, names):
    """The position of an exchange in each partition, and its session."""
    request, response = (
        (body.value if body and x.api_key in (0, 1, 8) else None) or {} for body in (x.request, x.response)
    )

    def name(uuid):
        return names(uuid) or uuid

    def places(body, outer, inner):
        for holder in rows(body, outer):
            for part in rows(holder, inner):
                if index(part) is not None and topic(holder, name) != "?":
                    yield topic(holder, name), index(part), part

    asked, told = [], []
    for outer, inner in (("topic_data", "partition_data"), ("topics", "partitions")):
        for name_, at, part in places(request, outer, inner):
            batches = record_set(part.get("records") or b"").batches
            newest = batches[-1].last_offset + 1 if batches and batches[-1].magic == 2 else -1
            asked.append((name_, at, part.get("fetch_offset", part.get("committed_offset", newest))))
    for outer, inner in (
        ("responses", "partition_responses"),
        ("responses", "partitions"),
        ("topics", "partitions"),
    ):
        for name_, at, part in places(response, outer, inner):
            offset = part.get("base_offset", part.get("high_watermark", -1))
            batches = record_set(part.get("records") or b"").batches
            reached = next((each.last_offset + 1 for each in reversed(batches) if not each.control), -1)
            error, stable = part.get("error_code", NO_VALUE), part.get("last_stable_offset", -1)
            told.append((name_, at, offset, error, stable, reached))
    forgotten = [
        (topic(holder, name), at)
        for holder in rows(request, "forgotten_topics_data")
        for at in holder.get("partitions") or ()
    ]
    fetch = x.api_key == 1
    return {
        "asked": asked,
        "answered": told,
        "forgotten": forgotten,
        "session_epoch": request.get("session_epoch", NO_VALUE) if fetch else NO_VALUE,
        "session_id": request.get("session_id", NO_VALUE) if fetch else NO_VALUE,
        "session_given": response.get("session_id", NO_VALUE) if fetch else NO_VALUE,
    }


def of_headers(x):
    """The headers of batches, and their partitions' other fields."""
    request, response = ((body.value if body else None) or {} for body in (x.request, x.response))
    if x.api_key not in (0, 1, 78):
        request = response = {}
    partitions = [part for holder in rows(response, "responses") for part in rows(holder, "partitions")]
    sent = [part for holder in rows(request, "topic_data") for part in rows(holder, "partition_data")]
    fields = [part.get("records") for part in (sent if x.api_key == 0 else partitions)]
    batches = [batch for data in fields if data for batch in record_set(data)]
    times = [batch.max_timestamp for batch in batches if batch.max_timestamp >= 0]
    sizes = [
        part["partition_max_bytes"]
        for holder in rows(request, "topics")
        for part in rows(holder, "partitions")
        if part.get("partition_max_bytes", 0) > 0
    ]
    names = request.get("transactional_id") or request.get("v3_and_below_transactional_id")
    allowed = [size for size in (request.get("max_bytes", 0), *sizes) if size > 0]
    return {
        "batch_traits": any(batch.magic < 2 for batch in batches)
        + 2 * any(batch.transactional for batch in batches)
        + 4 * any(not batch.crc_valid for batch in batches),
        "batch_earliest": min(times, default=NO_VALUE),
        "batch_latest": max(times, default=NO_VALUE),
        "transactional": int(bool(names)) if x.api_key == 0 else 0,
        "held_back": int(
            any(
                0 <= part.get("last_stable_offset", -1) < part.get("high_watermark", -1)
                for part in partitions
            )
        ),
        "min_bytes": request.get("min_bytes", -1) if x.api_key == 1 and x.request else NO_VALUE,
        "max_bytes": min(allowed, default=NO_VALUE) if x.api_key == 1 else NO_VALUE,
    }


def of_batches(fields):
    """Records, batches and bytes, counted as in the summary."""
    found = payload(fields)
    partial = 0
    for data in fields:
        if data:
            read = record_set(data)
            partial += len(data) - sum(batch.size for batch in read)
    return found.records, found.batches, found.size - partial


def by_row(columns, name):
    """A column as plain values, with texts in place of codes."""
    if name in TABLES:
        each = [lists(columns.ragged(f"{name}_{part}")) for part in TABLES[name]]
        texts = columns.texts(f"{name}_topics")
        return [
            [(texts[code], *numbers) for code, *numbers in zip(*row, strict=True)]
            for row in zip(*each, strict=True)
        ]
    if name == "partitions":
        topics = columns.ragged("partition_topics")
        texts = columns.texts("partition_topics")
        return [
            sorted((texts[code], number) for code, number in zip(codes, numbers, strict=True))
            for codes, numbers in zip(lists(topics), lists(columns.ragged(name)), strict=True)
        ]
    column, kind = columns[name], COLUMNS[name]
    assert (column.values if kind.ragged else column).dtype == kind.dtype, name
    if not kind.ragged:
        assert len(column) == len(columns)
        if not kind.coded:
            return column.tolist()
        texts = columns.texts(name)
        return [texts[code] if code >= 0 else None for code in column.tolist()]
    assert isinstance(column, RaggedArray)
    found = lists(column)
    if kind.coded:
        texts = columns.texts(name)
        found = [[texts[code] for code in codes] for codes in found]
    return [sorted(row) for row in found] if name == "topics" else found


def lists(ragged):
    assert len(ragged.offsets) == len(ragged) + 1
    return [ragged[row].tolist() for row in range(len(ragged))]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", CAPTURES)
def test_columns_are_what_the_full_decode_gives(name):
    capture = open_capture(str(FOLDER / name))
    capture.read()
    expected = of_full_decode(capture)
    columns = ExchangeColumns(capture)
    columns.prepare(COLUMNS)
    for column in COMPARED:
        assert by_row(columns, column) == [row[column] for row in expected], column


@pytest.fixture(scope="module")
def capture():
    found = open_capture(str(FOLDER / "21_k430_share_group.pcap.zst"))
    found.read()
    return found


@pytest.mark.slow
def test_rows_in_any_order_have_the_same_columns(capture):
    rows = np.random.default_rng(3).permutation(len(capture.table))
    shuffled, ordered = ExchangeColumns(capture, rows), ExchangeColumns(capture)
    assert shuffled.rows.tolist() == rows.tolist()
    for name in COMPARED:
        values = by_row(ordered, name)
        assert by_row(shuffled, name) == [values[row] for row in rows], name
    for name in ("api_key", "version", "correlation_id", "request_size", "flags"):
        assert shuffled[name].tolist() == capture.table.column(name)[rows].tolist()


def test_no_column_of_that_name(capture):
    with pytest.raises(KeyError):
        ExchangeColumns(capture)["no_such_column"]


def test_a_message_is_read_once_for_all_columns(capture, monkeypatch):
    columns = ExchangeColumns(capture)
    read = []
    original = type(capture.source).read
    monkeypatch.setattr(
        type(capture.source), "read", lambda self, *place: read.append(place) or original(self, *place)
    )
    columns.prepare(["error_codes", "topics", "records", "groups"])
    sides = 2
    assert len(read) <= sides * len(columns)
    before = len(read)
    for name in ("expected_error_codes", "partitions", "batches", "groups"):
        columns[name]
    assert len(read) == before


def test_columns_are_taken_by_arrow_without_a_copy(capture):
    pyarrow = pytest.importorskip("pyarrow")
    columns = ExchangeColumns(capture)
    members = columns.ragged("members")
    taken = pyarrow.LargeListArray.from_arrays(members.offsets, members.values)
    assert taken.to_pylist() == lists(members)
    assert taken.values.buffers()[1].address == members.values.ctypes.data


@pytest.mark.parametrize("name", ["replica_id", "asked_offsets", "answered_errors", "batch_traits"])
def test_a_column_says_the_same_whether_others_are_filled_with_it_or_not(name):
    capture = open_capture(str(FOLDER / "20_k430_ck_zstd.pcap"))
    capture.read()
    alone, among_others = ExchangeColumns(capture), ExchangeColumns(capture)
    among_others.prepare(COLUMNS)
    found = [columns[name] for columns in (alone, among_others)]
    values = [column.values if isinstance(column, RaggedArray) else column for column in found]
    assert values[0].tolist() == values[1].tolist()
