"""Controllers that moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from captures.analysis.findings.common import some_of, unexpected, with_errors
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, Scene, times
from captures.analysis.introductions import client_name
from captures.exchanges import Exchange
from captures.filters.lexer import quoted

_NOT_CONTROLLER = 41


class ControllerMoves(Rule):
    """Finds brokers that were taken for the controller and are not."""

    name: ClassVar[str] = "controller_moves"
    title: ClassVar[str] = "Requests to what is not the controller any more"
    about: ClassVar[str] = (
        "NOT_CONTROLLER: another broker or controller has been elected since. Brokers and admin clients ask who it is"
        " and try again. In a KRaft cluster clients never see it, as brokers forward (KIP-590)."
    )
    severity: ClassVar[Severity] = Severity.LOW
    apis: ClassVar[frozenset[int] | None] = None

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._asked: dict[str, tuple[Occurrences, dict[str, None]]] = {}

    def add(self, exchange: Exchange) -> None:
        if unexpected(exchange, {_NOT_CONTROLLER}):
            seen, clients = self._asked.setdefault(exchange.broker, (Occurrences(), {}))
            seen.add(exchange)
            clients[client_name(exchange)] = None

    def findings(self) -> Iterator[Finding]:
        for broker, (seen, clients) in self._asked.items():
            shown = self.scene.capture.names.shown(broker)
            yield self.finding(
                f"broker {shown}",
                f"{shown} answered {times(seen.count)} that it is not the controller, to {some_of(clients)}.",
                "One change of controller is no trouble. Where they come often, see why it does not stay: its log,"
                " garbage collection, the disk of its metadata log, timeouts of the quorum.",
                seen,
                filter_text=f"{with_errors([_NOT_CONTROLLER])} and broker == {quoted(broker)}",
            )
