from __future__ import annotations

import pytest

from captures.exchanges import ExchangeReader, open_capture
from captures.filters import FilterError, compile_filter
from captures.filters.field_values import FieldValues
from captures.filters.lexer import quoted
from tests.conftest import DATA

pytestmark = pytest.mark.quick

CODECS = DATA / "20_k430_ck_zstd.pcap"


@pytest.fixture(scope="module")
def reader() -> ExchangeReader:
    capture = open_capture(str(CODECS))
    capture.read()
    return ExchangeReader(capture)


@pytest.mark.parametrize(
    "name",
    [
        "topic",
        "api",
        "client_id",
        "request.topics.name",
        "request.acks",
        "response.throttle_time_ms",
        "group",
    ],
)
def test_the_values_are_those_that_filters_compare(reader: ExchangeReader, name: str) -> None:
    field = FieldValues(name)
    met = 0
    for exchange in reader:
        for value in field.of(exchange):
            met += 1
            literal = quoted(value) if isinstance(value, str) else value
            assert compile_filter(f"{name} == {literal}").match(exchange)
    assert met


def test_an_index_means_one_element(reader: ExchangeReader) -> None:
    every, first = FieldValues("response.topics.name"), FieldValues("response.topics[0].name")
    assert any(first.of(exchange) == every.of(exchange)[:1] != [] for exchange in reader)
    assert all(len(first.of(exchange)) <= 1 for exchange in reader)


def test_texts_name_what_has_names_and_have_units(reader: ExchangeReader) -> None:
    produced = next(each for each in reader if each.api == "Produce")
    assert FieldValues("request.acks").texts(produced) == ["ALL"]
    (latency,) = FieldValues("latency").texts(produced)
    assert latency.endswith(" ms")


@pytest.mark.parametrize("name", ["", "api == Fetch", "nothing", "request.nothing", "not error"])
def test_what_is_no_field_is_refused(name: str) -> None:
    with pytest.raises(FilterError):
        FieldValues(name)
