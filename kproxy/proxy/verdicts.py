"""What rules and holds get about a frame, and what they decide. The session carries it out.

Nothing here, and no code that decides, touches a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from dissectors.budget import Budget
from dissectors.sides import Side

UNKNOWN_API = -1
"""Stands for every API that kproxy does not know."""


@dataclass(slots=True)
class Peers:
    """Who talks on a connection.

    :ivar connection: number, 1 for the first that the proxy accepted
    :ivar client: address and port
    :ivar broker: address and port of the real broker, as resolved
    :ivar node_id: of the broker, None if it is not known (a bootstrap address)
    :ivar client_id: of the last request that was looked at
    """

    connection: int
    client: tuple[str, int]
    broker: tuple[str, int]
    node_id: int | None = None
    client_id: str | None = None


class Charge:
    """So much of a limit as something takes; it is given back when nothing refers to the charge any more.

    :param budget: what it is taken from
    """

    __slots__ = ("_amount", "_budget", "_limit")

    def __init__(self, budget: Budget, limit: str) -> None:
        self._budget = budget
        self._limit = limit
        self._amount = 0

    def add(self, amount: int, what: str) -> None:
        """Take more.

        :raises LimitReached: if that is more than is left; nothing is taken then
        """
        self._budget.spend(self._limit, amount, what)
        self._amount += amount

    def __del__(self) -> None:
        self._budget.give_back(self._limit, self._amount)


@dataclass(slots=True)
class Frame:
    """A whole frame on its way.

    :ivar data: from the first byte of the size field on
    :ivar api_key: of the request, of a response too
    :ivar version: likewise, as asked
    :ivar time: ns since the epoch at which its last byte came
    :ivar request: of a response: the request it answers, if :meth:`Inspector.wants` was True for that
    :ivar charge: what the data takes of what all frames that are inspected may take
    """

    peers: Peers
    side: Side
    data: bytes
    api_key: int
    version: int
    correlation_id: int
    time: int
    request: Frame | None = None
    charge: Charge | None = None


class Then(Enum):
    """What becomes of the connection after a frame. The value is :attr:`captures.interventions.Intervention.ended`."""

    GO_ON = ""
    CLOSE = "closed"
    RESET = "reset"
    SWALLOW = "swallowed"
    """Nothing more is forwarded in either direction, and nothing closed: a black hole."""


@dataclass(slots=True)
class Verdict:
    """What to do with a frame. Made as it is, it continues unchanged.

    :ivar data: bytes to send on in the frame's place; None leaves it unchanged, ``b""`` sends nothing
    :ivar answer: of a request that is not sent on: the whole response frame that its client gets, in its turn
    :ivar delay: ns to wait first; what comes later on the same side of the connection waits behind
    :ivar rate: bytes a second at which to send it, None for no bound
    :ivar hold: the frame waits until :attr:`Hold.release` is called; its verdict then counts instead of this one
    :ivar then: what becomes of the connection afterwards
    :ivar comments: for the capture, see :mod:`captures.interventions`
    """

    data: bytes | None = None
    answer: bytes | None = None
    delay: int = 0
    rate: float | None = None
    hold: Hold | None = None
    then: Then = Then.GO_ON
    comments: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Hold:
    """A held frame.

    :ivar number: by which it is named, 1 for the first
    :ivar frame: what is held
    :ivar until: ns since the epoch at which it is released by itself
    :ivar release: set by the session; call it once, with the verdict that counts then
    :ivar waiting_behind: set by the session; tells how many whole frames wait behind this one
    :ivar gone: set by the session: the connection has ended meanwhile, so nothing waits for it
    """

    number: int
    frame: Frame
    until: int
    release: Callable[[Verdict], None] = lambda _: None
    waiting_behind: Callable[[], int] = lambda: 0
    gone: bool = False


GO_ON = Verdict()


class Inspector(Protocol):
    """Who decides about frames.

    :ivar active: whether anything can match at all; nothing is asked while it is False
    """

    active: bool

    def wants(self, side: Side, api_key: int, version: int, peers: Peers) -> bool:
        """Whether a frame is to be collected and shown; asked at its first bytes. Must be fast.

        Asked with the side "request" too for a response that is wanted with its request, when the request comes.
        """

    def decide(self, frame: Frame) -> Verdict:
        """Decide about a frame. Never raises."""
