"""What rules and holds are given about a frame, and what they decide. The session carries it out.

Nothing here, and no code that decides, touches a socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from captures.interventions import UpstreamBroker
from dissectors.budget import Budget
from dissectors.sides import Side
from kproxy.addresses import address_text

UNKNOWN_API = -1
"""Stands for every API that kproxy does not know."""


@dataclass(slots=True)
class Peers:
    """The two ends of a connection.

    :ivar connection: number, 1 for the first that the proxy accepted
    :ivar client: address and port
    :ivar broker: address and port of the real broker, as resolved
    :ivar node_id: of the broker, None if it is not known (a bootstrap address)
    :ivar client_id: of the last request inspected
    :ivar cluster: name of the broker's cluster; empty if it has none
    """

    connection: int
    client: tuple[str, int]
    broker: tuple[str, int]
    node_id: int | None = None
    client_id: str | None = None
    cluster: str = ""

    @property
    def upstream(self) -> UpstreamBroker:
        """The broker, as it is recorded."""
        return UpstreamBroker(cluster=self.cluster, node_id=self.node_id)

    @property
    def client_text(self) -> str:
        """The client in sentences: its address, and its ID if known."""
        return f"{address_text(*self.client)}{f' ({self.client_id})' if self.client_id else ''}"


class Charge:
    """A share of a budget; it is given back when nothing refers to the charge any more.

    :param budget: the budget charged
    """

    __slots__ = ("_amount", "_budget", "_limit")

    def __init__(self, budget: Budget, limit: str) -> None:
        self._budget = budget
        self._limit = limit
        self._amount = 0

    def add(self, amount: int, what: str) -> None:
        """Charge more.

        :raises LimitReached: if that exceeds what is left; nothing is charged then
        """
        self._budget.spend(self._limit, amount, what)
        self._amount += amount

    def __del__(self) -> None:
        self._budget.give_back(self._limit, self._amount)


@dataclass(slots=True)
class Frame:
    """A whole frame in transit.

    :ivar data: including the size field
    :ivar api_key: of the request, also in a response
    :ivar version: of the request, also in a response
    :ivar time: ns since the epoch at which its last byte arrived
    :ivar request: the request that a response answers, if :meth:`Inspector.wants` was True for it
    :ivar charge: its share of the budget for inspected frames
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


class Ending(Enum):
    """What happens to the connection after a frame. The value is :attr:`captures.interventions.Intervention.ended`."""

    NONE = ""
    CLOSE = "closed"
    RESET = "reset"
    SWALLOW = "swallowed"
    """Nothing more is forwarded in either direction, and nothing closed: a black hole."""


@dataclass(slots=True)
class Verdict:
    """What to do with a frame. By default it is forwarded unchanged.

    :ivar data: bytes to send in the frame's place; None leaves it unchanged, ``b""`` sends nothing
    :ivar answer: if a request is not forwarded: the whole response frame that its client gets, in its turn
    :ivar delay: ns to wait first; later data on the same side of the connection waits behind
    :ivar rate: bytes per second at which to send it, None for no bound
    :ivar hold: the frame waits until :attr:`Hold.release` is called, with a verdict that replaces this one
    :ivar ending: what happens to the connection afterwards
    :ivar comments: for the capture, see :mod:`captures.interventions`
    """

    data: bytes | None = None
    answer: bytes | None = None
    delay: int = 0
    rate: float | None = None
    hold: Hold | None = None
    ending: Ending = Ending.NONE
    comments: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Hold:
    """A held frame.

    :ivar number: identifies it, 1 for the first
    :ivar frame: the frame
    :ivar until: ns since the epoch at which it is released automatically
    :ivar release: set by the session; call it once, with the final verdict
    :ivar waiting_behind: set by the session; returns how many whole frames wait behind this one
    :ivar gone: set by the session: the connection has ended meanwhile, so nothing waits for it
    """

    number: int
    frame: Frame
    until: int
    release: Callable[[Verdict], None] = lambda _: None
    waiting_behind: Callable[[], int] = lambda: 0
    gone: bool = False


UNCHANGED = Verdict()


class Inspector(Protocol):
    """Decides about frames.

    :ivar active: whether anything can match at all; no methods are called while it is False
    """

    active: bool

    def wants(self, side: Side, api_key: int, version: int, peers: Peers) -> bool:
        """Return whether a frame is to be collected and inspected; called at its first bytes. Must be fast.

        A response that is wanted with its request is also asked for with the side "request" when the request arrives.
        """

    def decide(self, frame: Frame) -> Verdict:
        """Decide about a frame. Never raises."""
