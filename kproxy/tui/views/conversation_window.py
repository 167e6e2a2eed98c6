"""The window of a conversation: reading, folding and moving it, in the engine's thread. Independent of Textual.

Captures may have millions of exchanges; a window has at most :data:`MOST` of them, and can be moved. Steps are kept
while they are in the window, so that following live traffic only reads new ones.
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
)
from captures.arrays import Int64s
from captures.exchanges.exchange import summary_of

if TYPE_CHECKING:
    from kproxy.session import Access, Steps

MOST = 5_000
"""Most exchanges in a window."""
_TURN = 0.01  # seconds of work before more urgent jobs get a turn


@dataclass(frozen=True, slots=True)
class Anchor:
    """The position of a window.

    :ivar number: an exchange near its start; 0 for the very first
    :ivar last: whether ``number`` is near its end instead; then 0 is the very last, and the window follows new ones
    """

    number: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A selection among the exchanges that match the filter.

    :ivar participants: only exchanges between two of these; None for any
    :ivar connection: only its exchanges; None for any
    """

    participants: frozenset[Participant] | None = None
    connection: int | None = None

    def __bool__(self) -> bool:
        return self.participants is not None or self.connection is not None


@dataclass(frozen=True, slots=True)
class Window:
    """A window that was read.

    :ivar before: number of exchanges before the window
    :ivar count: number of exchanges in it
    :ivar after: number of exchanges after it
    :ivar first: number of its first exchange, 0 if it is empty
    :ivar last: number of its last exchange, 0 if it is empty
    :ivar participants: clients, then brokers, in order of appearance
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
        """Anchor of the previous window, which overlaps this one a little."""
        return Anchor(self.first, last=True)

    @property
    def later(self) -> Anchor:
        """Anchor of the next window, which overlaps this one a little."""
        return Anchor(self.last)


class WindowReader:
    """Reads windows; only in the engine's thread."""

    def __init__(self) -> None:
        self._steps: dict[int, Step] = {}
        self._folds: tuple[Fold, ...] = ()
        self._ends: list[Step] = []

    def forget(self) -> None:
        """Discard the steps read, because exchanges may have been renumbered."""
        self._steps, self._ends, self._folds = {}, [], ()

    def read(self, access: Access, anchor: Anchor, choice: Choice, most: int = MOST) -> Steps[Window]:
        """Read a window.

        :param most: maximum number of exchanges in it
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
        # folding is slow, so fold only if steps have changed
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
        """Read missing steps; return whether there were any."""
        missing = [number for number in numbers if not self._settled(number)]
        names = access.plain.knowledge.topic_name
        began = perf_counter()
        for exchange in access.exchanges(missing):
            try:
                self._steps[exchange.number] = exchange_step(
                    exchange, participants(exchange), summary_of(exchange, names)
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
    """Return the numbers of shown exchanges that are still in memory, ascending."""
    numbers = access.shown()
    if len(numbers) > 1 and not bool((numbers[1:] > numbers[:-1]).all()):
        numbers = np.sort(numbers)
    first = access.reader.first
    begin, end = np.searchsorted(numbers, (first, first + len(access.reader)))
    return numbers[begin:end]


def _chosen(access: Access, numbers: Int64s, choice: Choice) -> Int64s:
    """Return the numbers of exchanges that match a choice."""
    table, rows = access.capture.table, access.rows(numbers)
    connections = table.column("connection")[rows]
    if choice.connection is not None:
        of_it: Int64s = numbers[connections == choice.connection]
        return of_it
    assert choice.participants is not None
    # all exchanges of a connection with one client ID have the same participants
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
    """Return start and end of a window; a tenth of it is on the other side of its anchor."""
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
    """Yield the starts and ends of connections that belong to a window.

    :param from_first: whether nothing comes before the window
    :param to_last: whether nothing comes after it
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
