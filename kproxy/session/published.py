"""Values that a session publishes for display: immutable, or safe to read from another thread at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from captures.arrays import Int64s
from captures.filters import Filter

_SECONDS = 3.0


class Rate:
    """A rate over the last seconds.

    :param clock: returns seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._events: deque[tuple[float, int]] = deque()
        self._total = 0
        self._begin = clock()

    def add(self, count: int) -> None:
        if count:
            self._events.append((self._clock(), count))
            self._total += count

    def now(self) -> float:
        """Return the recent number of events per second."""
        now = self._clock()
        while self._events and self._events[0][0] < now - _SECONDS:
            self._total -= self._events.popleft()[1]
        return self._total / max(min(_SECONDS, now - self._begin), 0.001)


class State(Enum):
    """The most important state of an exchange; if several apply, the first in this order."""

    HELD = "held"
    IN_FLIGHT = "in flight"
    UNDECODED = "not decoded"
    DAMAGED = "bytes missing"
    ORPHAN = "no request"
    INTERVENED = "kproxy intervened"
    UNANSWERED = "no answer"
    NOT_RECORDED = "answer not recorded"
    ERROR = "error"
    SLOW = "slow"
    CHANGED = "changed"
    EXPECTED = "expected error"
    ONE_WAY = "none expected"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the list. Texts are as on the wire, not cleaned.

    :ivar time: start, ns since the epoch
    :ivar latency: ns from the last byte of the request to the first of the response, None without one of them
    :ivar wait: ns of the latency that are a designed wait
    :ivar client: client ID, or name or address if there is none
    :ivar client_address: ``host:port``, with the host's name if it has one
    :ivar broker: ``host:port``, with the host's name if it has one
    :ivar api: name of the API with its version, ``Fetch v12``
    :ivar request: summary of the request
    :ivar response: summary of the response
    :ivar text: peculiarities, in words; empty if there are none
    :ivar errors: names of the errors that are not expected
    :ivar request_size: bytes, 0 if there is none
    :ivar response_size: bytes, 0 if there is none
    :ivar running_since: arrival of the last byte of an unanswered request, ns since the epoch
    :ivar color: colour of the line, by its name in the theme; empty for plain text
    :ivar cells: texts of further columns, by the text that defines the column
    """

    number: int
    time: int
    latency: int | None
    wait: int
    client: str
    client_id: str | None
    client_address: str
    broker: str
    api: str
    version: int | None
    request: str
    response: str
    text: str
    errors: tuple[str, ...]
    request_size: int
    response_size: int
    state: State
    marked: bool
    comment: str
    connection: int
    correlation_id: int | None
    running_since: int | None = None
    color: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the list.

    :ivar column: id of a column that can be ordered by, see :mod:`kproxy.session.order`
    """

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A message that the proxy holds. It becomes an exchange of the capture only when it continues.

    :ivar number: the proxy's number of it
    :ivar side: ``request`` or ``response``
    :ivar since: arrival, ns since the epoch
    :ivar until: when it continues by itself, before its client gives up, ns since the epoch
    :ivar waiting_behind: messages that wait behind it on its connection
    """

    number: int
    side: str
    api: str
    version: int
    correlation_id: int
    connection: int
    client: str
    client_id: str | None
    broker: str
    size: int
    since: int
    until: int
    waiting_behind: int


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a session.

    :ivar version: changes with any other attribute
    :ivar exchanges: number of exchanges
    :ivar shown: number of exchanges in the list
    :ivar in_flight: requests that are not answered yet, if the capture still grows
    :ivar first: number of the oldest exchange that is kept
    :ivar read: bytes of the capture read so far
    :ivar size: bytes of the capture, None if unknown
    :ivar finished: whether everything was read
    :ivar failure: why reading ended early, empty if it did not
    :ivar filter: current filter
    :ivar filtering: share of the exchanges that the filter has decided, None when it is done
    :ivar filter_rate: exchanges per second that are decided one by one
    :ivar order: order of the list, None is by number
    :ivar marked: number of marked exchanges
    :ivar rate: exchanges per second when the status was published
    :ivar published: when that was, in seconds of the monotonic clock
    :ivar dropped: packets, or bytes, that were seen and not recorded
    :ivar lost: bytes that are missing in the streams
    :ivar latest: time of the latest packet, ns since the epoch
    :ivar begin: time of the first exchange, ns since the epoch; 0 before it
    :ivar notes: notes on the capture: damage, connections that are not Kafka, skipped bytes
    :ivar faults: internal errors that the capture triggered
    """

    version: int = 0
    exchanges: int = 0
    shown: int = 0
    in_flight: int = 0
    first: int = 1
    read: int = 0
    size: int | None = None
    finished: bool = False
    failure: str = ""
    filter: Filter | None = None
    filtering: float | None = None
    filter_rate: float = 0.0
    order: Order | None = None
    marked_only: bool = False
    marked: int = 0
    rate: float = 0.0
    published: float = 0.0
    dropped: int = 0
    lost: int = 0
    latest: int = 0
    begin: int = 0
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def current_rate(self) -> float:
        """Recent exchanges per second; a status that is older than that shows that none have arrived since."""
        return self.rate if time.monotonic() - self.published < _SECONDS else 0.0


class ShownExchanges:
    """The numbers of the exchanges in the list, in list order.

    :param numbers: in list order; None for all from ``first`` on
    :param rising: whether they increase
    """

    def __init__(
        self, version: int, count: int, *, first: int = 1, numbers: Int64s | None = None, rising: bool = True
    ) -> None:
        self.version = version
        self._count = count
        self._first = first
        self._numbers = numbers
        self._rising = rising

    def __len__(self) -> int:
        return self._count

    def number(self, index: int) -> int:
        """Return the number of the exchange on a line.

        :raises IndexError: if there is no such line
        """
        if not 0 <= index < self._count:
            raise IndexError(index)
        return self._first + index if self._numbers is None else int(self._numbers[index])

    def numbers(self, begin: int, end: int) -> list[int]:
        """Return the numbers on lines [begin, end), as far as these exist."""
        begin = max(begin, 0)
        end = max(min(end, self._count), begin)
        if self._numbers is None:
            return list(range(self._first + begin, self._first + end))
        found: list[int] = self._numbers[begin:end].tolist()
        return found

    def all(self) -> Int64s:
        if self._numbers is None:
            return np.arange(self._first, self._first + self._count, dtype=np.int64)
        return self._numbers[: self._count]

    def index_of(self, number: int) -> int | None:
        """Return the line of an exchange, None if it has none."""
        if self._numbers is None:
            index = number - self._first
            return index if 0 <= index < self._count else None
        if self._rising:
            index = int(np.searchsorted(self._numbers, number))
            return index if index < self._count and int(self._numbers[index]) == number else None
        found = np.flatnonzero(self._numbers == number)
        return int(found[0]) if len(found) else None

    def nearest(self, number: int) -> int:
        """Return the line of an exchange, or the nearest line if it has none; 0 if the list is empty."""
        found = self.index_of(number)
        if found is not None:
            return found
        if self._numbers is None:
            return min(max(number - self._first, 0), max(self._count - 1, 0))
        if self._rising:
            return min(int(np.searchsorted(self._numbers, number)), max(self._count - 1, 0))
        return 0


def numbered(numbers: Sequence[int]) -> Int64s:
    """Return numbers as an array."""
    return np.asarray(numbers, np.int64)
