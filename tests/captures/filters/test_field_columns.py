"""Filters on columns of message fields: in every recorded capture, they select the same as with full decodes."""

from __future__ import annotations

import numpy as np
import pytest

from captures.exchanges import ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.projected_reader import ProjectedExchanges
from captures.filters import TableColumns, compile_filter
from captures.filters import filter as filter_module
from captures.filters.field_columns import DecidedBy
from captures.filters.fields import FIELDS
from tests.captures.recorded import CAPTURES

FILTERS = (
    "error",
    "~e",
    "acks == ALL",
    "error.any",
    "error == NOT_LEADER_OR_FOLLOWER",
    "error in {27, UNKNOWN_TOPIC_OR_PARTITION}",
    "error.any ~ REQUIRED|UNSUPPORTED",
    "not error and expected",
    "throttle",
    "throttle > 0",
    "throttle < 1500us",
    "excess > 3ms",
    "excess < 500us or excess >= 1s",
    "wait == 0",
    "wait >= 5ms",
    "waited",
    "topic",
    'topic ~ "^[_a-m]"',
    "not topic",
    "partition == 0",
    "partition in {1..3, 7}",
    'topic_partition ~ "-[12]$"',
    "group",
    'group ~ "^[g-z]"',
    "group.inferred",
    "not (group or group.inferred)",
    "member",
    'member ~ "1"',
    "records",
    "records > 3",
    "batches == 1",
    "records.size >= 200B",
    "records == 0 and api == Fetch",
    "topic and (error or throttle >= 0) and size > 100",
    "api == Fetch and (partition == 1 or latency > 100ms)",
)

PATHS = (
    "request.topics.partitions.partition == 0",
    "request.topics[0].partitions[1].partition exists",
    "response.topics.name ~ a",
    "response.throttle_time_ms == 0",
    "request.group_id exists and not response.error_code == 0",
    "response.api_keys.api_key == Fetch",
    "request.replica_state.replica_id >= 0",
    "request.topics.partitions.committed_offset > 10 or response.responses.partitions.high_watermark in {3..9}",
    "response.topics.topic_id ~ A or request.topics[1].partitions.fetch_offset > 0",
    "request.acks exists and not request.acks == -1",
    # several needs of fields with one name, or of one field
    "response.error_code != 0 or response.topics.partitions.error_code == 0",
    "response.responses.partitions.error_code == 0 and response.error_code == 0",
    "response.responses.partitions[1].high_watermark > 10 and response.responses.partitions.high_watermark > 0",
    "request.topics[0].partitions[1].committed_offset > 5 and request.topics.partitions.committed_offset > 0",
    "not error or response.error_code == 27",
    "throttle == 0 and response.throttle_time_ms == 0",
)
PROJECTED_ONLY = (
    "error.message",
    'codec != "none" and records',
    "transactional_id",
    "producer_id >= 0",
    "request.topics[0].partitions[1] exists",
    *PATHS,
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", CAPTURES)
def test_message_columns_decide_as_full_decodes_do(name, recording):
    found = recording(name)
    columns = found.with_messages
    for text in (*FILTERS, *PATHS):
        wanted = compile_filter(text)
        matches, undecided = wanted.mask(columns, found.context)
        for exchange in found.bare:
            if undecided[exchange.row]:
                # columns do not show which of a client's groups it is
                assert "group" in text
            else:
                fits = wanted.match(exchange, found.context)
                assert matches[exchange.row] == fits, (text, exchange.number)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CAPTURES)
def test_projected_bodies_decide_as_full_decodes_do(name, recording, monkeypatch):
    found = recording(name)
    for number, text in enumerate((*FILTERS[::4], *FILTERS[::3], *PROJECTED_ONLY)):
        # by columns of their messages, or one by one
        monkeypatch.setattr(filter_module, "_WORTH_COLUMNS", 1 if number % 3 else 1 << 30)
        wanted = compile_filter(text)
        selected = wanted.select(ExchangeReader(found.capture, annotate=False), found.context)
        fitting = [x.number - 1 for x in found.bare if wanted.match(x, found.context)]
        assert selected.tolist() == fitting, text


def test_every_field_of_messages_is_among_the_filters():
    said = " ".join(FILTERS)
    fields = [field for field in FIELDS if field.column.source is DecidedBy.MESSAGES]
    assert len(fields) > 10
    assert [field.name for field in fields if field.name not in said] == []
    assert all(field.column.messages and field.column.needs for field in fields)


@pytest.mark.slow
def test_columns_of_some_rows_decide_these(rebalance):
    capture = rebalance.capture
    rows = np.random.default_rng(5).permutation(len(capture.table))[:200]
    # topic names come from other exchanges
    some = TableColumns.of(capture, ExchangeColumns(capture, rows, names=rebalance.context.names))
    whole = TableColumns.of(capture, ExchangeColumns(capture))
    for text in ("error", "topic ~ r2 and latency > 1ms", "not member", "number < 100 and group"):
        wanted = compile_filter(text)
        of_some, of_whole = wanted.mask(some, rebalance.context), wanted.mask(whole, rebalance.context)
        assert of_some.matches.tolist() == of_whole.matches[rows].tolist(), text


def test_filters_share_one_reading_of_the_messages(rebalance, monkeypatch):
    capture = rebalance.capture
    columns = TableColumns.of(capture, ExchangeColumns(capture))
    compile_filter("error or topic ~ x or records > 3").mask(columns, rebalance.context)

    def read(*_):
        raise AssertionError("all that is needed was read before")

    monkeypatch.setattr(type(capture.source), "read", read)
    for text in ("error.any == 79", "expected", "partition == 2", "batches > 1 and not error"):
        assert not compile_filter(text).mask(columns, rebalance.context).undecided.any()


@pytest.mark.parametrize(
    "text", ["error", "request.topics.partitions.partition == 3", "~t r2 and records > 0"]
)
def test_bodies_are_not_decoded_in_full_to_select(text, rebalance, monkeypatch):
    def decode(*_, **__):
        raise AssertionError("decoded in full")

    reader = ExchangeReader(rebalance.capture)
    reader.learn(len(reader))
    wanted = compile_filter(text)
    monkeypatch.setattr("captures.exchanges.exchange.decode_request", decode)
    assert len(wanted.select(reader, rebalance.context))


@pytest.mark.parametrize(
    "text", ["value ~ x", "problem", "guess", "request.metadata.topics == x", "flags == waited"]
)
def test_what_annotation_finds_out_takes_the_full_decode(text, rebalance):
    wanted = compile_filter(text if "metadata" not in text else "request.protocols.metadata.topics == x")
    assert wanted._needs is None


def test_masked_secrets_are_not_found(recording):
    """A filter cannot test a guess at a password: it is masked in the exchanges that filters see."""
    found = recording("35_k282_sasl_plain.pcap.zst")
    wanted = compile_filter("request.auth_bytes exists")
    assert wanted._needs is None
    assert wanted.select(found.reader(), found.context).tolist() == []


def test_projected_exchanges_know_number_and_row(rebalance):
    reader = rebalance.reader()
    projected = ProjectedExchanges(reader, frozenset({"errors"}))
    for index, exchange in projected.read(np.arange(10, 60)):
        whole = rebalance.bare[index]
        assert (exchange.number, exchange.row, exchange.api) == (whole.number, whole.row, whole.api)
        assert [(error.path, error.code) for error in exchange.errors] == [
            (error.path, error.code) for error in whole.errors
        ]
        assert len(exchange.expected) == len(whole.expected)
