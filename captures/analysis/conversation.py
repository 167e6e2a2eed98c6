"""The steps of conversations between clients and brokers, with repetitions folded, as sequence diagrams draw them.

Participants are clients and brokers; a step is an exchange, or the start or end of a connection. Steps are ordered by
time. Folding compares the shown text of steps without numbers: one exchange "×14", or several in turn as a loop.

Used by :mod:`captures.export.mermaid` and the conversation view of the terminal UI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from captures.analysis.repetitions import repetitions
from captures.exchanges import Capture, Exchange, Flag

_LONGEST_LOOP = 4
_LEAST_TURNS = 2
# steps that structure a group or a transaction
_NEVER_FOLDED = frozenset({"JoinGroup", "SyncGroup", "LeaveGroup", "InitProducerId", "EndTxn"})
# continuous traffic: all are equal, whatever they carry
_STEADY = frozenset({"Produce", "Fetch", "ShareFetch", "Heartbeat", "OffsetCommit"})
_NUMBER = re.compile(r"\d[\d,.]*")
_PLURAL = re.compile(r"# (\w+?)s\b")


class Kind(Enum):
    """The kind of a step."""

    EXCHANGE = "exchange"
    OPEN = "connection opened"
    CLOSE = "connection closed"
    RESET = "connection reset"


class Outcome(Enum):
    """How an exchange ended."""

    ANSWERED = "answered"
    ERROR = "error"
    """Answered with an error that does not belong to a normal conversation."""
    UNANSWERED = "no answer"
    NOT_RECORDED = "not recorded"
    """Bytes are missing where the response would be."""
    IN_FLIGHT = "in flight"
    """Not answered yet, but it may still be."""
    NONE_DUE = "none expected"
    ORPHAN = "no request"


@dataclass(frozen=True, slots=True)
class Participant:
    """A client or broker.

    :ivar name: client ID, or the host if there is none; for a broker, its address
    :ivar address: host of a client, ``host:port`` of a broker; with names instead of addresses where known
    """

    is_client: bool
    name: str
    address: str

    @property
    def has_id(self) -> bool:
        """Whether it is a client whose name is its client ID."""
        return self.is_client and self.name != self.address


@dataclass(slots=True)
class Step:
    """One exchange, or the start or end of a connection.

    :ivar number: number of the exchange, 0 if it is none
    :ivar time: ns since the epoch, when it began
    :ivar api: empty if it is no exchange
    :ivar request: API, version and summary, or what happened to the connection; empty for an orphan
    :ivar response: summary
    :ivar latency: ns, None without one
    :ivar waited: whether part of it is a designed wait
    :ivar by_broker: for the end of a connection, whether the broker was first
    """

    kind: Kind
    number: int
    connection: int
    time: int
    client: Participant
    broker: Participant
    api: str = ""
    request: str = ""
    response: str = ""
    outcome: Outcome = Outcome.ANSWERED
    latency: int | None = None
    waited: bool = False
    by_broker: bool = False
    _key: tuple[object, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def end(self) -> int:
        """When the answer arrived, ns since the epoch, as far as known."""
        return self.time + max(self.latency or 0, 0)

    @property
    def key(self) -> tuple[object, ...] | None:
        """Equal for steps that may be folded, None for steps that may not.

        It is the shown text without numbers: ``at offset 17`` repeats ``at offset 16``.
        """
        if self.kind is not Kind.EXCHANGE or self.api in _NEVER_FOLDED:
            return None
        if self._key is None:
            self._key = self._make_key()
        return self._key

    def _make_key(self) -> tuple[object, ...]:
        if self.api in _STEADY:
            texts = [self.response if self.outcome is Outcome.ERROR else ""]
        else:
            texts = [_PLURAL.sub(r"# \1", _NUMBER.sub("#", text)) for text in (self.request, self.response)]
        return self.client, self.broker, self.outcome, self.api, *texts


@dataclass(frozen=True, slots=True)
class Fold:
    """Repeated steps.

    :ivar every: all of them, turn by turn
    :ivar length: number of steps in a turn
    """

    every: Sequence[Step]
    length: int

    @property
    def turns(self) -> int:
        """Number of turns."""
        return len(self.every) // self.length

    @property
    def steps(self) -> Sequence[Step]:
        """Steps of the first turn."""
        return self.every[: self.length]

    def of(self, index: int) -> Sequence[Step]:
        """Return the steps at `index` of all turns."""
        return self.every[index :: self.length]

    def latencies(self, index: int) -> list[int]:
        """Return the known latencies of the steps at `index` of all turns, in ns."""
        return [step.latency for step in self.of(index) if step.latency is not None]

    def differ(self, index: int) -> tuple[bool, bool]:
        """Return whether the texts of request and response differ between turns."""
        return (
            len({step.request for step in self.of(index)}) > 1,
            len({step.response for step in self.of(index)}) > 1,
        )


# ---------------------------------------------------------------- steps
def participants(exchange: Exchange) -> tuple[Participant, Participant]:
    """Return client and broker of an exchange."""
    host = next(iter(exchange.client_names), exchange.client.rpartition(":")[0])
    broker = exchange.shown_broker
    return Participant(True, exchange.client_id or host, host), Participant(False, broker, broker)


def exchange_step(
    exchange: Exchange, ends: tuple[Participant, Participant], summaries: tuple[str, str]
) -> Step:
    """Return the step of an exchange."""
    version = "" if exchange.version is None else f" v{exchange.version}"
    request, response = " ".join(filter(None, [f"{exchange.api}{version}", summaries[0]])), summaries[1]
    outcome = _outcome(exchange)
    if outcome is Outcome.UNANSWERED:
        response = "no answer"
    elif outcome is Outcome.NOT_RECORDED:
        response = "answer not recorded"
    elif outcome is Outcome.ORPHAN:
        request, response = "", "answer to a request that was not captured"
    return Step(
        Kind.EXCHANGE,
        exchange.number,
        exchange.connection,
        exchange.time,
        *ends,
        exchange.api,
        request,
        response,
        outcome,
        exchange.latency,
        bool(exchange.wait),
    )


def _outcome(exchange: Exchange) -> Outcome:
    if Flag.NO_RESPONSE_EXPECTED in exchange.flag and not exchange.response_size:
        return Outcome.NONE_DUE
    if Flag.UNANSWERED in exchange.flag:
        return Outcome.UNANSWERED
    if Flag.NOT_RECORDED in exchange.flag:
        return Outcome.NOT_RECORDED
    if Flag.ORPHAN in exchange.flag:
        return Outcome.ORPHAN
    if exchange.failed:
        return Outcome.ERROR
    return Outcome.ANSWERED if exchange.response_size else Outcome.IN_FLIGHT


def opening(capture: Capture, connection: int, ends: tuple[Participant, Participant]) -> Step | None:
    """Return the step that opened a connection, None if that was not captured."""
    opened = int(capture.connections.syn_time[connection])
    if opened < 0:
        return None
    delay = int(capture.connections.handshake[connection])
    return Step(
        Kind.OPEN,
        0,
        connection,
        opened,
        *ends,
        request=f"TCP connect from port {_port(capture, connection)}",
        latency=delay if delay >= 0 else None,
    )


def closing(capture: Capture, connection: int, ends: tuple[Participant, Participant]) -> Step | None:
    """Return the step that ended a connection, None if no end was captured."""
    streams, client = capture.connections.streams, capture.client_stream(connection)
    found = [
        (int(times[client ^ side]), kind.name, kind, bool(side))
        for kind, times in ((Kind.CLOSE, streams.fin_time), (Kind.RESET, streams.reset_time))
        for side in (0, 1)
        if times[client ^ side] >= 0
    ]
    if not found:
        return None
    time, _, kind, by_broker = min(found)
    done = "closes" if kind is Kind.CLOSE else "resets"
    text = f"{done} the connection from port {_port(capture, connection)}"
    return Step(kind, 0, connection, time, *ends, request=text, by_broker=by_broker)


def _port(capture: Capture, connection: int) -> str:
    return capture.endpoints(connection)[0].rpartition(":")[2]


def name_clients(steps: Sequence[Step]) -> None:
    """Set the client IDs of steps without one, if other steps of the same connection have it.

    Steps without one are responses without a request, and SASL tokens.
    """
    known = {step.connection: step.client for step in reversed(steps) if step.client.has_id}
    for step in steps:
        if not step.client.has_id and step.connection in known:
            step.client = known[step.connection]
            step._key = None


# ---------------------------------------------------------------- folding
def folded(steps: Iterable[Step]) -> list[Fold]:
    """Fold repetitions among steps, the shortest pattern first.

    :param steps: in any order; they are sorted by time
    """
    ordered = sorted(steps, key=lambda step: step.time)
    # a number equals no other key
    keys = [at if step.key is None else step.key for at, step in enumerate(ordered)]
    return [
        Fold(ordered[at : at + length * turns], length)
        for at, length, turns in repetitions(keys, _LONGEST_LOOP, _LEAST_TURNS)
    ]
