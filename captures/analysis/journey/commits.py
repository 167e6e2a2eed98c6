"""What groups have finished: offsets that they commit, also within transactions, and records that share groups settle.

Offsets of a transaction (TxnOffsetCommit) count once EndTxn has committed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from captures.analysis.journey.ledger import Ledger
from captures.analysis.journey.model import Settlement
from captures.analysis.journey.record_query import RecordQuery
from captures.analysis.record_traffic import commits_of
from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, items, number, rows, text
from captures.meaning.topic_partitions import TopicPartition
from dissectors.api_keys import ApiKey

_ACKNOWLEDGED = {1: Settlement.ACCEPTED, 2: Settlement.RELEASED, 3: Settlement.REJECTED}
"""``AcknowledgeType.java``; 0 is a gap, 4 renews the lock."""


class _OpenTransaction(NamedTuple):
    offset: int
    sent: int
    member: int


class CommitTracker:
    """Records commits; exchanges must be in order.

    :param names: returns names of topic IDs
    """

    def __init__(self, sought: RecordQuery, names: Names, ledger: Ledger) -> None:
        self._query = sought
        self._names = names
        self._ledger = ledger
        self._latest: dict[tuple[str, TopicPartition], int] = {}
        self._undecided: dict[str, dict[tuple[str, TopicPartition], _OpenTransaction]] = {}

    def add(self, exchange: Exchange, answered: int) -> None:
        """Learn from one exchange of any API.

        :param answered: time of the response, ns since the epoch; -1 if there was none
        """
        key = exchange.api_key
        request = exchange.request_body
        response = exchange.response_body
        if key == ApiKey.OFFSET_COMMIT:
            self._commit(exchange, request, response, answered)
        elif key == ApiKey.TXN_OFFSET_COMMIT:
            self._commit_in_transaction(exchange, request, response)
        elif key == ApiKey.END_TXN and response.get("error_code") == 0:
            decided = self._undecided.pop(text(request, "transactional_id"), {})
            if request.get("committed"):
                for (group, tp), each in decided.items():
                    self._add(group, tp, each, answered, exchange.number, Settlement.IN_TRANSACTION)
        elif key == ApiKey.INIT_PRODUCER_ID and response.get("error_code") == 0:
            # aborts open transactions of the former producer with the same ID
            self._undecided.pop(text(request, "transactional_id"), None)
        elif key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
            self._settle(exchange, request, response, answered)

    # ------------------------------------------------------------ commits
    def _commit(self, exchange: Exchange, request: Body, response: Body, answered: int) -> None:
        group, member = text(request, "group_id"), self._ledger.texts(text(request, "member_id"))
        for tp, offset in self._stored(request, response):
            each = _OpenTransaction(offset, exchange.time, member)
            self._add(group, tp, each, answered, exchange.number, Settlement.COMMITTED)

    def _commit_in_transaction(self, exchange: Exchange, request: Body, response: Body) -> None:
        group, member = text(request, "group_id"), self._ledger.texts(text(request, "member_id"))
        undecided = self._undecided.setdefault(text(request, "transactional_id"), {})
        for tp, offset in self._stored(request, response):
            undecided[group, tp] = _OpenTransaction(offset, exchange.time, member)

    def _add(
        self,
        group: str,
        tp: TopicPartition,
        each: _OpenTransaction,
        answered: int,
        at: int,
        kind: Settlement,
    ) -> None:
        if self._latest.get((group, tp)) == each.offset:
            return  # idle clients commit the same offset repeatedly
        self._latest[group, tp] = each.offset
        commits = self._ledger.of(tp).commits_of(group)
        commits.add(-1, each.offset - 1, each.sent, answered, at, each.member, kind)

    def _stored(self, request: Body, response: Body) -> Iterator[tuple[TopicPartition, int]]:
        for tp, offset, error in commits_of(request, response, self._names):
            if error == 0 and self._query.may_be(*tp, self._names):
                yield tp, offset

    # ------------------------------------------------------------ share groups
    def _settle(self, exchange: Exchange, request: Body, response: Body, answered: int) -> None:
        group, member = text(request, "group_id"), self._ledger.texts(text(request, "member_id"))
        failed = {
            tp
            for tp, row in self._query.rows(response, "responses", self._names)
            if row.get("acknowledge_error_code")
            or (exchange.api_key == ApiKey.SHARE_ACKNOWLEDGE and row.get("error_code"))
        }
        if answered < 0 or response.get("error_code"):
            return
        for tp, row in self._query.rows(request, "topics", self._names):
            for each in rows(row, "acknowledgement_batches") if tp not in failed else ():
                commits = self._ledger.of(tp).commits_of(group)
                for first, last, kind in _settled(each):
                    commits.add(first, last, exchange.time, answered, exchange.number, member, kind)


def _settled(batch: Body) -> Iterator[tuple[int, int, Settlement]]:
    """Yield ranges of offsets with their settlement; there is one type for each offset, or one for all."""
    first, last = number(batch, "first_offset"), number(batch, "last_offset")
    types = items(batch, "acknowledge_types")
    if first < 0 or last < first or not types:
        return
    if len(types) == 1:
        if types[0] in _ACKNOWLEDGED:
            yield first, last, _ACKNOWLEDGED[types[0]]
        return
    for offset, each in zip(range(first, last + 1), types, strict=False):
        if each in _ACKNOWLEDGED:
            yield offset, offset, _ACKNOWLEDGED[each]
