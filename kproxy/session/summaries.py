"""The content of the list's lines, made for visible lines, and cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import SETTLED, Exchange, Flag
from captures.exchanges.table import LOGGED_SIDES
from captures.faults import Faults
from captures.filters import FilterError
from captures.filters.context import Context
from captures.filters.field_values import FieldValues
from captures.meaning import words
from kproxy.session.access import Access
from kproxy.session.engine import Steps
from kproxy.session.published import State, Summary
from kproxy.text.interventions import marks

SLOW = 100_000_000
"""ns of latency without designed waits from which on an exchange is slow."""

_MOST_KEPT = 20_000
_TURN = 0.008  # seconds of work before more urgent jobs may run


class Summaries:
    """A cache that one thread fills and another reads.

    :param ask: schedules the latest request
    :ivar version: changes when some were made
    :ivar slow: ns from which on an exchange is slow
    :ivar color: returns the colour of a line, empty for plain text
    """

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask
        self._made: dict[int, Summary] = {}
        self._outdated: set[int] = set()
        self._requested: Sequence[int] = ()
        self._fields: tuple[FieldValues, ...] = ()
        self.version = 0
        self.slow = SLOW
        self.color: Callable[[Exchange, Context, Faults], str] = no_color

    # ------------------------------------------------------------ for the display
    def get(self, number: int) -> Summary | None:
        """Return the summary of an exchange, which may be outdated; None if there is none yet."""
        return self._made.get(number)

    def want(self, numbers: Sequence[int]) -> None:
        """Request the summaries of these; the latest request replaces earlier ones."""
        if any(number not in self._made or number in self._outdated for number in numbers):
            self._requested = numbers
            self._ask()

    def show_fields(self, names: Sequence[str]) -> None:
        """Set the fields with values in :attr:`Summary.cells`; names of no field are ignored."""
        fields = []
        for name in names:
            try:
                fields.append(FieldValues(name))
            except FilterError:
                continue
        self._fields = tuple(fields)
        self.clear()

    # ------------------------------------------------------------ for the engine
    def outdate(self, numbers: Int64s) -> None:
        """Mark these as changed."""
        if self._made and len(numbers):
            made = np.fromiter(list(self._made), np.int64)
            self._outdated.update(made[np.isin(made, numbers)].tolist())

    def clear(self) -> None:
        """Mark all as changed."""
        self._outdated.update(self._made)

    def forget(self) -> None:
        """Drop all: their numbers now mean other exchanges."""
        self._made = {}
        self._outdated = set()

    def make(self, access: Access, context: Context) -> Steps[None]:
        requested = self._requested
        wanted = [number for number in requested if number not in self._made or number in self._outdated]
        began = perf_counter()
        for exchange in access.exchanges(wanted, annotated=True):
            self._outdated.discard(exchange.number)
            try:
                made = self._summary(exchange, context, access)
            except Exception as error:
                access.capture.faults.note(error, "the line in the list", exchange.number)
                made = _bare(exchange)
            self._made[exchange.number] = made
            if perf_counter() - began > _TURN:
                self.version += 1
                yield
                began = perf_counter()
                if (
                    self._requested is not requested
                ):  # the visible lines have changed; another job serves them
                    return
        if len(self._made) > _MOST_KEPT:
            for number in list(self._made)[: _MOST_KEPT // 2]:
                if number not in requested:
                    self._made.pop(number, None)
        self.version += 1

    def _summary(self, exchange: Exchange, context: Context, access: Access) -> Summary:
        row = access.capture.table.row(exchange.row) if _pending(exchange) else None
        return _shown(
            exchange,
            wait=exchange.wait,
            client=exchange.client_id or exchange.shown_client,
            client_id=exchange.client_id,
            client_address=exchange.shown_client,
            broker=exchange.shown_broker,
            api=exchange.title,
            request=exchange.summary[0],
            response=exchange.summary[1],
            text=text_of(exchange),
            errors=unexpected(exchange),
            state=state_of(exchange, self.slow),
            running_since=None if row is None else row["request_last"],
            color=self.color(exchange, context, access.capture.faults),
            cells={field.name: words.some(field.texts(exchange, context)) for field in self._fields},
        )


def no_color(_: Exchange, _context: Context, _faults: Faults) -> str:
    """Return no colour: a line stays in the colour of plain text."""
    return ""


def _bare(exchange: Exchange) -> Summary:
    """Return a minimal summary of an exchange that cannot be rendered."""
    return _shown(
        exchange,
        wait=0,
        client=exchange.client,
        client_id=None,
        client_address=exchange.client,
        broker=exchange.broker,
        api=exchange.api,
        request="",
        response="",
        text="it cannot be shown because of an internal error in kproxy",
        errors=(),
        state=State.UNDECODED,
    )


_SAME = (
    "number",
    "time",
    "latency",
    "version",
    "request_size",
    "response_size",
    "connection",
    "correlation_id",
)
"""Attributes that a line shows unchanged."""


def _shown(exchange: Exchange, **more: Any) -> Summary:
    same = {name: getattr(exchange, name) for name in _SAME}
    return Summary(**same, marked=exchange.note.marked, comment=exchange.note.comment, **more)


def _pending(exchange: Exchange) -> bool:
    return not exchange.response_size and not exchange.flag & SETTLED


def unexpected(exchange: Exchange) -> tuple[str, ...]:
    """Return the names of the errors that do not belong to a normal conversation, each once."""
    return tuple(dict.fromkeys(error.name for error in exchange.unexpected_errors))


def state_of(exchange: Exchange, slow: int = SLOW) -> State:
    """Return the most important state of an exchange.

    :param slow: ns from which on it is slow
    """
    flag = exchange.flag
    if _pending(exchange):
        return State.IN_FLIGHT
    damaged = Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED | Flag.CONFLICTING
    conditions = {
        State.DAMAGED: bool(flag & damaged),
        State.UNDECODED: bool(exchange.problems) and Flag.ORPHAN not in flag,
        State.ORPHAN: Flag.ORPHAN in flag,
        State.INTERVENED: exchange.intervened,
        State.UNANSWERED: Flag.UNANSWERED in flag,
        State.NOT_RECORDED: Flag.NOT_RECORDED in flag,
        State.ERROR: exchange.failed,
        State.SLOW: exchange.latency is not None and exchange.latency - exchange.wait >= slow,
        State.CHANGED: bool(exchange.interventions),
        State.EXPECTED: bool(exchange.expected),
        State.ONE_WAY: Flag.NO_RESPONSE_EXPECTED in flag,
    }
    return next((state for state, holds in conditions.items() if holds), State.OK)


def text_of(exchange: Exchange) -> str:
    """Return other peculiarities of an exchange, in words."""
    flag, parts = exchange.flag, []
    if Flag.RESYNCHRONISED in flag:
        parts.append("found after bytes of no frame")
    if Flag.CONFLICTING in flag:
        parts.append("captured twice, with differing bytes")
    parts += [f"{side} from the broker's log" for side, logged in LOGGED_SIDES.items() if logged in flag]
    for body in (exchange.response, exchange.request):
        if body is not None and body.guess:
            parts.append(body.guess)
            break
    for side, problem in (exchange.problems + exchange.annotations.problems)[:1]:
        at = f" at byte {problem.offset}" if problem.offset >= 0 else ""
        parts.append(f"{side}{at}: {problem.reason}")
    done = marks(exchange)
    if done:
        parts.insert(0, done)
    return "; ".join(parts)
