"""Windows of a conversation: their position, their content, and that each is read once."""

from __future__ import annotations

import numpy as np
import pytest

from captures.analysis.conversation import Kind
from captures.filters import compile_filter
from kproxy.session import Order, Session
from kproxy.tui.views.conversation_window import Anchor, Choice, Window, WindowReader, _place
from tests.kproxy.tui.kit import read_session

NUMBERS = np.arange(1, 101)


@pytest.mark.parametrize(
    ("anchor", "place"),
    [
        (Anchor(), (0, 20)),
        (Anchor(last=True), (80, 100)),
        (Anchor(50), (47, 67)),
        (Anchor(100), (80, 100)),
        (Anchor(1_000), (80, 100)),
        (Anchor(50, last=True), (32, 52)),
        (Anchor(1, last=True), (0, 20)),
    ],
)
def test_where_a_window_lies(anchor: Anchor, place: tuple[int, int]) -> None:
    assert _place(NUMBERS, anchor, 20) == place
    assert _place(NUMBERS[:5], anchor, 20) == (0, 5)


async def windowed(
    session: Session, reader: WindowReader, anchor: Anchor, most: int, choice: Choice | None = None
) -> Window:
    return await session.run(lambda access: reader.read(access, anchor, choice or Choice(), most))


def numbers(window: Window) -> list[int]:
    return sorted(step.number for fold in window.folds for step in fold.every if step.number)


async def test_windows_follow_one_another_and_overlap() -> None:
    async with read_session() as session:
        reader = WindowReader()
        one = await windowed(session, reader, Anchor(), 100)
        assert (one.before, one.count, one.after, one.first, one.last) == (0, 100, 302, 1, 100)
        assert numbers(one) == list(range(1, 101))
        two = await windowed(session, reader, one.later, 100)
        assert two.before < 100 < two.before + two.count
        assert one.last in numbers(two)
        back = await windowed(session, reader, two.earlier, 100)
        assert two.first in numbers(back)
        last = await windowed(session, reader, Anchor(last=True), 100)
        assert (last.after, last.last) == (0, 402)


async def test_what_was_read_is_not_read_again() -> None:
    async with read_session() as session:
        reader = WindowReader()
        one = await windowed(session, reader, Anchor(), 1_000)
        again = await windowed(session, reader, Anchor(last=True), 1_000)
        assert again == one
        assert again.folds is one.folds
        reader.forget()
        assert (await windowed(session, reader, Anchor(), 1_000)).folds == one.folds


async def test_connections_open_and_close_where_they_do() -> None:
    async with read_session() as session:
        whole = await windowed(session, WindowReader(), Anchor(), 1_000)
        kinds = [step.kind for fold in whole.folds for step in fold.every]
        assert (kinds.count(Kind.OPEN), kinds.count(Kind.EXCHANGE)) == (16, 402)
        assert kinds.count(Kind.CLOSE) + kinds.count(Kind.RESET) == 16
        middle = await windowed(session, WindowReader(), Anchor(200), 50)
        times = [step.time for fold in middle.folds for step in fold.every if step.number]
        for fold in middle.folds:
            assert all(min(times) <= step.time for step in fold.every)


async def test_one_connection_or_some_participants() -> None:
    async with read_session() as session:
        reader = WindowReader()
        whole = await windowed(session, reader, Anchor(), 1_000)
        one = await windowed(session, reader, Anchor(), 1_000, Choice(connection=6))
        assert {step.connection for fold in one.folds for step in fold.every} == {6}
        clients = [each for each in whole.participants if each.is_client]
        brokers = frozenset(whole.participants) - frozenset(clients)
        chosen = await windowed(session, reader, Anchor(), 1_000, Choice(brokers | {clients[2], clients[3]}))
        assert set(chosen.participants) == brokers | {clients[2], clients[3]}
        found = await session.run(lambda access: list(access.exchanges(numbers(chosen))))
        assert {each.client_id for each in found} == {clients[2].name, clients[3].name}
        assert (await windowed(session, reader, Anchor(), 1_000, Choice(frozenset()))).count == 0


async def test_filters_hold_and_the_order_of_the_list_does_not() -> None:
    async with read_session() as session:
        await session.set_filter(compile_filter("api == Produce"))
        await session.set_order(Order("latency", descending=True))
        window = await windowed(session, WindowReader(), Anchor(), 1_000)
        assert window.count == session.status.shown == 74
        assert {step.api for fold in window.folds for step in fold.every if step.number} == {"Produce"}
        times = [fold.every[0].time for fold in window.folds]
        assert times == sorted(times)


async def test_nothing_is_a_window_too() -> None:
    async with read_session() as session:
        await session.set_filter(compile_filter("api == Vote"))
        window = await windowed(session, WindowReader(), Anchor(last=True), 1_000)
        assert (window.count, window.folds, window.participants) == (0, (), ())
