"""The connections of a party, opened and closed, and the end of the party."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from captures.analysis.attempts import ended, ending
from captures.analysis.broker_disconnects import BrokerDisconnect, BrokerDisconnects, Reason
from captures.analysis.client_identity import client_name
from captures.analysis.client_trace.model import Line, Phase, TracedClient
from captures.analysis.connection_stats import LONG_UNANSWERED, OPEN, ConnectionRow, ConnectionStats
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Capture, Exchange
from captures.meaning import words
from captures.names.names import split
from captures.time_format import span

_EXPLAINED = {
    Reason.SASL_FAILED: "authentication failed",
    Reason.NOT_AUTHENTICATED: "the client did not authenticate",
    Reason.UNSUPPORTED_VERSION: "the broker does not know the version of the request",
    Reason.TOO_LARGE: "the request was too large",
    Reason.ACKS_0: "a Produce with acks=0 failed",
    Reason.STOPPED: "the broker stopped",
    Reason.IDLE: "it was idle (connections.max.idle.ms)",
}


_CRASHED = "; it did not leave its group: it crashed, was killed or cut off, or closed without"


class ConnectionHistories:
    """Follows the connections of a party.

    :param capture: capture of the added exchanges
    """

    def __init__(self, capture: Capture, party: TracedClient) -> None:
        self._capture = capture
        self._party = party
        self._stats = ConnectionStats(capture)
        self._closings = BrokerDisconnects(capture)
        self._clients: dict[int, str] = {}
        self._named: set[int] = set()
        self._counts: Counter[int] = Counter()
        self._last: Exchange | None = None

    def add(self, exchange: Exchange) -> None:
        """Process one exchange of the party."""
        connection = exchange.connection
        self._closings.add(exchange)
        if connection not in self._named:
            self._clients[connection] = client_name(exchange)
            if exchange.client_id:
                self._named.add(connection)
        self._counts[connection] += 1
        self._last = exchange

    def name_clients(self, lines: Iterable[Line]) -> None:
        """Set the client IDs of lines from other exchanges of the same connection."""
        for line in lines:
            known = self._clients.get(line.connections[0]) if len(line.connections) == 1 else None
            if known and line.client and line.client not in self._party.client_ids:
                line.client = known

    def from_the_beginning(self) -> bool:
        """Return whether the start of the party's first connection was captured."""
        first = min(self._party.ties, key=lambda each: self._capture.connections.first_time[each])
        return self._stats.row(first).whole

    def left_unanswered(self, exchange: Exchange) -> bool:
        """Return whether the client waited for an answer; one that leaves cuts off its own long polls."""
        over = ended(self._capture, exchange.connection)
        until = int(self._capture.observed_until(exchange.connection)) if over is None else over
        return until - exchange.time > LONG_UNANSWERED

    def lines(self) -> Iterator[Line]:
        """Yield lines for opened and closed connections."""
        closings = {closing.connection: closing for closing in self._closings.result()}
        for connection in self._party.ties:
            row = self._stats.row(connection)
            yield self._opening(row)
            if row.ended != OPEN:
                yield self._closing(row, closings.get(connection))

    def _opening(self, row: ConnectionRow) -> Line:
        if not row.whole:
            how = (
                "was open as the capture begins"
                if row.first <= self._begin()
                else "begins, its handshake was not captured"
            )
        elif row.handshake is None:
            how = "opened"
        else:
            how = f"opened, accepted after {span(row.handshake)}"
        tls = self._capture.decryption.summary(row.connection)
        parts = [how, tls or "", f"not Kafka in the clear: {row.foreign}" if row.foreign and not tls else ""]
        return self._line(row, row.first, "opened", words.listed(parts), trouble=bool(row.foreign))

    def _closing(self, row: ConnectionRow, closing: BrokerDisconnect | None) -> Line:
        time = ended(self._capture, row.connection) or row.last
        lasted = f"after {span(max(time - row.first, 0))} and {words.counted(self._counts[row.connection], 'exchange')}"
        why = _EXPLAINED.get(closing.reason, "") if closing is not None else ""
        parts = [f"{row.ended} {lasted}"]
        if why:
            parts.append(f"likely because {why}")
        if row.then_reset_by:
            parts.append(f"then reset by {row.then_reset_by}")
        by_client = row.ended.endswith("client")
        trouble = not by_client or row.ended.startswith("reset")
        line = self._line(row, time, "closed", ", ".join(parts), trouble=trouble)
        if why:
            line.certainty = Certainty.INFERRED
        return line

    def _line(self, row: ConnectionRow, time: int, what: str, how: str, *, trouble: bool) -> Line:
        broker = self._capture.shown_endpoints(row.connection)[1]
        host = split(row.client)[0]
        client = self._clients.get(row.connection) or host
        text = words.line(f"connection {row.connection} to {broker}: {how}")
        return Line(
            time=time,
            until=time,
            what=f"connection_{what}",
            text=text,
            client=client,
            connections=[row.connection],
            brokers=[broker],
            trouble=trouble,
            key=(what, client, broker),
        )

    def _begin(self) -> int:
        first = self._capture.connections.first_time
        return int(first.min()) if len(first) else 0

    # ------------------------------------------------------------ the end
    def ending(self, lines: Sequence[Line]) -> Line:
        """Return how the party ended, as far as the capture shows it.

        :param lines: all other lines, ordered by time
        """
        ends = {connection: ending(self._capture, connection) for connection in self._party.ties}
        over = [end for end in ends.values() if end is not None]
        still = [connection for connection, end in ends.items() if end is None]
        ties = np.array(list(self._party.ties), np.int64)
        latest = int(self._capture.observed_until(ties).max(initial=0))
        last = self._last
        last_packet = latest if last is None else last.end
        certainty, crashed = Certainty.OBSERVED, False
        if still:
            what = f"as the capture ends, {words.counted(len(still), 'connection')} of {len(ends)} still open"
            quiet = latest - last_packet
            text = f"{what}; last heard of {span(quiet)} before" if quiet > 0 else what
            time = latest
        else:
            time = max(end.time for end in over)
            by = {"broker" if end.by_broker else "client" for end in over}
            text = f"its {len(ends):,} connections were" if len(ends) > 1 else "its connection was"
            text += f" closed by the {' or the '.join(sorted(by))}"
            parting, certainty = self._parting(lines, cut_off="broker" in by)
            text, crashed = text + parting, parting == _CRASHED
        return Line(
            time=max(time, lines[-1].time if lines else 0),
            until=max(time, lines[-1].time if lines else 0),
            what="end",
            phase=Phase.END,
            text=text,
            numbers=[last.number] if last is not None else [],
            last=last.number if last is not None else None,
            connections=sorted(still),
            trouble=crashed,
            certainty=certainty,
        )

    def _parting(self, lines: Iterable[Line], *, cut_off: bool) -> tuple[str, Certainty]:
        """Return how it left its groups, and how certain that is.

        :param cut_off: whether brokers closed connections of it
        """
        if not self._party.members:
            return "", Certainty.OBSERVED
        spoken = [line for line in lines if line.what in ("join", "leave", "member", "heartbeats")]
        latest = max(spoken, key=lambda line: line.until, default=None)
        if latest is not None and latest.what == "leave":
            for_a_while = " for a while" if "for a while" in latest.text else ""
            return f"; it had left its group{for_a_while}", Certainty.OBSERVED
        if self._party.instances:
            return (
                "; as a static member it did not leave its group (a crash would look the same)",
                Certainty.OBSERVED,
            )
        if cut_off:
            return "; it did not leave its group", Certainty.OBSERVED
        return _CRASHED, Certainty.INFERRED
