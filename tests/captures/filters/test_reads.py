"""Fields of records: when a limit is reached, a filter's result is undecided."""

from __future__ import annotations

import pytest

from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.filters import compile_filter
from dissectors.budget import changed as limits
from tests.captures.recorded import FOLDER

PRODUCE = 0


def exchange_of(*, annotate: bool) -> Exchange:
    """The first Produce with records of a recording."""
    capture = open_capture(str(FOLDER / "20_k430_ck_zstd.pcap"))
    capture.read()
    reader = ExchangeReader(capture, annotate=annotate)
    return next(each for each in reader if each.api_key == PRODUCE)


@pytest.mark.parametrize("annotate", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "value ~ nowhere",
        "key == nowhere",
        "header == nowhere",
        "not value ~ nowhere",
        "api == Produce and value ~ nowhere",
        "request.topic_data.partition_data.records.records.value ~ nowhere",
    ],
)
def test_what_is_beyond_a_limit_is_undecided(text: str, annotate: bool) -> None:
    with limits(message_records=0):
        wanted = compile_filter(text)
        assert not wanted.match(exchange_of(annotate=annotate))
    assert wanted.undecided == {"message_records": 1}


@pytest.mark.parametrize("text", ["records >= 0 or value ~ nowhere", "codec == zstd or key == nowhere"])
def test_what_is_known_decides(text: str) -> None:
    with limits(message_records=0):
        wanted = compile_filter(text)
        assert wanted.match(exchange_of(annotate=False))
    assert not wanted.undecided


def test_a_body_beyond_a_limit_decides_nothing() -> None:
    with limits(message_objects=0):
        wanted, other = compile_filter("acks == all"), compile_filter("api == Produce")
        exchange = exchange_of(annotate=False)
        assert not wanted.match(exchange)
        assert other.match(exchange)
    assert (dict(wanted.undecided), dict(other.undecided)) == ({"message_objects": 1}, {})
