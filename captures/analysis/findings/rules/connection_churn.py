"""Clients that keep opening connections."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import some_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.time_format import span
from dissectors.api_keys import CONNECTING
from dissectors.units import SECOND

_MINUTE = 60 * SECOND


class ConnectionChurn(Rule):
    """Finds hosts that open many short connections to a broker, which are accepted and used."""

    name = "connection_churn"
    effect_of = EffectOf.BROKERS
    title = "Connections opened all the time"
    about = (
        "A client keeps one or two connections to a broker for as long as it runs. A host that opens many short "
        "ones creates a client for each piece of work, or keeps losing its connections. Each connection costs a "
        "TCP handshake, plus TLS and SASL, ApiVersions and Metadata, and counts towards "
        "max.connection.creation.rate (KIP-612)."
    )
    key = Key.BROKER
    apis = None
    thresholds = (
        Threshold(
            "opened", 60, Unit.COUNT, "connections of a client host to a broker opened within a minute"
        ),
        Threshold("life", 10_000, Unit.MILLISECONDS, "half of them lived no longer than this"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._clients: dict[int, str] = {}
        """Client ID of each connection on which something was answered; empty if it has none."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.first(rows.answered & (rows.api_key >= 0) & ~rows.of_api(CONNECTING))

    def add(self, exchange: Exchange) -> None:
        works = exchange.response_size and exchange.api_key not in CONNECTING and exchange.api_key is not None
        if works and exchange.connection not in self._clients:
            self._clients[exchange.connection] = exchange.client_id or ""

    def findings(self) -> Iterator[Finding]:
        capture = self.context.capture
        begun = capture.connections.syn_time
        found: dict[tuple[str, str], list[int]] = {}
        by_kproxy = capture.notes.ended_connections
        for connection in self._clients.keys() - by_kproxy if by_kproxy else self._clients:
            if connection < len(begun) and begun[connection] >= 0:
                client, broker = capture.endpoints(connection)
                found.setdefault((client.rpartition(":")[0], broker), []).append(connection)
        for (host, broker), times in found.items():
            opened = np.sort(begun[np.array(times, np.int64)])
            most = _most_within(opened, _MINUTE)
            if most < self.limit("opened"):
                continue
            life = int(np.median(_lives(self.context, times)))
            if life <= self.limit("life") * SECOND // 1000:
                yield self._finding(host, broker, times, most, life)

    def _finding(self, host: str, broker: str, opened: list[int], most: int, life: int) -> Finding:
        names, begun = self.context.capture.names, self.context.capture.connections.syn_time
        seen = Occurrences()
        for connection in opened:
            seen.note(0, int(begun[connection]))
        clients = some_of({self._clients[each]: None for each in opened if self._clients[each]})
        shown_host, shown = names.shown_host(host), names.shown(broker)
        return self.finding(
            f"client {shown_host}, broker {shown}",
            f"{shown_host}{f' ({clients})' if clients else ''} opened {len(opened):,} connections to {shown}, up to"
            f" {most:,} within a minute; half of them lived no longer than {span(life)}.",
            "Keep one producer or consumer for the life of the process. If connections break, see the findings "
            "closed_by_broker and authentication_failures.",
            seen,
            filter_text=f"client.host == {quoted(host.strip('[]'))} and broker == {quoted(broker)}",
            connections=opened,
        )


def _most_within(times: Int64s, span: int) -> int:
    """Return the greatest number of sorted times within a span."""
    return int((np.arange(len(times)) - np.searchsorted(times, times - span)).max()) + 1 if len(times) else 0


def _lives(context: RuleContext, connections: list[int]) -> Int64s:
    """Return the lifetimes of connections in ns; those of open connections end now."""
    rows = np.array(connections, np.int64)
    all_of_them = context.capture.connections
    latest = context.capture.observed_until(rows)
    gone = all_of_them.closed_before(rows, context.capture.latest + 1)
    ends = np.where(gone, all_of_them.last_time[rows], latest)
    lives: Int64s = ends - all_of_them.first_time[rows]
    return lives
