"""The possible columns of the list of exchanges, and how each makes its text.

A column is one of :data:`COLUMNS`, or made of a field: any name of the filter language (``topic``), or the path of any
field of a message (``request.topics[0].name``). The session puts the texts of fields into :attr:`Summary.cells`. Texts
are as on the wire; painting escapes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache

from captures.filters import Filter, FilterError, compile_filter, complete
from captures.filters.field_values import FieldValues
from captures.meaning import words
from captures.time_format import clock, day, milliseconds
from dissectors.units import SECOND
from kproxy.session.published import HeldMessage, State, Summary
from kproxy.tui.states import labelled

NOTHING = "-"

_DATE = len("11-21 ")
_TO_THE_SECOND = len("09:14:03")
_TO_THE_MILLISECOND = len("09:14:03.218")


@dataclass(frozen=True, slots=True)
class Clock:
    """The references that times are shown relative to.

    :ivar zone: time zone of clock times; None for local time
    :ivar begin: origin of elapsed times, in ns since the epoch
    :ivar now: end of the running time of exchanges in flight, in ns since the epoch
    :ivar above: start of the exchange on the line above, in ns since the epoch; None if there is none
    """

    zone: tzinfo | None
    begin: int
    now: int
    above: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    :ivar id: name in the configuration file
    :ivar title: heading
    :ivar doc: short explanation for the dialog of columns
    :ivar least: minimum width in cells; with less room it is left out rather than shrunk
    :ivar most: maximum width in cells for long texts; a ``flexible`` column may get more
    :ivar text: makes the text of an exchange, which may be shorter for the given number of cells
    :ivar right: whether it is aligned to the right
    :ivar whole: whether only the widths ``least`` and ``most`` are useful, and none in between
    :ivar firm: whether its texts must not be cut: a number without some of its digits is wrong
    :ivar flexible: weight for sharing the width that no column needs, 0 for none
    :ivar expendable: columns with a higher figure are left out first if there is no room; 0 is never left out
    :ivar states: states of an exchange whose colour it is shown in
    :ivar repeats: whether text equal to that of the line above is dimmed
    :ivar order: the order that sorting by it gives (:mod:`kproxy.session.order`); empty if it cannot be sorted by
    """

    id: str
    title: str
    doc: str
    least: int
    most: int
    text: Callable[[Summary, Clock, int], str]
    right: bool = False
    whole: bool = False
    firm: bool = False
    flexible: int = 0
    expendable: int = 0
    states: frozenset[State] = frozenset()
    repeats: bool = False
    order: str = ""


def running(nanoseconds: int) -> str:
    """Return the duration of something that has not ended: ``…1.2s``, ``…3m05s``."""
    seconds = max(nanoseconds, 0) / SECOND
    if seconds < 99.95:
        return f"…{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 100:
        return f"…{minutes}m{rest:02d}s"
    return f"…{minutes // 60}h{minutes % 60:02d}m"


def _time(summary: Summary, at: Clock, room: int) -> str:
    shown = clock(summary.time, at.zone)
    return shown if room >= _TO_THE_MILLISECOND else shown[:_TO_THE_SECOND]


def _dated(summary: Summary, at: Clock, room: int) -> str:
    shown = _time(summary, at, room - _DATE)
    return f"{day(summary.time, at.zone)[-_DATE + 1 :]} {shown}"


def _delta(summary: Summary, at: Clock, _room: int) -> str:
    return NOTHING if at.above is None else f"{(summary.time - at.above) / SECOND:.3f}"


def _elapsed(summary: Summary, at: Clock, _room: int) -> str:
    return f"{(summary.time - at.begin) / SECOND:.3f}"


def _latency(summary: Summary, at: Clock, _room: int) -> str:
    if summary.latency is not None:
        return milliseconds(summary.latency)
    return NOTHING if summary.running_since is None else running(at.now - summary.running_since)


def _excess(summary: Summary, _at: Clock, _room: int) -> str:
    return NOTHING if summary.latency is None else milliseconds(summary.latency - summary.wait)


def _summary(summary: Summary, _at: Clock, _room: int) -> str:
    if not summary.response:
        return summary.request
    return f"{summary.request} → {summary.response}" if summary.request else f"→ {summary.response}"


def _bytes(count: int) -> str:
    return words.size(count).removesuffix(" B") if count else NOTHING


def _sizes(summary: Summary, _at: Clock, _room: int) -> str:
    return f"{_bytes(summary.request_size):>4} {_bytes(summary.response_size):>4}"


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


_TIMED = frozenset((State.HELD, State.IN_FLIGHT, State.SLOW))
_ANY = frozenset(State)

_ALL = (
    Column("number", "#", "number of the exchange in the capture", 4, 10, lambda s, _a, _r: str(s.number), right=True,
           firm=True, order="number"),
    Column("time", "time", "start of the exchange", _TO_THE_SECOND, _TO_THE_MILLISECOND, _time, whole=True,
           order="time"),
    Column("day", "day and time", "when it began, with the day, in the zone of the headline", _DATE + _TO_THE_SECOND,
           _DATE + _TO_THE_MILLISECOND, _dated, whole=True, order="time"),
    Column("delta", "delta s", "seconds since the exchange on the line above", 7, 12, _delta, right=True),
    Column("elapsed", "s", "seconds since the first exchange", 7, 12, _elapsed, right=True, order="time"),
    Column("latency", "ms", "from the end of the request to the start of the response", 6, 9, _latency,
           right=True, firm=True, states=_TIMED, order="latency"),
    Column("wait", "wait ms", "waiting by design within that: long polls, barriers, quotas", 7, 9,
           lambda s, _a, _r: milliseconds(s.wait) if s.wait else "", right=True, order="wait"),
    Column("excess", "excess ms", "latency without the designed wait", 9, 9, _excess, right=True, states=_TIMED,
           order="excess"),
    Column("client", "client", "client ID, else the client's name or address", 7, 24,
           lambda s, _a, _r: s.client, repeats=True, order="client_id"),
    Column("client_id", "client ID", "client ID", 8, 24, lambda s, _a, _r: s.client_id or "", repeats=True,
           order="client_id"),
    Column("client_address", "client address", "address and port of the client", 10, 24,
           lambda s, _a, _r: s.client_address, repeats=True, order="client"),
    Column("broker", "broker", "name or address of the broker", 7, 22, lambda s, _a, _r: s.broker, repeats=True,
           firm=True, expendable=1, order="broker"),
    Column("connection", "conn", "number of the TCP connection", 4, 7, lambda s, _a, _r: str(s.connection), right=True,
           order="connection"),
    Column("correlation_id", "corr", "correlation ID", 5, 11, lambda s, _a, _r: _number(s.correlation_id), right=True,
           order="correlation_id"),
    Column("api", "api", "API and its version", 12, 25, lambda s, _a, _r: s.api, order="api"),
    Column("version", "v", "version of the API", 2, 3, lambda s, _a, _r: _number(s.version), right=True,
           order="version"),
    Column("summary", "request → response", "both, summarised", 18, 40, _summary, flexible=4),
    Column("request", "request", "the request, summarised", 12, 40, lambda s, _a, _r: s.request, flexible=2),
    Column("response", "response", "the response, summarised", 12, 40, lambda s, _a, _r: s.response, flexible=2),
    Column("size", "bytes", "bytes of request and response", 9, 9, _sizes, right=True, expendable=2, order="size"),
    Column("request.size", "req.", "bytes of the request", 4, 4, lambda s, _a, _r: _bytes(s.request_size), right=True,
           order="request_size"),
    Column("response.size", "resp.", "bytes of the response", 5, 5, lambda s, _a, _r: _bytes(s.response_size),
           right=True, order="response_size"),
    Column("state", "state", "the most important: error, slow, no response ...", 9, 24, lambda s, _a, _r: labelled(s),
           states=_ANY),
    Column("error", "error", "errors that are not expected", 8, 28, lambda s, _a, _r: " ".join(s.errors), states=_ANY,
           order="error"),
    Column("comment", "comment", "your comment", 8, 30, lambda s, _a, _r: s.comment, flexible=1),
)  # fmt: skip

COLUMNS = {column.id: column for column in _ALL}
"""The columns that every exchange has, by ID, in the order of the dialog."""


@lru_cache(maxsize=256)
def column(name: str) -> Column:
    """Return a column by its ID: one of :data:`COLUMNS`, or one made of the field with that name."""
    known = COLUMNS.get(name)
    if known is not None:
        return known

    def text(summary: Summary, _at: Clock, _room: int) -> str:
        return summary.cells.get(name, "")

    return Column(name, name.rpartition(".")[2], name, 6, 30, text, order=name)


def field_problem(name: str) -> str:
    """Return why a field cannot be a column, empty if it can."""
    try:
        FieldValues(name)
    except FilterError as error:
        return str(error)
    return ""


_HAS_NO_FIELD = {
    "elapsed": "seconds since the first exchange are a time: time > 5s",
    "delta": "seconds since the line above depend on what is shown: sort and filter by time",
    "day": "the day is part of the time: time >= 2026-11-21T09:14:03Z",
    "state": "a state is no field: write error, not response, or excess > 100ms",
    "size": "this column has two fields: request.size and response.size, or size for both together",
    "summary": "this column is no field: a word alone searches API, client, broker, topic and group",
}


_VERSIONED = re.compile(r"\b(?P<api>[A-Z][A-Za-z]+) v(?P<version>\d+)\b")
"""The text of the column ``api``."""


def compile_typed(text: str, zone: tzinfo | None) -> Filter:
    """Return the filter for a typed text.

    :raises FilterError: if the text is invalid; if it uses a column's title as a field, the hint names the field
    """
    try:
        return compile_filter(text, zone)
    except FilterError as error:
        word = error.text[error.position : error.position + max(error.length, 1)]
        meant = next((each for each in _ALL if each.title == word), None)
        if meant is not None and meant.id in _HAS_NO_FIELD:
            error.hint = _HAS_NO_FIELD[meant.id]
        elif meant is not None and meant.id != word:
            error.hint = f"the column {word} is the field {meant.id}"
        elif shown := _VERSIONED.search(text):
            error.hint = f"write api == {shown['api']} and version == {shown['version']}"
        raise


def field_names(beginning: str) -> list[str]:
    """Return the field names that start with `beginning`, for completion."""
    return [each.text for each in complete(beginning) if each.kind in ("field", "path") and each.start == 0]


def as_summary(held: HeldMessage, now: int) -> Summary:
    """Return a held message as a row of the list, with its age, how many wait behind it, and when it is released.

    :param now: ns since the epoch
    """
    seconds = max(held.until - now, 0) // SECOND
    behind = f", {held.waiting_behind} waiting behind" if held.waiting_behind else ""
    is_request = held.side == "request"
    return Summary(
        number=held.number,
        time=held.since,
        latency=None,
        wait=0,
        client=held.client_id or held.client,
        client_id=held.client_id,
        client_address=held.client,
        broker=held.broker,
        api=f"{held.api} v{held.version}",
        version=held.version,
        request=f"{held.side} held{behind}",
        response="",
        text=f"held, {seconds} s left",
        errors=(),
        request_size=held.size if is_request else 0,
        response_size=0 if is_request else held.size,
        state=State.HELD,
        marked=False,
        comment="",
        connection=held.connection,
        correlation_id=held.correlation_id,
        running_since=held.since,
    )
