"""Transactions that stay open, time out, or hold consumers up."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import one_of, together, transactional_id
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.analysis.findings.transactions import TRANSACTION_APIS, Transaction, Transactions
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.record_traffic import FetchedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.meaning.exchange import number, rows, text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

_ADVICE = (
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


class _LateEndTxn(msgspec.Struct):
    """Late EndTxn requests.

    :ivar age: ns for which the transaction was open
    """

    client: str
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    age: int | None = None
    timeout: int | None = None


class _AbortedTransactions:
    """Transactions of one transactional ID that the coordinator aborted.

    :ivar age: ns for which the latest was open
    """

    def __init__(self, known: Transaction) -> None:
        self.seen = Occurrences()
        self.age = 0
        self._known = known

    def add(self, exchange: Exchange) -> None:
        self.seen.add(exchange)
        if self._known.open is not None:
            self.age = exchange.time - self._known.open.time

    def text(self, name: str) -> str:
        timeout = self._known.timeout or 0
        return (
            f"The coordinator aborted {words.counted(self.seen.count, 'transaction')} of {name} for being open too "
            f"long: {span(self.age)}, with transaction.timeout.ms of {span(timeout)}."
        )


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
            Unit.MILLISECONDS,
            "how long a transaction may be open, or transaction.timeout.ms where that is shorter",
        ),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._transactions = Transactions()
        self._stable: dict[tuple[str, int], _StableOffset] = {}
        self._refused: dict[str, _LateEndTxn] = {}
        self._aborted: dict[str, _AbortedTransactions] = {}
        self._late: dict[str, tuple[int, Occurrences]] = {}
        self._described: dict[str, tuple[int, str, Occurrences]] = {}

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
                    self._aborted.setdefault(known.transactional_id, _AbortedTransactions(known)).add(
                        exchange
                    )
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
        age = exchange.time - known.open.time if known is not None and known.open is not None else None
        codes = {error.code for error in exchange.errors}
        if ErrorCode.INVALID_TXN_STATE in codes:
            refused = self._refused.setdefault(name, _LateEndTxn(client_name(exchange)))
            refused.seen.add(exchange)
            if age is not None and known is not None:
                refused.age, refused.timeout = age, known.timeout
        elif known is not None and age is not None and age > self._bound(known) and not codes:
            longest, seen = self._late.get(name, (0, Occurrences()))
            seen.add(exchange)
            self._late[name] = max(longest, age), seen

    def _describe(self, exchange: Exchange) -> None:
        for row in rows(exchange.response_body, "transaction_states"):
            begun = number(row, "transaction_start_time_ms")
            name, state = text(row, "transactional_id"), text(row, "transaction_state")
            age = exchange.time - begun * MS
            if name and begun > 0 and state == "Ongoing" and age > self._limit_ns:
                _, _, seen = self._described.get(name, (0, "", Occurrences()))
                seen.add(exchange)
                self._described[name] = age, state, seen

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
                aborted.text(name),
                _ADVICE,
                aborted.seen,
                filter_text="api == WriteTxnMarkers",
                certainty=Certainty.INFERRED,
            )
        for name, (longest, seen) in self._late.items():
            yield self.finding(
                f"transactional ID {name}",
                f"Transactions of {name} were open for up to {span(longest)} before they ended.",
                _ADVICE,
                seen,
                filter_text=f"transactional_id == {quoted(name)}",
                severity=Severity.LOW,
            )
        held_up: dict[str, dict[int, _StableOffset]] = {}
        for (topic, partition), stable in self._stable.items():
            if stable.seen:
                held_up.setdefault(topic, {})[partition] = stable
        for topic, partitions in held_up.items():
            yield self._held_up(topic, partitions)
        for name, (age, _, seen) in self._described.items():
            yield self.finding(
                f"transactional ID {name}, as described",
                f"The coordinator describes a transaction of {name} that had been open for {span(age)}.",
                _ADVICE,
                seen,
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
            seen = Occurrences()
            seen.note(known.open.number, known.open.time)
            yield self.finding(
                f"transactional ID {name}, open",
                f"Client {known.open.client} began a transaction of {name} {span(age)} before the end of the "
                f"capture and has neither committed nor aborted it{timeout}.",
                _ADVICE,
                seen,
                filter_text=f"transactional_id == {quoted(name)}",
                # some take minutes by design, such as those of Flink, which end with its checkpoints
                severity=None if known.timeout is None or age > known.timeout else Severity.LOW,
                certainty=Certainty.INFERRED,
            )

    def _refused_finding(self, name: str, refused: _LateEndTxn) -> Finding:
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
            _ADVICE,
            together(stable.seen for stable in partitions.values()),
            filter_text=f"api == Fetch and {of_topic(topic)} and {one_of('partition', sorted(partitions))}",
        )
