"""Statistics per connection: traffic, identity, TCP health, and how it ended."""

from __future__ import annotations

from collections import Counter, defaultdict

import msgspec

from captures.analysis.attempts import ending
from captures.analysis.client_identity import ConnectionKey, Introduction, Introductions
from captures.analysis.exchange_groups import ExchangeGroup
from captures.analysis.round_trips import RoundTrips
from captures.exchanges import Capture, Exchange
from captures.json_objects import OrNull, Sides, Time
from dissectors.api_keys import ApiKey
from dissectors.sides import ENDS

OPEN = "open"
LONG_UNANSWERED = 1_000_000_000
"""ns; twice the default of ``fetch.max.wait.ms``."""


class ConnectionRow(msgspec.Struct):
    """One TCP connection.

    Bytes, packets, losses and retransmissions are those of the whole connection as captured; exchanges are those added.

    :ivar connection: its ID in the capture
    :ivar client_name: name of the client's address, None if it has none
    :ivar broker_name: name of the broker's address, None if it has none
    :ivar client_ids: client IDs in requests; usually one
    :ivar first: time of the first packet, ns since the epoch
    :ivar last: time of the last packet, ns since the epoch
    :ivar handshake: ns from SYN to SYN-ACK; None if not captured
    :ivar round_trip: ns of a round trip to the broker, which is the network's share of every latency: the handshake,
        else what the kernel reported to a proxy; None if unknown
    :ivar whole: whether its start was captured
    :ivar foreign: what it looks like if it is not Kafka in the clear, such as TLS; empty if it is Kafka
    :ivar introduction: software and SASL
    :ivar versions: API -> versions used
    :ivar fallback: if the broker did not know the requested version of ApiVersions (KIP-511): requested version ->
        answered version
    :ivar unanswered: API -> requests without an answer
    :ivar unanswered_for: ns from the oldest of them to the end of the connection, or of the capture if it was still
        open; None if there is none. A client that leaves cuts off its own long poll: that is short, and harmless
    :ivar request_bytes: TCP payload from the client
    :ivar response_bytes: TCP payload from the broker
    :ivar retransmitted: retransmitted payload bytes, from client and broker
    :ivar lost: bytes that were not captured, from client and broker
    :ivar cut: bytes cut by the snapshot length, from client and broker
    :ivar zero_windows: packets in which client and broker announced a zero window
    :ivar ended: ``closed by client``, ``closed by broker``, ``reset by client``, ``reset by broker`` (by the first FIN
        or RST), ``closed by kproxy``, ``reset by kproxy`` (for a rule or a user), or ``open``
    :ivar then_reset_by: who reset it after it was closed: ``client``, ``broker`` or None
    """

    JSON = (
        "connection client broker client_name broker_name client_ids first last whole foreign exchanges "
        "errors versions fallback unanswered orphans request_bytes response_bytes packets retransmitted "
        "reordered lost cut zero_windows ended then_reset_by software=introduction.software "
        "mechanism=introduction.mechanism principal=introduction.principal "
        "authenticated=introduction.authenticated refusal=introduction.refusal "
        "authentications=introduction.authentications handshake_ns=handshake "
        "rtt_ns=round_trip "
        "unanswered_for_ns=unanswered_for"
    )

    connection: int
    client: str
    broker: str
    client_name: str | None
    broker_name: str | None
    client_ids: list[str]
    first: Time
    last: Time
    handshake: int | None
    round_trip: int | None
    whole: bool
    foreign: OrNull[str]
    introduction: Introduction
    exchanges: int
    errors: int
    versions: dict[str, list[int]]
    fallback: dict[int, int]
    unanswered: dict[str, int]
    unanswered_for: int | None
    orphans: int
    request_bytes: int
    response_bytes: int
    packets: Sides
    retransmitted: Sides
    reordered: Sides
    lost: Sides
    cut: Sides
    zero_windows: Sides
    ended: str
    then_reset_by: str | None

    @property
    def troubled(self) -> bool:
        """Whether it deserves attention."""
        refused = self.introduction.authenticated is False
        lossy = any(map(sum, (self.lost, self.cut, self.zero_windows)))
        hung = (self.unanswered_for or 0) > LONG_UNANSWERED
        return bool(self.foreign or refused or hung or lossy or self.ended.startswith("reset"))


class _Sums(msgspec.Struct):
    exchanges: int = 0
    errors: int = 0
    orphans: int = 0
    client_ids: dict[str, None] = {}
    versions: dict[str, set[int]] = {}
    fallback: dict[int, int] = {}
    unanswered: Counter[str] = msgspec.field(default_factory=Counter)
    unanswered_first: dict[str, tuple[int, int]] = {}
    """API -> number and time of the first exchange."""


class ConnectionStats:
    """Counts the exchanges of one capture by connection, and adds TCP's figures.

    :param capture: capture of the added exchanges
    :ivar introductions: what clients said of themselves
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._round_trips = RoundTrips(capture)
        self.introductions = Introductions()
        self._sums: defaultdict[int, _Sums] = defaultdict(_Sums)

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self.introduce(exchange)
        self.count(ExchangeGroup.of(exchange))

    def introduce(self, exchange: Exchange) -> None:
        """Learn from one exchange who speaks on its connection, and the version of ApiVersions."""
        self.introductions.add(exchange)
        response = exchange.response
        if (
            exchange.api_key == ApiKey.API_VERSIONS
            and response is not None
            and response.version not in (None, response.asked)
        ):
            self._sums[exchange.connection].fallback[response.asked] = response.version or 0

    def count(self, group: ExchangeGroup) -> None:
        """Count exchanges."""
        sums = self._sums[group.connection.connection]
        sums.exchanges += group.exchanges
        sums.errors += group.errors
        sums.orphans += group.orphans
        if group.client_id:
            sums.client_ids[group.client_id] = None
        if group.version is not None:
            sums.versions.setdefault(group.api, set()).add(group.version)
        if group.unanswered_first is not None:
            sums.unanswered[group.api] += group.unanswered
            first = sums.unanswered_first.get(group.api, group.unanswered_first)
            sums.unanswered_first[group.api] = min(first, group.unanswered_first)

    def result(self, *, begin: int | None = None, end: int | None = None) -> list[ConnectionRow]:
        """Return the connections: troubled ones first, then by exchanges, then by first packet.

        :param begin: leave out connections that ended before (ns since the epoch)
        :param end: leave out connections that began after it (ns since the epoch)
        """
        columns = self._capture.connections
        rows = [
            self.row(connection)
            for connection in range(len(columns))
            if (begin is None or columns.last_time[connection] >= begin)
            and (end is None or columns.first_time[connection] <= end)
        ]
        return sorted(rows, key=lambda row: (not row.troubled, -row.exchanges, row.connection))

    def row(self, connection: int) -> ConnectionRow:
        """Return one connection."""
        capture = self._capture
        known = capture.connections[connection]
        client, broker = capture.endpoints(connection)
        sums = self._sums.get(connection) or _Sums()
        turned = capture.client_stream(connection) & 1
        sides = known.directions[turned], known.directions[1 - turned]

        def both(name: str) -> tuple[int, int]:
            return getattr(sides[0], name), getattr(sides[1], name)

        ended, reset = _ended(capture, connection, both("reset_time"))
        sent, received = both("end")
        over = known.last_time if ended != OPEN else int(capture.observed_until(connection))
        first = sums.unanswered_first
        since = min(first.values())[1] if first else None
        # the largest first, equal ones by their first exchange
        unanswered = sorted(sums.unanswered.items(), key=lambda item: (-item[1], first[item[0]]))
        return ConnectionRow(
            connection=connection,
            client=client,
            broker=broker,
            client_name=next(iter(capture.names.of(client)), None),
            broker_name=next(iter(capture.names.of(broker)), None),
            client_ids=list(sums.client_ids),
            first=known.first_time,
            last=known.last_time,
            handshake=known.handshake if known.handshake >= 0 else None,
            round_trip=self._round_trips.of(connection),
            whole=sides[0].syn_seen and sides[1].syn_seen,
            foreign=capture.foreign.get(connection, ""),
            introduction=self.introductions.of(ConnectionKey(connection, client, broker)),
            exchanges=sums.exchanges,
            errors=sums.errors,
            versions={api: sorted(used) for api, used in sorted(sums.versions.items())},
            fallback=sums.fallback,
            unanswered=dict(unanswered),
            unanswered_for=None if since is None else over - since,
            orphans=sums.orphans,
            request_bytes=sent,
            response_bytes=received,
            packets=both("packets"),
            retransmitted=both("retransmitted"),
            reordered=both("reordered"),
            lost=both("lost"),
            cut=both("cut"),
            zero_windows=both("zero_windows"),
            ended=ended,
            then_reset_by=reset,
        )


def _ended(capture: Capture, connection: int, resets: tuple[int, int]) -> tuple[str, str | None]:
    """Return how a connection ended, and who reset it after that.

    :param resets: times at which client and broker reset it, -1 for never
    """
    end = ending(capture, connection)
    if end is None:
        return OPEN, None
    how = "reset" if end.reset else "closed"
    if connection in capture.notes.ended_connections:
        return f"{how} by kproxy", None
    later = [(time, side) for time, side in zip(resets, ENDS, strict=True) if time >= 0 and not end.reset]
    return f"{how} by {ENDS[end.by_broker]}", min(later)[1] if later else None
