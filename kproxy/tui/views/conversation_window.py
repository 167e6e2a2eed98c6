"""The part of a conversation that is looked at: read, folded, and read on, in the engine's thread. No Textual in here.

Whole captures may have millions of exchanges; a window has :data:`MOST` of them at most, and can be moved. Steps that
were read are kept as long as they are in the window, so that following what comes reads only what is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from captures.analysis.conversation import (
    Fold,
    Outcome,
    Participant,
    Step,
    closing,
    exchange_step,
    folded,
    name_clients,
    opening,
    participants,
    summary,
)
from captures.arrays import Int64s

if TYPE_CHECKING:
    from kproxy.session import Access, Steps

MOST = 5_000
"""Exchanges in a window."""
_TURN = 0.01  # seconds of work between two looks at what is more urgent


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a window lies.

    :ivar number: of an exchange near its beginning; 0 for the first of all
    :ivar last: near its end instead, and 0 for the last of all: the window moves on with what comes
    """

    number: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Who is looked at, of all that the filter shows.

    :ivar participants: exchanges between two of these; None for any
    :ivar connection: its exchanges only; None for any
    """

    participants: frozenset[Participant] | None = None
    connection: int | None = None

    def __bool__(self) -> bool:
        return self.participants is not None or self.connection is not None


@dataclass(frozen=True, slots=True)
class Window:
    """What was read.

    :ivar before: exchanges that come before the window
    :ivar count: those in it
    :ivar after: those that come behind it
    :ivar first: number of the first of the window, 0 if it is empty
    :ivar last: of the last
    :ivar participants: clients, then brokers, in the order in which they come
    """

    folds: tuple[Fold, ...] = ()
    before: int = 0
    count: int = 0
    after: int = 0
    first: int = 0
    last: int = 0
    participants: tuple[Participant, ...] = ()

    @property
    def earlier(self) -> Anchor:
        """Where a window lies that shows what comes before this one, and a bit of this one."""
        return Anchor(self.first, last=True)

    @property
    def later(self) -> Anchor:
        """Where one lies that shows what comes after it."""
        return Anchor(self.last)


class WindowReader:
    """Reads windows; in the engine's thread only."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._folds: tuple[Fold, ...] = ()
        self._ends: list[Step] = []

    def forget(self) -> None:
        """Forget what was read: exchanges may have got other numbers."""
        self._steps, self._ends, self._folds = {}, [], ()

    def read(self, access: Access, anchor: Anchor, choice: Choice, most: int = MOST) -> Steps[Window]:
        """Read a window.

        :param most: exchanges in it
        """
        numbers = _kept(access)
        yield
        if choice:
            numbers = _chosen(access, numbers, choice)
            yield
        begin, end = _place(numbers, anchor, most)
        inside: list[int] = numbers[begin:end].tolist()
        renewed = yield from self._read_steps(access, inside)
        steps = [step for number in inside if (step := self._steps.get(number)) is not None]
        name_clients(steps)
        ends = list(_connection_steps(access, steps, from_first=not begin, to_last=end == len(numbers)))
        # folding anew what was folded would only cost time
        if renewed or len(steps) != len(self._steps) or ends != self._ends:
            self._steps, self._ends = {step.number: step for step in steps}, ends
            self._folds = tuple(folded([*steps, *ends]))
        return Window(
            self._folds,
            begin,
            len(inside),
            len(numbers) - end,
            inside[0] if inside else 0,
            inside[-1] if inside else 0,
            _in_order(self._folds),
        )

    def _read_steps(self, access: Access, numbers: list[int]) -> Steps[bool]:
        """Read what was not read yet; return whether there was something."""
        missing = [number for number in numbers if not self._settled(number)]
        names = access.plain.knowledge.topic_name
        began = perf_counter()
        for exchange in access.exchanges(missing):
            try:
                self._steps[exchange.number] = exchange_step(
                    exchange, participants(exchange), summary(exchange, names)
                )
            except Exception as error:
                access.capture.faults.note(error, "drawing it", exchange.number)
            if perf_counter() - began > _TURN:
                yield
                began = perf_counter()
        return bool(missing)

    def _settled(self, number: int) -> bool:
        step = self._steps.get(number)
        return step is not None and step.outcome is not Outcome.IN_FLIGHT


def _kept(access: Access) -> Int64s:
    """Return the numbers that are shown and kept, rising."""
    numbers = access.shown()
    if len(numbers) > 1 and not bool((numbers[1:] > numbers[:-1]).all()):
        numbers = np.sort(numbers)
    first = access.reader.first
    begin, end = np.searchsorted(numbers, (first, first + len(access.reader)))
    return numbers[begin:end]


def _chosen(access: Access, numbers: Int64s, choice: Choice) -> Int64s:
    """Return those whose connections, and whose clients and brokers, are chosen."""
    table, rows = access.capture.table, access.rows(numbers)
    connections = table.column("connection")[rows]
    if choice.connection is not None:
        of_it: Int64s = numbers[connections == choice.connection]
        return of_it
    assert choice.participants is not None
    # who took part is the same for all exchanges of a connection with one client ID
    speakers = (
        connections.astype(np.int64) << 32 | table.column("client_id")[rows].astype(np.int64) & 0xFFFFFFFF
    )
    _, firsts, inverse = np.unique(speakers, return_index=True, return_inverse=True)
    steps = [
        exchange_step(bare, participants(bare), ("", ""))
        for bare in (access.plain.bare(access.index(number)) for number in numbers[firsts].tolist())
    ]
    name_clients(steps)
    wanted = np.array([{step.client, step.broker} <= choice.participants for step in steps], np.bool_)
    return numbers[wanted[inverse]]


def _place(numbers: Int64s, anchor: Anchor, most: int) -> tuple[int, int]:
    """Return where a window begins and ends; a tenth of it is on the other side of its anchor."""
    count, margin = len(numbers), most // 10
    if anchor.last:
        end = int(np.searchsorted(numbers, anchor.number, "right")) + margin if anchor.number else count
        end = min(max(end, most), count)
        return max(end - most, 0), end
    begin = int(np.searchsorted(numbers, anchor.number)) - margin
    begin = max(min(begin, count - most), 0)
    return begin, min(begin + most, count)


def _connection_steps(
    access: Access, steps: list[Step], *, from_first: bool, to_last: bool
) -> Iterator[Step]:
    """Yield the beginnings and ends of connections that belong into a window.

    :param from_first: nothing comes before the window
    :param to_last: nothing comes behind it
    """
    if not steps:
        return
    begin, end = steps[0].time, steps[-1].end
    connections = {step.connection: (step.client, step.broker) for step in reversed(steps)}
    for connection, ends in connections.items():
        opened, closed = (made(access.capture, connection, ends) for made in (opening, closing))
        if opened is not None and (from_first or opened.time >= begin):
            yield opened
        if closed is not None and (to_last or closed.time <= end):
            yield closed


def _in_order(folds: Sequence[Fold]) -> tuple[Participant, ...]:
    clients: dict[Participant, None] = {}
    brokers: dict[Participant, None] = {}
    for fold in folds:
        for step in fold.steps:
            clients[step.client] = None
            brokers[step.broker] = None
    return (*clients, *brokers)
