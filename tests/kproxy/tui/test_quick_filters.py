"""Quick filters: every offered filter compiles, and matches the exchange it was made from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.filters import Context, compile_filter
from kproxy.tui.detail.make import detail_of
from kproxy.tui.detail.nodes import Role
from kproxy.tui.quick_filters import QuickFilter, Use, bytes_test, combined, of_exchange, of_field, text_test
from tests.captures.recorded import FOLDER
from tests.kproxy.tui.kit import REBALANCE

CAPTURES = (
    str(REBALANCE),
    "22_k430_java_commit_abort.pcap",
    "24_k430_franz_scramsha256.pcap",
    "36_k251_sweep.pcap.zst",
    "09_snaplen128.pcap",
    "30_k0822_java_lz4.pcap",
    "20_k430_ck_zstd.pcap",
)


@cache
def exchanges_of(name: str) -> tuple[list[Exchange], Context]:
    """Return one exchange of each kind in a capture."""
    capture = open_capture(str(FOLDER / name))
    capture.read()
    reader = ExchangeReader(capture)
    found = list(reader)
    by_api = {(one.api_key, one.version, bool(one.errors)): one for one in found}
    return list(by_api.values()), Context(reader.knowledge.topic_name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES, ids=lambda name: Path(name).name)
def test_what_is_offered_of_an_exchange_keeps_it(name: str) -> None:
    exchanges, context = exchanges_of(name)
    for exchange in exchanges:
        for offer in of_exchange(exchange, context):
            assert compile_filter(offer.text).match(exchange, context), (exchange.number, offer)


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES, ids=lambda name: Path(name).name)
def test_what_is_offered_of_a_field_keeps_the_exchange(name: str) -> None:
    exchanges, context = exchanges_of(name)
    met: set[tuple[str, str]] = set()
    for exchange in exchanges:
        for path, value in fields_of(exchange):
            kind = (exchange.api, re.sub(r"\[[0-9]+\]", "", path))
            if kind in met:
                continue
            met.add(kind)
            for offer in of_field(path, value, exchange, context):
                assert compile_filter(offer.text).match(exchange, context), (exchange.number, path, offer)
    assert met


def fields_of(exchange: Exchange) -> Iterator[tuple[str, object]]:
    """Yield some fields of both sides, the first of each array."""
    detail = detail_of(exchange)
    for side in (detail.request, detail.response):
        if side.root is None:
            continue
        for node in side.root.walk():
            if node.role in (Role.FIELD, Role.INNER) and "[1]" not in node.path:
                yield node.path, node.value


@pytest.mark.slow
def test_nearly_every_field_with_a_value_has_a_filter() -> None:
    exchanges, context = exchanges_of(str(REBALANCE))
    without = []
    for exchange in {one.api: one for one in exchanges}.values():
        others = set(of_exchange(exchange, context))
        for path, value in fields_of(exchange):
            if value in (None, [], ()) or any(part in path for part in (".header.", ".records", "undecoded")):
                continue
            if not set(of_field(path, value, exchange, context)) - others:
                without.append(path)
    # filters cannot access this field: fields of the same name in other APIs have subfields
    assert {path.partition("[")[0] for path in without} <= {
        "response.assignment.version",
        "response.assignment.assigned_partitions",
    }


def of_api(name: str, api: str) -> tuple[Exchange, Context]:
    """Return the first exchange of an API."""
    exchanges, context = exchanges_of(name)
    return next(one for one in exchanges if one.api == api), context


def test_an_exchange_has_filters_for_what_it_is_about() -> None:
    exchange, context = of_api(str(REBALANCE), "JoinGroup")
    offered = {offer.label: offer.text for offer in of_exchange(exchange, context)}
    assert offered["group: gr2-java_eager_range"] == "group == gr2-java_eager_range"
    assert offered["API: JoinGroup"] == "api == JoinGroup"
    assert offered[f"connection: {exchange.connection}"] == f"connection == {exchange.connection}"


def test_a_field_that_names_a_group_offers_the_group_first() -> None:
    exchange, context = of_api(str(REBALANCE), "JoinGroup")
    offers = list(of_field("request.group_id", "gr2-java_eager_range", exchange, context))
    assert [offer.text for offer in offers[:2]] == [
        "group == gr2-java_eager_range",
        "request.group_id == gr2-java_eager_range",
    ]


def test_numbers_are_called_by_their_names() -> None:
    exchanges, context = exchanges_of(str(REBALANCE))
    failed = next(one for one in exchanges if one.api == "JoinGroup" and one.expected)
    texts = [offer.text for offer in of_field("response.error_code", 79, failed, context)]
    assert "response.error_code == MEMBER_ID_REQUIRED" in texts


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("request.header.correlation_id", "correlation_id"),
        ("request.header.request_api_key", "api.key"),
        ("request.header.request_api_version", "version"),
        ("request.header.size", "request.size"),
        ("response.header.size", "response.size"),
    ],
)
def test_fields_of_the_header_are_those_of_the_exchange(path: str, field: str) -> None:
    exchange, context = of_api(str(REBALANCE), "JoinGroup")
    value = next(value for found, value in fields_of(exchange) if found == path)
    offer = next(of_field(path, value, exchange, context))
    assert offer.text.startswith(f"{field} ")


def test_a_masked_field_offers_nothing_of_its_value() -> None:
    exchange, context = of_api("24_k430_franz_scramsha256.pcap", "SaslAuthenticate")
    offers = set(of_field("request.auth_bytes", None, exchange, context))
    assert offers == set(of_exchange(exchange, context))


@given(st.text(min_size=1, max_size=30))
def test_any_text_is_written_so_that_only_it_fits(text: str) -> None:
    wanted = compile_filter(text_test("client_id", text))
    exchange, _ = of_api(str(REBALANCE), "JoinGroup")
    written = wanted.text
    assert written.isprintable()
    changed = _with_client_id(exchange, text)
    assert wanted.match(changed)
    assert not wanted.match(_with_client_id(exchange, f"{text}x"))
    assert not wanted.match(_with_client_id(exchange, f"x{text}"))


def _with_client_id(exchange: Exchange, client_id: str) -> Exchange:
    return replace(exchange, client_id=client_id)


@given(st.binary(max_size=30))
def test_any_bytes_are_written_so_that_they_compile(data: bytes) -> None:
    text = bytes_test("key", data)
    compile_filter(text)
    assert text.isprintable()


@pytest.mark.parametrize(
    ("present", "use", "result"),
    [
        ("", Use.ONLY, "api == Fetch"),
        ("", Use.HIDE, "not api == Fetch"),
        ("", Use.ALSO, ""),
        ("", Use.REPLACE, "api == Fetch"),
        ("topic == a", Use.ONLY, "topic == a and api == Fetch"),
        ("topic == a or ~e", Use.ONLY, "(topic == a or ~e) and api == Fetch"),
        (
            "(a)or(b)".replace("a", "api").replace("b", "topic"),
            Use.HIDE,
            "((api)or(topic)) and not api == Fetch",
        ),
        ("topic == a and ~s", Use.ALSO, "(topic == a and ~s) or api == Fetch"),
        ("topic == a", Use.REPLACE, "api == Fetch"),
        ("api == Fetch ", Use.ONLY, "api == Fetch"),
        ("~e and api == Fetch", Use.ONLY, "~e and api == Fetch"),
        ("~e or api == Fetch", Use.ALSO, "~e or api == Fetch"),
        ("~e or api == Fetch", Use.ONLY, "(~e or api == Fetch) and api == Fetch"),
        ("~e and not api == Fetch", Use.HIDE, "~e and not api == Fetch"),
    ],
)
def test_a_filter_is_joined_to_the_present_one(present: str, use: Use, result: str) -> None:
    joined = combined(present, "api == Fetch", use)
    assert joined == result
    compile_filter(joined)


def test_a_filter_of_several_conditions_is_hidden_as_a_whole() -> None:
    joined = combined("~s", "api == Fetch and version == 3", Use.HIDE)
    assert joined == "~s and not (api == Fetch and version == 3)"
    assert QuickFilter("", joined).text == joined
