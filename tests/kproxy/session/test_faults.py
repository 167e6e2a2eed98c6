"""Internal errors triggered by a capture: the session continues, and reports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from captures.arrays import Int64s
from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.filters import compile_filter
from captures.filters.field_values import FieldValues
from captures.filters.groups import GroupInference
from kproxy.session import Access, Order, State
from kproxy.session.summaries import Summaries
from tests.kproxy.tui.kit import read_session


class CountingFold:
    """Counts, but fails for one exchange."""

    def __init__(self, _: Access) -> None:
        self.count = 0

    def add(self, exchange: Exchange) -> None:
        if exchange.number == 17:
            raise KeyError("planted")
        self.count += 1


class ColumnCountingFold(CountingFold):
    """Fails for it when adding columns, too."""

    TAKEN = ()

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        for exchange in access.plain.several(indexes.tolist()):
            self.add(exchange)
            yield exchange.number


@pytest.mark.parametrize("fold", [CountingFold, ColumnCountingFold])
async def test_what_is_counted_goes_on(fold: type[CountingFold]) -> None:
    async with read_session() as session:
        folding = session.fold("topics", fold)
        folding.want(True)
        await session.idle()
        assert folding.progress == 1
        assert folding.look(lambda fold: fold.count) == 401
        *_, told, report = session.status.faults
        assert told.startswith("exchange 17: counting it for topics failed: KeyError: 'planted'")
        assert "Please report" in report
        assert not session.status.failure


@pytest.mark.slow
async def test_an_observer_that_fails_is_shown_the_rest() -> None:
    seen: list[int] = []

    def look(exchange: Exchange) -> None:
        if exchange.number == 17:
            raise KeyError("planted")
        seen.append(exchange.number)

    async with read_session() as session:
        session.observe(lambda _: look)
        await session.idle()
        assert len(seen) == 401
        assert session.faults.count == 1


async def test_a_line_that_cannot_be_made_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Summaries._summary

    def fail(summaries: Summaries, exchange: Exchange, *more: Any) -> Any:
        if exchange.number == 17:
            raise KeyError("planted")
        return made(summaries, exchange, *more)

    monkeypatch.setattr(Summaries, "_summary", fail)
    async with read_session() as session:
        session.summaries.want(range(10, 30))
        await session.idle()
        bad, good = session.summaries.get(17), session.summaries.get(18)
        assert bad is not None
        assert good is not None
        assert bad.state is State.UNDECODED
        assert bad.text == "it cannot be shown because of an internal error in kproxy"
        assert good.request
        assert session.faults.count == 1


async def test_an_exchange_that_cannot_be_decoded_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = ExchangeReader._finish

    def fail(reader: ExchangeReader, made: Exchange) -> None:
        if made.number == 17:
            raise RecursionError("planted")
        finish(reader, made)

    monkeypatch.setattr(ExchangeReader, "_finish", fail)
    async with read_session() as session:
        made = await session.exchange(17)
        assert made.api != "unknown"
        assert not made.decoded_fully
        assert (await session.exchange(18)).decoded_fully
        session.report_faults()
        assert session.status.faults[0].startswith("exchange 17: decoding failed: RecursionError: planted")


async def test_members_are_learned_of_whatever_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    observe, seen = GroupInference.observe, list[int]()

    def fail(groups: GroupInference, exchange: Exchange) -> None:
        seen.append(exchange.number)
        if len(seen) == 1:
            raise KeyError("planted")
        observe(groups, exchange)

    monkeypatch.setattr(GroupInference, "observe", fail)
    async with read_session() as session:
        await session.set_filter(compile_filter("group == gr2-java_eager_range and api == Fetch"))
        assert len(session.shown)
        assert session.faults.lines()[0].startswith(f"exchange {seen[0]}: inferring its group failed")


async def test_what_has_no_value_to_be_ordered_by_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    of = FieldValues.of

    def fail(field: FieldValues, exchange: Exchange, context: Any) -> Any:
        if exchange.number == 17:
            raise KeyError("planted")
        return of(field, exchange, context)

    monkeypatch.setattr(FieldValues, "of", fail)
    async with read_session() as session:
        await session.set_order(Order("error"))
        assert len(session.shown) == 402
        assert session.faults.lines()[0].startswith("exchange 17: ordering by error failed")
