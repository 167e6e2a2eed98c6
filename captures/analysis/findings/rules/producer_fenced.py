"""Producers that were fenced by another one with the same transactional ID, or by the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import transactional_id
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.findings.transactions import TRANSACTION_APIS, Init, Transaction, Transactions
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode, error_name

_CODES = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)


class _FencedProducer(NamedTuple):
    """The fenced producer.

    :ivar transaction: transactional ID; empty for a producer that is only idempotent
    """

    client: str
    transaction: str


class _FencingCause(msgspec.Struct):
    """How a producer was fenced.

    :ivar rival: InitProducerId of the rival with the same transactional ID; None if that was not seen
    :ivar overdue: ns for which its transaction was open when it got the error, if that exceeds its timeout
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    codes: dict[int, None] = {}
    rival: Init | None = None
    overdue: int | None = None
    timeout: int | None = None


class ProducerFenced(Rule):
    """Looks for producers whose epoch is no longer valid."""

    name = "producer_fenced"
    title = "Fenced producers"
    about = (
        "A broker refuses requests of a producer with an old epoch: PRODUCER_FENCED (90, KIP-588), "
        "INVALID_PRODUCER_EPOCH (47). The epoch rises when another producer starts with the same transactional.id"
        " (InitProducerId): that is how a restarted instance shuts out the one it replaces (KIP-98). It also "
        "rises when the coordinator aborts a transaction that is open longer than transaction.timeout.ms. Two "
        "instances with one ID that fence each other in turn are a configuration error. "
        "INVALID_PRODUCER_ID_MAPPING (49) means that the coordinator has forgotten the ID "
        "(transactional.id.expiration.ms)."
    )
    apis = TRANSACTION_APIS

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._transactions = Transactions()
        self._found: dict[_FencedProducer, _FencingCause] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.all_if_met(_CODES)

    def add(self, exchange: Exchange) -> None:
        codes = {error.code for error in exchange.errors} & _CODES if exchange.errors else set()
        if codes:
            self._shut_out(exchange, codes)
        self._transactions.add(exchange)

    def _shut_out(self, exchange: Exchange, codes: set[int]) -> None:
        name = transactional_id(exchange)
        if not name and exchange.api_key in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS):
            return  # a broker on behalf of producers (KIP-890), or writing markers: producers get the error too
        shut = self._found.setdefault(_FencedProducer(client_name(exchange), name), _FencingCause())
        shut.seen.add(exchange)
        shut.codes.update(dict.fromkeys(sorted(codes)))
        known = self._transactions.known.get(name)
        if known is None or shut.rival is not None:
            return
        shut.rival = _rival(known, exchange)
        if known.open is not None and known.timeout is not None and shut.rival is None:
            age = exchange.time - known.open.time
            if age > known.timeout:
                shut.overdue, shut.timeout = age, known.timeout

    def findings(self) -> Iterator[Finding]:
        for who, shut in self._found.items():
            named = f" ({who.transaction})" if who.transaction else ""
            errors = ", ".join(error_name(code) for code in shut.codes)
            reason, advice, certainty = _explained(who, shut)
            shown = f"{of_client(who.client)} and error in {{{', '.join(map(str, shut.codes))}}}"
            if who.transaction:
                shown += f" and transactional_id == {quoted(who.transaction)}"
            yield self.finding(
                f"client {who.client}{f', transactional ID {who.transaction}' if who.transaction else ''}",
                f"Producer {who.client}{named} was fenced ({errors} in "
                f"{words.counted(shut.seen.count, 'response')}): {reason}.",
                advice,
                shut.seen,
                filter_text=shown,
                severity=Severity.HIGH if ErrorCode.INVALID_PRODUCER_ID_MAPPING in shut.codes else None,
                certainty=certainty,
            )


def _rival(known: Transaction, exchange: Exchange) -> Init | None:
    """Return the latest InitProducerId, if another producer sent it after the fenced producer's own."""
    if not known.inits:
        return None
    latest = known.inits[-1]
    client = client_name(exchange)
    if latest.client != client:
        return latest
    # both may share a client ID: then the same client sent InitProducerId on two connections
    return latest if len(known.inits) > 1 and latest.connection != known.inits[0].connection else None


def _explained(who: _FencedProducer, shut: _FencingCause) -> tuple[str, str, Certainty]:
    """Return the reason, the advice, and the certainty."""
    if ErrorCode.INVALID_PRODUCER_ID_MAPPING in shut.codes:
        return (
            "the coordinator does not know the producer ID of this transactional ID any more",
            (
                "Create the producer anew. Its transactional ID was not used for transactional.id.expiration.ms (7 "
                "days by default): raise that, unless the state was lost in another way."
            ),
            Certainty.OBSERVED,
        )
    if shut.rival is not None:
        other = "another producer" if shut.rival.client == who.client else f"client {shut.rival.client}"
        return (
            (
                f"{other} began with the same transactional ID (InitProducerId #{shut.rival.number}, epoch "
                f"{shut.rival.epoch})"
            ),
            (
                "Nothing to do if an instance was replaced, or an administrator fenced it. If both should run, give "
                "each its own transactional.id. The fenced producer has to be closed; its open transaction was "
                "aborted."
            ),
            Certainty.OBSERVED,
        )
    if shut.overdue is not None and shut.timeout is not None:
        return (
            (
                f"its transaction was open for {span(shut.overdue)}, longer than "
                f"transaction.timeout.ms ({span(shut.timeout)}), and the coordinator aborted it"
            ),
            (
                "The transaction was aborted, and its work has to be done again. Commit more often, or raise "
                "transaction.timeout.ms (at most transaction.max.timeout.ms of the brokers)."
            ),
            Certainty.INFERRED,
        )
    return (
        "another producer started with its transactional ID, or the coordinator aborted its transaction; neither is "
        "in this capture"
        if who.transaction
        else "its epoch is older than the broker's",
        (
            "Look for a second instance with the same transactional.id, and for transactions that are open longer than "
            "transaction.timeout.ms."
        ),
        Certainty.POSSIBLE,
    )
