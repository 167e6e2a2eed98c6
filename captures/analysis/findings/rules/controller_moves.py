"""Requests to brokers that are not, or no longer, the controller; the move itself is an incident."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import some_of, unexpected, with_errors
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import words
from dissectors.error_codes import ErrorCode


class ControllerMoves(Rule):
    """Finds brokers that clients mistake for the controller."""

    name = "controller_moves"
    effect_of = EffectOf.CONTROLLERS
    title = "Requests to a broker that is no longer the controller"
    about = (
        "NOT_CONTROLLER: another broker or controller has been elected. Brokers and admin clients look up the new"
        " one and retry. Clients of a KRaft cluster never get this error, because brokers forward their requests "
        "(KIP-590)."
    )
    severity = Severity.LOW
    key = Key.BROKER
    apis = None

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._asked: dict[str, tuple[Occurrences, dict[str, None]]] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.failed

    def add(self, exchange: Exchange) -> None:
        if unexpected(exchange, {ErrorCode.NOT_CONTROLLER}):
            seen, clients = self._asked.setdefault(exchange.broker, (Occurrences(), {}))
            seen.add(exchange)
            clients[client_name(exchange)] = None

    def findings(self) -> Iterator[Finding]:
        for broker, (seen, clients) in self._asked.items():
            shown = self.context.capture.names.shown(broker)
            yield self.finding(
                f"broker {shown}",
                f"{shown} refused {words.counted(seen.count, 'request')} of {some_of(clients)} because it is not the "
                "controller.",
                "Nothing to do for a single change of controller. If there are many, check the former controller's log "
                "for the cause: garbage collection, a slow disk of its metadata log, quorum timeouts.",
                seen,
                filter_text=f"{with_errors([ErrorCode.NOT_CONTROLLER])} and broker == {quoted(broker)}",
            )
