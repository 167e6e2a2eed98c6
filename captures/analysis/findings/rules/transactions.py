"""Transactions that hang, fence their producers, or are read although they were aborted.

A transaction begins with the first request that adds something to it: AddPartitionsToTxn, AddOffsetsToTxn, or, since
Transactions v2 needs neither (KIP-890), a Produce or TxnOffsetCommit that names it. It ends with EndTxn, with another
InitProducerId, when the coordinator aborts what is open too long, which shows in the markers that it writes
(WriteTxnMarkers between brokers), or with an error response that says so to its producer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import (
    NO_FETCH,
    consumer,
    one_of,
    partitions_shown,
    together,
    transactional_id,
)
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.record_traffic import FetchedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.shapes import BatchTrait
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.meaning.exchange import number, rows, text
from captures.time_format import span
from dissectors.api_keys import PRODUCER_APIS, ApiKey
from dissectors.budget import Budget, message_budget
from dissectors.error_codes import ErrorCode, error_name
from dissectors.errors import DecodeError
from dissectors.records import Batch, ControlType, control_record
from dissectors.units import MS

# ---------------------------------------------------------------- transactions

TRANSACTION_APIS = PRODUCER_APIS | {ApiKey.WRITE_TXN_MARKERS}
_COORDINATOR_APIS = frozenset(
    {ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN}
)
_ADDING_APIS = frozenset(
    {ApiKey.PRODUCE, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT}
)
_NO_LONGER_OPEN = frozenset({
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.PRODUCER_FENCED,
})  # fmt: skip
_MOST_KNOWN = 20_000
"""Most transactional IDs that are kept, because some programs make new ones all the time; the oldest are dropped."""


class Init(NamedTuple):
    """An InitProducerId that was answered.

    :ivar number: number of the exchange
    """

    number: int
    time: int
    client: str
    connection: int
    producer: int
    epoch: int


class Open(NamedTuple):
    """An open transaction.

    :ivar time: when it began
    :ivar number: number of the exchange that began it
    :ivar client: client that began it
    """

    time: int
    number: int
    client: str
    connection: int


class Transaction(msgspec.Struct):
    """A transactional ID, and its open transaction.

    :ivar timeout: ``transaction.timeout.ms`` in the producer's request, in ns; None if that was not seen
    :ivar coordinated: whether its producers' requests to the coordinator are in the capture
    :ivar inits: the last two InitProducerId, the latest last
    :ivar open: None if there is none
    """

    transactional_id: str
    timeout: int | None = None
    coordinated: bool = False
    inits: tuple[Init, ...] = ()
    open: Open | None = None


class Transactions:
    """Follows transactions by their transactional IDs; exchanges must be added in the order of their numbers."""

    def __init__(self) -> None:
        self.known: dict[str, Transaction] = {}
        self._producers: dict[int, str] = {}

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.WRITE_TXN_MARKERS:
            for aborted in self.overdue(exchange):
                aborted.open = None
            return
        name = transactional_id(exchange)
        if not name:
            return
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = Transaction(name)
            while len(self.known) > _MOST_KNOWN:
                self._forget(next(iter(self.known)))
        key = exchange.api_key
        known.coordinated |= key in _COORDINATOR_APIS
        if key == ApiKey.INIT_PRODUCER_ID:
            self._init(known, exchange)
        elif exchange.errors:
            # this producer has no open transaction any more; another client may have one
            if known.open is not None and known.open.client == client_name(exchange) and _is_over(exchange):
                known.open = None
        elif key == ApiKey.END_TXN:
            if exchange.response is not None:
                known.open = None
        elif key in _ADDING_APIS and known.open is None:
            known.open = Open(exchange.time, exchange.number, client_name(exchange), exchange.connection)

    def overdue(self, exchange: Exchange) -> list[Transaction]:
        """Return the transactions that a WriteTxnMarkers aborts and that were open longer than their timeout.

        Others were ended by their producers: markers follow EndTxn, possibly after the next transaction has begun.
        """
        found = []
        for row in rows(exchange.request_body, "markers"):
            known = self.known.get(self._producers.get(number(row, "producer_id"), ""))
            if known is None or known.open is None or known.timeout is None or row.get("transaction_result"):
                continue
            if exchange.time - known.open.time >= known.timeout:
                found.append(known)
        return found

    def _forget(self, name: str) -> None:
        for init in self.known.pop(name).inits:
            self._producers.pop(init.producer, None)

    def _init(self, known: Transaction, exchange: Exchange) -> None:
        request, response = exchange.request_body, exchange.response_body
        if not response or number(response, "error_code", 0):
            return
        timeout = number(request, "transaction_timeout_ms")
        if timeout > 0:
            known.timeout = timeout * MS
        made = Init(
            exchange.number,
            exchange.time,
            client_name(exchange),
            exchange.connection,
            number(response, "producer_id"),
            number(response, "producer_epoch"),
        )
        for earlier in known.inits:
            self._producers.pop(earlier.producer, None)
        self._producers[made.producer] = known.transactional_id
        known.inits = (*known.inits[-1:], made)
        known.open = None


def _is_over(exchange: Exchange) -> bool:
    return any(error.code in _NO_LONGER_OPEN for error in exchange.errors)


# ---------------------------------------------------------------- aborted_data_read

_READ_COMMITTED = 1
_MOST_OPEN = 20_000
"""Most transactions whose end has not been read yet; the oldest are dropped first."""


class _TransactionRead(NamedTuple):
    """A transaction in one partition, as read by one client."""

    client: str
    topic: str
    partition: int
    producer: int


class _Open(msgspec.Struct):
    """Records of a transaction that were read before its end.

    :ivar end: offset after the last of them: records that are fetched again do not count twice
    """

    number: int
    time: int
    records: int = 0
    end: int = -1


class _AbortedRead(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    records: int = 0
    partitions: set[int] = set()


class AbortedDataRead(Rule):
    """Matches abort markers with records that the same consumer got before them."""

    name = "aborted_data_read"
    needs = Lack.RECORDS
    title = "Aborted records read"
    about = (
        "A consumer with isolation.level=read_uncommitted, the default of the Java client, gets the records of "
        "aborted transactions like any others (KIP-98). If the producer sends them again after the abort, the "
        "consumer gets them twice. A read_committed consumer receives these records too, with a list of those to "
        "skip. Detected by the abort markers in Fetch responses."
    )
    key = Key.CLIENT
    apis = frozenset({ApiKey.FETCH})
    unseen = NO_FETCH

    _open: dict[_TransactionRead, _Open] = {}
    _found: dict[tuple[str, str], _AbortedRead] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        transactions = rows.of_consumers & rows.with_batches(BatchTrait.TRANSACTIONAL)
        found = rows.ever("transactions that are read", transactions)
        return None if found else rows.evidence_of(rows.of_consumers)

    def add(self, exchange: Exchange) -> None:
        client = consumer(exchange)
        if not client:
            return
        self.saw_any = True
        if number(exchange.request_body, "isolation_level", 0) == _READ_COMMITTED:
            return
        budget = message_budget()
        for part in self.context.records.fetched(exchange):
            for batch in part.batches:
                if batch.transactional:
                    reading = _TransactionRead(client, part.topic, part.partition, batch.producer_id)
                    self._batch(exchange, reading, part, batch, budget)

    def _batch(
        self,
        exchange: Exchange,
        reading: _TransactionRead,
        part: FetchedPartition,
        batch: Batch,
        budget: Budget,
    ) -> None:
        if batch.control:
            held = self._open.pop(reading, None)
            if held is not None and _aborts(batch, budget):
                read = self._found.setdefault((reading.client, part.topic), _AbortedRead())
                read.seen.note(held.number, held.time)
                read.records += held.records
                read.partitions.add(part.partition)
            return
        held = self._open.get(reading)
        if held is None:
            held = self._open[reading] = _Open(exchange.number, exchange.time)
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
        if batch.base_offset >= held.end:
            held.records += batch.count or 0
            held.end = batch.last_offset + 1

    def findings(self) -> Iterator[Finding]:
        for (client, topic), read in self._found.items():
            yield self.finding(
                f"client {client}, topic {topic}",
                f"Client {client} read {words.counted(read.records, 'record')} of "
                f"{words.counted(read.seen.count, 'aborted transaction')} from {topic} "
                f"({partitions_shown(read.partitions)}): it uses isolation.level=read_uncommitted.",
                "Set isolation.level=read_committed on this consumer, unless it is meant to see aborted records, as "
                "monitoring and mirroring tools may be.",
                read.seen,
                filter_text=f"api == Fetch and {of_client(client)} and {of_topic(topic)} and records > 0",
            )


def _aborts(batch: Batch, budget: Budget) -> bool:
    """Return whether a control batch holds an abort marker."""
    records, _ = batch.read(budget)
    for record in records:
        try:
            if control_record(record.key, record.value).type_id == ControlType.ABORT:
                return True
        except DecodeError:
            continue
    return False


# ---------------------------------------------------------------- producer_fenced

_FENCING_CODES = frozenset(
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
    only_after = _FENCING_CODES
    apis = TRANSACTION_APIS

    _transactions: Transactions = msgspec.field(default_factory=Transactions)
    _found: dict[_FencedProducer, _FencingCause] = {}

    def add(self, exchange: Exchange) -> None:
        codes = {error.code for error in exchange.errors} & _FENCING_CODES if exchange.errors else set()
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
            reason, advice, certainty = _fencing_explained(who, shut)
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


def _fencing_explained(who: _FencedProducer, shut: _FencingCause) -> tuple[str, str, Certainty]:
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


# ---------------------------------------------------------------- hanging_transactions

_HANGING_ADVICE = (
    "Find the producer (kafka-transactions.sh find-hanging, describe-producers), and why it neither commits "
    "nor aborts: too much work in one transaction, or a process that died or hangs. With a lower "
    "transaction.timeout.ms the coordinator aborts sooner; kafka-transactions.sh abort ends a transaction "
    "that it does not know."
)


class _StableOffset(msgspec.Struct):
    """The progress of a partition's last stable offset.

    :ivar since: when the offset was first seen with records after it
    :ivar number: number of the exchange that showed it
    :ivar latest: when the offset was last seen
    :ivar longest: the longest stay, as (ns, last stable offset, high watermark then)
    """

    offset: int = -1
    since: int = 0
    number: int = 0
    latest: int = 0
    longest: tuple[int, int, int] = (0, 0, 0)
    seen: Occurrences = msgspec.field(default_factory=Occurrences)


class _OpenTime(msgspec.Struct):
    """How long transactions of one transactional ID were open.

    :ivar client: client whose EndTxn was refused; empty for others
    :ivar age: ns for which the latest, or the oldest, was open; None if unknown
    :ivar timeout: its ``transaction.timeout.ms`` in ns; None if unknown
    """

    client: str = ""
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    age: int | None = None
    timeout: int | None = None


class HangingTransactions(Rule):
    """Looks for transactions that stay open, in requests and responses of producers, coordinators and leaders."""

    name = "hanging_transactions"
    title = "Transactions that hang"
    about = (
        "An open transaction holds up every read_committed consumer of its partitions: they read only up to the "
        "last stable offset, the first offset of an open transaction (KIP-98). The coordinator aborts a "
        "transaction that is open longer than transaction.timeout.ms, and then answers EndTxn with "
        "INVALID_TXN_STATE (48) or fences the producer. A transaction unknown to the coordinator stays open "
        "forever (KIP-664, before KIP-890). Detected by producers that begin a transaction and do not end it, "
        "refused EndTxn requests, markers that abort transactions open for too long, last stable offsets that do "
        "not move while records follow them, and DescribeTransactions responses."
    )
    apis = TRANSACTION_APIS | {ApiKey.FETCH, ApiKey.DESCRIBE_TRANSACTIONS}
    thresholds = (
        Threshold(
            "open",
            60_000,
            Unit.MS,
            "how long a transaction may be open, or transaction.timeout.ms where that is shorter",
        ),
    )

    _transactions: Transactions = msgspec.field(default_factory=Transactions)
    _stable: dict[tuple[str, int], _StableOffset] = {}
    _refused: dict[str, _OpenTime] = {}
    _aborted: dict[str, _OpenTime] = {}
    _late: dict[str, _OpenTime] = {}
    _described: dict[str, _OpenTime] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        names = rows.columns.flat("transactional") > 0
        others = ~rows.of_api({ApiKey.PRODUCE, ApiKey.FETCH})
        held_back = rows.columns.flat("held_back") > 0
        found: Bools = names | others
        if rows.ever("records behind the last stable offset", held_back):
            found |= rows.of_api({ApiKey.FETCH})
        return found

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.FETCH:
            for part in self.context.records.fetched(exchange):
                self._fetched(exchange, part)
        elif exchange.api_key == ApiKey.DESCRIBE_TRANSACTIONS:
            self._describe(exchange)
        else:
            if exchange.api_key == ApiKey.END_TXN:
                self._ended(exchange)
            elif exchange.api_key == ApiKey.WRITE_TXN_MARKERS:
                for known in self._transactions.overdue(exchange):
                    aborted = self._aborted.setdefault(known.transactional_id, _OpenTime())
                    aborted.seen.add(exchange)
                    aborted.age, aborted.timeout = _age(known, exchange), known.timeout
            self._transactions.add(exchange)

    # ------------------------------------------------------------ observations
    def _fetched(self, exchange: Exchange, part: FetchedPartition) -> None:
        stable, end = part.last_stable_offset, part.high_watermark
        if part.error or stable < 0 or end < 0:
            return
        tp = part.topic, part.partition
        known = self._stable.get(tp)
        if stable >= end:
            if known is not None:
                known.offset = -1
            return
        if known is None:
            known = self._stable[tp] = _StableOffset()
        if stable > known.offset:
            known.offset, known.since, known.number = stable, exchange.time, exchange.number
        elif stable < known.offset:
            return  # a response of another replica, or one in flight
        known.latest = exchange.time
        stay = exchange.time - known.since, stable, end
        if stay[0] > self._limit_ns:
            known.seen.add(exchange)
        known.longest = max(known.longest, stay)

    def _ended(self, exchange: Exchange) -> None:
        name = transactional_id(exchange)
        known = self._transactions.known.get(name)
        age = _age(known, exchange)
        codes = {error.code for error in exchange.errors}
        if ErrorCode.INVALID_TXN_STATE in codes:
            refused = self._refused.setdefault(name, _OpenTime(client_name(exchange)))
            refused.seen.add(exchange)
            if age is not None and known is not None:
                refused.age, refused.timeout = age, known.timeout
        elif known is not None and age is not None and age > self._bound(known) and not codes:
            late = self._late.setdefault(name, _OpenTime())
            late.seen.add(exchange)
            late.age = max(late.age or 0, age)

    def _describe(self, exchange: Exchange) -> None:
        for row in rows(exchange.response_body, "transaction_states"):
            begun = number(row, "transaction_start_time_ms")
            name, state = text(row, "transactional_id"), text(row, "transaction_state")
            age = exchange.time - begun * MS
            if name and begun > 0 and state == "Ongoing" and age > self._limit_ns:
                described = self._described.setdefault(name, _OpenTime())
                described.seen.add(exchange)
                described.age = age

    @property
    def _limit_ns(self) -> int:
        return int(self.limit("open") * MS)

    def _bound(self, known: Transaction) -> int:
        """Return how long a transaction may be open, in ns."""
        return min(self._limit_ns, known.timeout) if known.timeout is not None else self._limit_ns

    # ------------------------------------------------------------ findings
    def findings(self) -> Iterator[Finding]:
        yield from self._still_open()
        for name, refused in self._refused.items():
            yield self._refused_finding(name, refused)
        for name, aborted in self._aborted.items():
            yield self.finding(
                f"transactional ID {name}, aborted",
                f"The coordinator aborted {words.counted(aborted.seen.count, 'transaction')} of {name} for being open "
                f"too long: {span(aborted.age or 0)}, with transaction.timeout.ms of {span(aborted.timeout or 0)}.",
                _HANGING_ADVICE,
                aborted.seen,
                filter_text="api == WriteTxnMarkers",
                certainty=Certainty.INFERRED,
            )
        for name, late in self._late.items():
            yield self.finding(
                f"transactional ID {name}",
                f"Transactions of {name} were open for up to {span(late.age or 0)} before they ended.",
                _HANGING_ADVICE,
                late.seen,
                filter_text=f"transactional_id == {quoted(name)}",
                severity=Severity.LOW,
            )
        held_up: dict[str, dict[int, _StableOffset]] = {}
        for (topic, partition), stable in self._stable.items():
            if stable.seen:
                held_up.setdefault(topic, {})[partition] = stable
        for topic, partitions in held_up.items():
            yield self._held_up(topic, partitions)
        for name, described in self._described.items():
            yield self.finding(
                f"transactional ID {name}, as described",
                f"The coordinator describes a transaction of {name} that had been open for {span(described.age or 0)}.",
                _HANGING_ADVICE,
                described.seen,
                filter_text=f"transactional_id == {quoted(name)}",
            )

    def _still_open(self) -> Iterator[Finding]:
        for name, known in self._transactions.known.items():
            # without requests to the coordinator, the end of a transaction would not be seen
            if known.open is None or not known.coordinated:
                continue
            age = int(self.context.capture.observed_until(known.open.connection)) - known.open.time
            if age <= self._bound(known):
                continue
            timeout = "" if known.timeout is None else f" (transaction.timeout.ms {span(known.timeout)})"
            yield self.finding(
                f"transactional ID {name}, open",
                f"Client {known.open.client} began a transaction of {name} {span(age)} before the end of the "
                f"capture and has neither committed nor aborted it{timeout}.",
                _HANGING_ADVICE,
                Occurrences.of([(known.open.number, known.open.time)]),
                filter_text=f"transactional_id == {quoted(name)}",
                # some take minutes by design, such as those of Flink, which end with its checkpoints
                severity=None if known.timeout is None or age > known.timeout else Severity.LOW,
                certainty=Certainty.INFERRED,
            )

    def _refused_finding(self, name: str, refused: _OpenTime) -> Finding:
        age, timeout = refused.age, refused.timeout
        if age is not None and timeout is not None and age > timeout:
            why = (
                f": it was open for {span(age)}, longer than transaction.timeout.ms ({span(timeout)}), and the "
                "coordinator had aborted it"
            )
        elif age is not None:
            why = f": it was open for {span(age)}, and the coordinator did not know it as open any more"
        else:
            why = ": the coordinator knew of no open transaction"
        return self.finding(
            f"transactional ID {name}, EndTxn",
            f"Client {refused.client} could not end a transaction of {name} (INVALID_TXN_STATE){why}.",
            "The transaction was aborted, and its work has to be done again. Do less in one transaction, or raise "
            "transaction.timeout.ms (at most transaction.max.timeout.ms of the brokers).",
            refused.seen,
            filter_text=f"api == EndTxn and transactional_id == {quoted(name)} and error",
        )

    def _held_up(self, topic: str, partitions: dict[int, _StableOffset]) -> Finding:
        worst = max(partitions, key=lambda partition: partitions[partition].longest)
        longest, offset, end = partitions[worst].longest
        more = len(partitions) - 1
        others = f" (and of {words.counted(more, 'other partition')})" if more else ""
        return self.finding(
            f"topic {topic}",
            f"The last stable offset of {topic}-{worst}{others} stood at {offset:,} for {span(longest)} while there "
            f"were records up to {end:,}: a transaction is open there, and read_committed consumers get nothing "
            f"beyond it.",
            _HANGING_ADVICE,
            together(stable.seen for stable in partitions.values()),
            filter_text=f"api == Fetch and {of_topic(topic)} and {one_of('partition', sorted(partitions))}",
        )


def _age(known: Transaction | None, exchange: Exchange) -> int | None:
    """Return for how many ns a transaction was open at an exchange; None if it is not known to be open."""
    return None if known is None or known.open is None else exchange.time - known.open.time
