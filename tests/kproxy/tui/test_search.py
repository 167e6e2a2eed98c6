"""Searches: the meaning of the typed text, and searches in the list compared with checking every exchange."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.exchanges import Exchange
from kproxy.session import Session
from kproxy.session.engine import Priority
from kproxy.session.published import ShownExchanges
from kproxy.tui.search import Kind, ListSearch, SearchError, SearchHit, in_exchange, parse_search
from tests.captures.recorded import FOLDER
from tests.kproxy.tui.kit import read_session


@pytest.mark.parametrize(
    ("typed", "kind", "fits", "fits_not"),
    [
        ("orders", Kind.TEXT, "my ORDERS", "order"),
        ("Orders", Kind.TEXT, "Orders-3", "orders"),
        ("a.b", Kind.TEXT, "a.b", "axb"),
        ('"0a 1b"', Kind.TEXT, "0a 1b", "0a1b"),
        ("/orders-[0-9]+/", Kind.REGEX, "ORDERS-12", "orders-"),
        (r"/\Sx/", Kind.REGEX, "AX", " x"),
        ("/Orders/", Kind.REGEX, "Orders", "orders"),
        ("~ ^a.c$", Kind.REGEX, "ABC", "xabc"),
        ("0x0a1B", Kind.BYTES, "0x0a1b", "0a1b0"),
        ("0a 1b", Kind.BYTES, "ff 0a 1b", "a0a 1b"),
        ("/", Kind.TEXT, "a/b", "ab"),
        ("0x", Kind.TEXT, "0x12", "x0"),
    ],
)
def test_what_is_looked_for(typed: str, kind: Kind, fits: str, fits_not: str) -> None:
    search = parse_search(typed)
    assert search.kind is kind
    assert search.in_text(fits)
    assert not search.in_text(fits_not)


@pytest.mark.parametrize(
    ("typed", "position"),
    [
        ("", 0),
        ("   ", 3),
        ("/(/", 1),
        ("~ [", 2),
        ("//", 1),
        ("~  ", 3),
        ("~ " + "(" * 4000, None),
    ],
)
def test_what_makes_no_sense_says_where(typed: str, position: int | None) -> None:
    with pytest.raises(SearchError) as caught:
        parse_search(typed)
    assert position in (caught.value.position, None)
    assert caught.value.position <= len(typed)


def test_bytes_are_met_from_an_offset_on_and_before_one() -> None:
    search = parse_search("0x0a1b")
    data = b"\x00\x0a\x1b\x0a\x1b\x00"
    assert search.in_bytes(data) == (1, 3)
    assert search.in_bytes(data, 2) == (3, 5)
    assert search.in_bytes(data, 4) is None
    assert search.before(data, 3) == (1, 3)
    assert search.before(data, 1) is None


def test_texts_are_met_in_bytes() -> None:
    assert parse_search("orders").in_bytes(b"\x00\x06ORDERS") == (2, 8)
    assert parse_search("é").in_bytes("née".encode()) == (1, 3)
    assert parse_search(r"/\x0a./").in_bytes(b"\x01\x0a\x02") == (1, 3)


@given(st.text(min_size=1, max_size=40))
def test_whatever_is_typed_is_understood_or_refused(typed: str) -> None:
    try:
        search = parse_search(typed)
    except SearchError:
        return
    if search.kind is Kind.TEXT and not typed.strip().startswith('"'):
        assert search.in_text(f"x{typed}y")


# ---------------------------------------------------------------- in the list
def numbers_where(exchanges: list[Exchange], fits: Callable[[Exchange], bool]) -> list[int]:
    return [exchange.number for exchange in exchanges if fits(exchange)]


async def all_of(session: Session) -> list[Exchange]:
    return await session.run(
        lambda access: list(access.exchanges(session.shown.all().tolist(), annotated=True))
    )


async def every_one(session: Session, typed: str, *, forward: bool = True, deep: bool = False) -> list[int]:
    """Search repeatedly from the beginning, or the end, until the search wraps."""
    index = -1 if forward else len(session.shown)
    met: list[int] = []
    while True:
        job = ListSearch(parse_search(typed), session.shown, index, forward=forward, deep=deep)
        found = await session.run(job)
        if found is None or found.wrapped or (met and found.number == met[-1]):
            return met
        assert session.shown.number(found.index) == found.number
        met.append(found.number)
        index = found.index


@pytest.mark.slow
async def test_the_next_ones_are_those_whose_lines_say_it() -> None:
    async with read_session() as session:
        exchanges = await all_of(session)
        of_m4 = numbers_where(exchanges, lambda one: one.client_id == "m4")
        assert of_m4
        assert await every_one(session, "/^m4$/") == of_m4
        assert await every_one(session, "/^m4$/", forward=False) == of_m4[::-1]
        joins = numbers_where(exchanges, lambda one: one.api == "JoinGroup")
        assert await every_one(session, "/^JoinGroup v/") == joins
        rebalancing = numbers_where(
            exchanges, lambda one: any("REBALANCE_IN_PROGRESS" in said for said in one.summary)
        )
        assert rebalancing
        assert await every_one(session, "/REBALANCE_IN_PROGRESS/") == rebalancing


async def test_it_goes_on_at_the_other_end_and_comes_back_to_where_it_began() -> None:
    async with read_session() as session:
        shown = session.shown
        first = await session.run(ListSearch(parse_search("joingroup"), shown, -1))
        last = await session.run(ListSearch(parse_search("joingroup"), shown, len(shown), forward=False))
        assert first is not None
        assert last is not None
        assert not first.wrapped
        after = await session.run(ListSearch(parse_search("joingroup"), shown, last.index))
        assert after == SearchHit(first.number, first.index, wrapped=True)
        before = await session.run(ListSearch(parse_search("joingroup"), shown, first.index, forward=False))
        assert before == SearchHit(last.number, last.index, wrapped=True)
        # the only one is met again, last of all
        only = ShownExchanges(1, 1, first=first.number)
        again = await session.run(ListSearch(parse_search("joingroup"), only, 0))
        assert again == SearchHit(first.number, 0, wrapped=True)


async def test_what_is_nowhere_is_not_found_and_all_was_looked_at() -> None:
    async with read_session() as session:
        job = ListSearch(parse_search("nowhere at all"), session.shown, 3)
        assert await session.run(job) is None
        assert job.share == 1.0
        empty = ListSearch(parse_search("x"), ShownExchanges(1, 0), 0)
        assert await session.run(empty) is None


async def test_it_looks_only_at_what_the_list_shows_in_its_order() -> None:
    async with read_session() as session:
        exchanges = await all_of(session)
        heartbeats = numbers_where(exchanges, lambda one: one.api == "Heartbeat")
        shown = ShownExchanges(
            1, 3, numbers=np.array([heartbeats[5], 1, heartbeats[2]], np.int64), rising=False
        )
        found = await session.run(ListSearch(parse_search("heartbeat"), shown, 0))
        assert found == SearchHit(heartbeats[2], 2, wrapped=False)


@pytest.mark.slow
async def test_fields_and_bytes_are_looked_at_if_asked() -> None:
    async with read_session() as session:
        exchanges = await all_of(session)
        secretly = "/apache-kafka-java/"
        deep = await every_one(session, secretly, deep=True)
        assert deep == numbers_where(exchanges, lambda one: in_exchange(parse_search(secretly), one))
        assert deep
        frame = next(one for one in exchanges if one.api == "SyncGroup").request
        assert frame is not None
        beginning = f"0x{frame.raw[:8].hex()}"
        assert await every_one(session, beginning) == numbers_where(
            exchanges,
            lambda one: any(body and frame.raw[:8] in body.raw for body in (one.request, one.response)),
        )


@pytest.mark.slow
async def test_secrets_are_not_found() -> None:
    path = FOLDER / "24_k430_franz_scramsha256.pcap"
    async with read_session(path) as session, read_session(path, show_secrets=True) as open_session:
        shown = await all_of(open_session)
        tokens = [
            body.value["auth_bytes"]
            for one in shown
            if one.api == "SaslAuthenticate"
            for body in (one.request,)
            if body is not None and body.value is not None and isinstance(body.value.get("auth_bytes"), bytes)
        ]
        assert tokens
        for token in tokens:
            typed = f"0x{token.hex()}"
            assert await every_one(open_session, typed)
            assert await every_one(session, typed) == []


async def test_cancelling_ends_it() -> None:
    async with read_session() as session:
        job = ListSearch(parse_search("nowhere at all"), session.shown, 0)
        future = session.submit(job, Priority.ASKED)
        future.cancel()
        await session.idle()
        assert job.share < 1.0
