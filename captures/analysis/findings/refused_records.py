"""The base of rules that look for records which brokers refuse."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, NamedTuple

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import NO_PRODUCE, some_of
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.record_traffic import ProducedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning.exchange import number
from dissectors.api_keys import ApiKey
from dissectors.error_codes import error_name


class Refusal(NamedTuple):
    """What a broker refuses: the subject of a finding."""

    client: str
    topic: str
    code: int

    @property
    def subject(self) -> str:
        return f"client {self.client}, topic {self.topic}, {error_name(self.code)}"

    @property
    def filter(self) -> str:
        return (
            f"api == Produce and {of_client(self.client)} and {of_topic(self.topic)} and error == {self.code}"
        )


class RefusedRecords(Rule):
    """Looks at the partitions of Produce requests.

    :cvar codes: the errors that it looks for
    """

    apis = frozenset({ApiKey.PRODUCE})
    unseen = NO_PRODUCE
    codes: ClassVar[Collection[int]]

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._silent: dict[str, None] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.of_producers(self.codes)

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True
        if number(exchange.request_body, "acks") == 0:
            self._silent[client_name(exchange)] = None
        for part in self.context.records.produced(exchange):
            self.produced(exchange, part)

    def produced(self, exchange: Exchange, part: ProducedPartition) -> None:
        """Add a partition of a Produce."""
        raise NotImplementedError

    def blind(self) -> str:
        """Return why errors cannot be seen, or not all."""
        if not self._silent:
            return super().blind()
        return f"brokers report no errors to clients that produce with acks=0: {some_of(self._silent)}"
