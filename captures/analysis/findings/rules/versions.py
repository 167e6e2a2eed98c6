"""Old versions of requests and of message formats, and brokers that refuse or convert them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from captures.analysis.broker_disconnects import BrokerDisconnect, LastRequest, Reason
from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import consumer, on_topics, replica_of, some_of, together, unexpected
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.offered_versions import kafka_4_least, refuses_old, too_old
from captures.analysis.record_traffic import FetchedPartition, ProducedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.exchanges.shapes import BatchTrait
from captures.filters.lexer import quoted
from captures.meaning import words
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.error_codes import ErrorCode, error_name

# ---------------------------------------------------------------- old_message_formats

_LATEST_MAGIC = 2
_FIRST_WITH_BATCHES: dict[int, int] = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4}
"""First request versions with record batches of magic 2 (KIP-98)."""


class _OldFormatReason(Enum):
    """Why old messages are sent."""

    SPOKEN = ""
    """The client uses an old version."""
    OLD_BROKER = "old broker"
    """The broker supports no newer version."""
    STORED = "stored"
    """The log has them, and clients that support newer formats get them."""


class _ApiAndReason(NamedTuple):
    api: str
    why: _OldFormatReason


class _OldMessages(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    magics: set[int] = set()
    versions: set[int] = set()
    clients: dict[str, None] = {}
    topics: dict[str, None] = {}


class OldMessageFormats(Rule):
    """Looks for messages of magic 0 and 1."""

    name = "old_message_formats"
    needs = Lack.RECORDS
    title = "Old message formats"
    about = (
        "Messages of magic 0 (before 0.10) and magic 1 (0.10) have no record headers, no idempotence and no "
        "transactions; magic 0 has not even timestamps. Producers that use Produce before v3 send them, consumers"
        " that use Fetch before v4 get them. Kafka 4 neither accepts nor creates them (KIP-724, KIP-896), but "
        "returns those that are still in its logs."
    )
    severity = Severity.LOW
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS})

    _found: dict[_ApiAndReason, _OldMessages] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.with_batches(BatchTrait.OLD) | ~rows.of_api(_FIRST_WITH_BATCHES)

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.API_VERSIONS:
            self.context.shared.offered.add(exchange)
            return
        parts: Iterable[ProducedPartition | FetchedPartition] = ()
        if exchange.api_key == ApiKey.PRODUCE:
            parts = self.context.records.produced(exchange)
        elif consumer(exchange):  # brokers copy the log as it is
            parts = self.context.records.fetched(exchange)
        magics: dict[str, set[int]] = {}
        for part in parts:
            old = {batch.magic for batch in part.batches if batch.magic < _LATEST_MAGIC}
            if old:
                magics.setdefault(part.topic, set()).update(old)
        if magics:
            self._note(exchange, magics)

    def _note(self, exchange: Exchange, magics: dict[str, set[int]]) -> None:
        version = exchange.version or 0
        old = self._found.setdefault(
            _ApiAndReason(exchange.api, self._why(exchange, version)), _OldMessages()
        )
        old.seen.add(exchange)
        old.magics.update(*magics.values())
        old.versions.add(version)
        old.clients[client_name(exchange)] = None
        old.topics.update(dict.fromkeys(magics))

    def _why(self, exchange: Exchange, version: int) -> _OldFormatReason:
        bound = _FIRST_WITH_BATCHES[exchange.api_key or 0]
        if version >= bound and exchange.api_key == ApiKey.FETCH:
            return _OldFormatReason.STORED
        offered = self.context.shared.offered.known.of([exchange.broker], exchange.api)
        return (
            _OldFormatReason.OLD_BROKER
            if offered is not None and offered[1] < bound
            else _OldFormatReason.SPOKEN
        )

    def findings(self) -> Iterator[Finding]:
        for way, old in self._found.items():
            magics = " and ".join(str(magic) for magic in sorted(old.magics))
            one, many, where = (
                ("sends", "send", "to") if way.api == "Produce" else ("fetches", "fetch", "from")
            )
            verb = one if len(old.clients) == 1 else many
            meaning, advice = _OLD_FORMAT_MEANINGS[way.why]
            least, most = min(old.versions), max(old.versions)
            yield self.finding(
                ", ".join(filter(None, (way.api, way.why.value))),
                f"{some_of(old.clients)} {verb} messages of magic {magics} {where} {some_of(old.topics)},"
                f" {meaning.format(f'{way.api} v{words.ranges(old.versions)}')}.",
                advice,
                old.seen,
                filter_text=f"api == {way.api} and version >= {least} and version <= {most}{on_topics(old.topics)}",
                severity=Severity.INFO if way.why is _OldFormatReason.OLD_BROKER else None,
            )


_OLD_FORMAT_MEANINGS = {
    _OldFormatReason.SPOKEN: (
        "with {}",
        (
            "Update the clients, or let them use newer versions (librdkafka: api.version.request=true, kafka-python: "
            "no api_version, sarama: Config.Version): Kafka 4 refuses these requests (finding refused_by_kafka_4)."
        ),
    ),
    _OldFormatReason.OLD_BROKER: (
        "with {}: the broker knows no newer version",
        "Nothing to do while the brokers are old; from 0.11 on they store messages of magic 2.",
    ),
    _OldFormatReason.STORED: (
        "with {}: the log contains them",
        (
            "These topics are stored in an old format: unset message.format.version (log.message.format.version) on "
            "brokers before 4.0. New batches are then written with magic 2; retention removes old segments."
        ),
    ),
}


# ---------------------------------------------------------------- down_conversion

_READS_BATCHES = 4
"""First Fetch version that returns magic 2 unconverted (KIP-98)."""
_READS_ZSTD = 10


class _OldFetches(msgspec.Struct):
    """Fetches with old versions.

    :ivar served: fetches that got records
    :ivar magic: the highest magic in responses
    :ivar failed: error code -> occurrences
    """

    served: Occurrences = msgspec.field(default_factory=Occurrences)
    size: int = 0
    magic: int = 0
    versions: set[int] = set()
    failed: dict[int, Occurrences] = {}


class DownConversion(Rule):
    """Compares the formats that old clients get with those in the log."""

    name = "down_conversion"
    needs = Lack.RECORDS
    title = "Down-conversion"
    about = (
        "A client that uses Fetch before v4 cannot read the record batches in the log (magic 2). The broker "
        "decompresses, rewrites and compresses them for every such Fetch: that costs CPU and heap, prevents "
        "sendfile, and drops record headers (KafkaApis.scala, KIP-283). The format in the log is known from "
        "batches that are produced to the topic or returned to newer clients. Some of these requests fail: with "
        "UNSUPPORTED_VERSION if log.message.downconversion.enable is off, with UNSUPPORTED_COMPRESSION_TYPE for "
        "zstd, which needs Fetch v10, and with UNKNOWN_SERVER_ERROR for records with headers on 0.11.0. Kafka 4 "
        "has no down-conversion any more (KIP-896)."
    )
    severity = Severity.LOW
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})

    _stored: dict[str, int] = {}
    _found: dict[tuple[str, str], _OldFetches] = {}
    """By client and topic."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        old = rows.of_version(lambda key, version: key == ApiKey.FETCH and version < _READS_ZSTD)
        return None if rows.ever("Fetch of an old version", old) else rows.nothing

    def add(self, exchange: Exchange) -> None:
        version = exchange.version
        if version is None:
            return
        if exchange.api_key == ApiKey.PRODUCE:
            for written in self.context.records.produced(exchange):
                if not written.error:
                    self._stores(written.topic, max((batch.magic for batch in written.batches), default=0))
            return
        for part in self.context.records.fetched(exchange):
            magic = max((batch.magic for batch in part.batches), default=0)
            self._stores(part.topic, magic)
            failed = (part.error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE and version < _READS_ZSTD) or (
                part.error in (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION)
                and version < _READS_BATCHES
            )
            if consumer(exchange) and (failed or (version < _READS_BATCHES and part.batches)):
                self._old(exchange, version, part, magic)

    def _stores(self, topic: str, magic: int) -> None:
        self._stored[topic] = max(self._stored.get(topic, 0), magic)

    def _old(self, exchange: Exchange, version: int, part: FetchedPartition, magic: int) -> None:
        old = self._found.setdefault((client_name(exchange), part.topic), _OldFetches())
        old.versions.add(version)
        if part.error:
            old.failed.setdefault(part.error, Occurrences()).add(exchange)
            return
        old.served.add(exchange)
        old.size += part.size
        old.magic = max(old.magic, magic)

    def findings(self) -> Iterator[Finding]:
        for (client, topic), old in self._found.items():
            shown = f"api == Fetch and {of_client(client)} and {of_topic(topic)}"
            versions = words.ranges(old.versions)
            if old.served and self._stored.get(topic, 0) > old.magic:
                yield self.finding(
                    f"client {client}, topic {topic}",
                    f"The broker converts {topic} from magic {self._stored[topic]} to magic {old.magic} for "
                    f"client {client}, which uses Fetch v{versions}: {words.volume(old.size)} in "
                    f"{words.counted(old.served.count, 'response')}.",
                    "Update this client, or let it use newer versions of the protocol. Until then the conversion "
                    "costs the broker CPU and heap, and the client gets no record headers.",
                    old.served,
                    filter_text=f"{shown} and version < {_READS_BATCHES}",
                    certainty=Certainty.INFERRED,
                )
            for code, seen in old.failed.items():
                yield self.finding(
                    f"client {client}, topic {topic}, {error_name(code)}",
                    f"Client {client} cannot read {topic}: the broker answered "
                    f"{words.counted(seen.count, 'Fetch', 'Fetches')} of v{versions} with {error_name(code)}.",
                    _down_conversion_advice(code),
                    seen,
                    filter_text=f"{shown} and error == {code}",
                    severity=Severity.HIGH,
                    certainty=Certainty.POSSIBLE
                    if code == ErrorCode.UNKNOWN_SERVER_ERROR
                    else Certainty.OBSERVED,
                )

    def blind(self) -> str:
        unknown = {
            topic
            for (_, topic), old in self._found.items()
            if old.served and self._stored.get(topic, 0) <= old.magic
        }
        if not unknown:
            return ""
        return (
            "nothing shows in which format these topics are stored, which clients read with a Fetch before v4: "
            f"{some_of(sorted(unknown))}"
        )


def _down_conversion_advice(code: int) -> str:
    if code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
        return "The topic has zstd batches, which need Fetch v10 (Kafka 2.1): update the client, or change the codec."
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return (
            "The broker does not convert for this topic (log.message.downconversion.enable, "
            "message.downconversion.enable): update the client."
        )
    return (
        "The broker failed to convert records to an older format (0.11.0 fails on records with headers) or to "
        "read its log: check its log, and update broker and client. Clients ask again at once, which loads the "
        "broker."
    )


# ---------------------------------------------------------------- unsupported_versions


class _VersionRefusals(msgspec.Struct):
    """Requests of one client that a broker refused because of their version."""

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    versions: dict[tuple[str, int | None], None] = {}

    def add(self, request: Exchange | LastRequest) -> None:
        self.seen.note(request.number, request.time)
        self.versions[request.api, request.version] = None


class UnsupportedVersions(Rule):
    """Finds requests that were refused because of their version: with an error, or by closing the connection."""

    name = "unsupported_versions"
    title = "Requests in versions that the broker does not know"
    about = (
        "Clients learn from ApiVersions (KIP-35) which versions a broker knows, and use those. A client that does not "
        "ask, or is configured for another version, gets UNSUPPORTED_VERSION, or its connection is closed without a "
        "response (SocketServer.scala); 0.9 brokers keep the connection open and never respond. It is normal, and not "
        "a finding, that ApiVersions itself gets this error and is retried in a lower version (KIP-511)."
    )
    severity = Severity.HIGH
    key = Key.BROKER
    apis = None

    _refusals: dict[tuple[str, str], _VersionRefusals] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.closing | rows.failed | rows.of_api({ApiKey.API_VERSIONS})

    def add(self, exchange: Exchange) -> None:
        self.context.shared.closings.add(exchange)
        self.context.shared.offered.add(exchange)
        if unexpected(exchange, {ErrorCode.UNSUPPORTED_VERSION}):
            refusals = self._refusals.setdefault((client_name(exchange), exchange.broker), _VersionRefusals())
            refusals.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for (client, broker), refusals in self._refusals.items():
            yield self._finding(client, broker, refusals, closed=False)
        closed: dict[tuple[str, str], _VersionRefusals] = {}
        unheard: dict[tuple[str, str], _VersionRefusals] = {}
        for closing in self.context.shared.closings.known.result():
            request = closing.request
            if (
                closing.reason is not Reason.UNSUPPORTED_VERSION
                or request is None
                or self._of_kafka_4(closing)
            ):
                continue
            found = unheard if request.api_key == ApiKey.API_VERSIONS else closed
            refused = found.setdefault((closing.client, closing.broker), _VersionRefusals())
            refused.add(request)
        for (client, broker), refused in closed.items():
            yield self._finding(client, broker, refused, closed=True)
        for (client, broker), refused in unheard.items():
            yield self._unheard(client, broker, refused)

    def _of_kafka_4(self, closing: BrokerDisconnect) -> bool:
        """Return whether refused_by_kafka_4 finds it."""
        request = closing.request
        old = request is not None and request.version is not None and too_old(request.api, request.version)
        return old and refuses_old(self.context.shared.offered.known, closing.broker)

    def _finding(self, client: str, broker: str, refused: _VersionRefusals, *, closed: bool) -> Finding:
        shown = self.context.capture.names.shown(broker)
        asked = some_of([self._asked(broker, *each) for each in refused.versions])
        return self.finding(
            f"client {client}, broker {shown}",
            f"{shown} {'closed the connection on' if closed else 'refused'} "
            f"{words.counted(refused.seen.count, 'request')} of {client} because it does not know the version: "
            f"{asked}.",
            "Let the client ask for the broker's versions (api.version.request, no fixed api_version), or update "
            "client or broker: old brokers do not know new versions, and brokers from Kafka 4.0 on know none from "
            "before Kafka 2.1 (KIP-896). A version that is offered but refused needs something that is not enabled, "
            "such as a feature level or group.coordinator.rebalance.protocols.",
            refused.seen,
            filter_text=f"({' or '.join(map(_version_condition, refused.versions))}) and {of_client(client)}"
            f" and broker == {quoted(broker)}",
            certainty=Certainty.INFERRED if closed else Certainty.OBSERVED,
        )

    def _asked(self, broker: str, api: str, version: int | None) -> str:
        offered = self.context.shared.offered.known.of([broker], api)
        asked = api if version is None else f"{api} v{version}"
        if offered and version is not None and offered[0] <= version <= offered[1]:
            return f"{asked} (which it offers)"
        if offered:
            return f"{asked} (it offers {offered[0]} to {offered[1]})"
        return f"{asked} (not offered at all)" if self.context.shared.offered.known.knows(broker) else asked

    def _unheard(self, client: str, broker: str, refused: _VersionRefusals) -> Finding:
        """Return the finding about refused ApiVersions requests: brokers that support any version of it answer all."""
        shown = self.context.capture.names.shown(broker)
        return self.finding(
            f"client {client}, broker {shown}, ApiVersions",
            f"{shown} closed {words.counted(refused.seen.count, 'connection')} of {client} on ApiVersions: brokers "
            f"before 0.10 do not know it, and listeners that expect TLS also close the connection.",
            "Check the broker's version, and whether its listener expects TLS. For brokers before 0.10 configure the "
            "client accordingly (broker.version.fallback, api.version.request=false, api_version).",
            refused.seen,
            filter_text=f"api == ApiVersions and unanswered and {of_client(client)} and broker == {quoted(broker)}",
            severity=Severity.MEDIUM,  # most clients fall back to versions of old brokers
            certainty=Certainty.POSSIBLE,
        )


def _version_condition(asked: tuple[str, int | None]) -> str:
    api, version = asked
    known = f"api == {api}" if api.isalpha() else f"api.key == {api.rpartition('#')[2]}"
    return known if version is None else f"{known} and version == {version}"


# ---------------------------------------------------------------- refused_by_kafka_4

_BETWEEN_BROKERS = frozenset({"WriteTxnMarkers"})


class _OldVersions(msgspec.Struct):
    """One client's versions that are too old."""

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    versions: dict[str, set[int]] = {}
    brokers: dict[str, None] = {}


class RefusedByKafka4(Rule):
    """Finds clients that use versions which Kafka 4.0 brokers no longer support."""

    name = "refused_by_kafka_4"
    title = "Clients that Kafka 4 refuses"
    about = (
        "Brokers of Kafka 4.0 and later do not know versions from before Kafka 2.1 (KIP-896): Produce before 3, "
        "Fetch before 4 and so on. For old librdkafka clients they announce Produce from 0 on, but close the "
        "connection on versions before 3. The finding shows the versions in use. Clients that ask for the "
        "broker's versions, and are offered nothing newer, are reported as info."
    )
    severity = Severity.LOW
    apis = None

    _asking: set[str] = set()
    _old: dict[str, _OldVersions] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.of_api({ApiKey.API_VERSIONS}) | rows.of_version(
            lambda key, version: too_old(api_name(key), version)
        )

    def add(self, exchange: Exchange) -> None:
        version, client = exchange.version, client_name(exchange)
        if exchange.api == "ApiVersions":
            self.context.shared.offered.add(exchange)
            self._asking.add(client)
        if version is None or exchange.api in _BETWEEN_BROKERS or not too_old(exchange.api, version):
            return
        if replica_of(exchange) >= 0:  # brokers are updated with their cluster
            return
        old = self._old.setdefault(client, _OldVersions())
        old.seen.add(exchange)
        old.versions.setdefault(exchange.api, set()).add(version)
        old.brokers[exchange.broker] = None

    def findings(self) -> Iterator[Finding]:
        held_down: dict[str, _OldVersions] = {}
        for client, old in self._old.items():
            if self._held_down(client, old):
                held_down[client] = old
            else:
                yield self._finding(client, old)
        if held_down:
            yield self._old_brokers(held_down)

    def _held_down(self, client: str, old: _OldVersions) -> bool:
        """Return whether the brokers support no newer versions, and the client requests their versions."""
        return client in self._asking and all(
            (offered := self.context.shared.offered.known.of([broker], api)) is not None
            and offered[1] < kafka_4_least(api)
            for api in old.versions
            for broker in old.brokers
        )

    def _finding(self, client: str, old: _OldVersions) -> Finding:
        refusing = [
            broker for broker in old.brokers if refuses_old(self.context.shared.offered.known, broker)
        ]
        text = f"{client} uses versions that brokers of Kafka 4.0 and later do not know: {_used(old)}"
        if refusing:
            text += f"; {some_of(map(self.context.capture.names.shown, refusing))} is such a broker"
        return self.finding(
            f"client {client}",
            f"{text}.",
            "Update the client before the brokers: to the Java client 2.1 or later, librdkafka 1.8.2 or later, or any"
            " client that knows the protocol of Kafka 2.1. Remove settings that pin an old version "
            "(broker.version.fallback, api_version, config.Version).",
            old.seen,
            filter_text=f"{_old_version_conditions(old.versions)} and {of_client(client)}",
            severity=Severity.HIGH if refusing else self.severity,
        )

    def _old_brokers(self, held_down: dict[str, _OldVersions]) -> Finding:
        brokers = {broker: None for old in held_down.values() for broker in old.brokers}
        apis = {api for old in held_down.values() for api in old.versions}
        know = "know" if len(brokers) > 1 else "knows"
        use, ask = ("use", "they ask") if len(held_down) > 1 else ("uses", "it asks")
        return self.finding(
            "clients of old brokers",
            f"{some_of(held_down)} {use} versions that brokers of Kafka 4.0 and later do not know, as"
            f" {some_of(map(self.context.capture.names.shown, brokers))} {know} no newer ones"
            f" ({some_of(sorted(apis))}); {ask} brokers for their versions, and may use newer ones elsewhere.",
            "Nothing to do for these clients while the brokers are old. A broker of 2.1 or later would show whether "
            "they can use newer versions.",
            together(old.seen for old in held_down.values()),
            filter_text=_old_version_conditions(apis),
            severity=Severity.INFO,
            certainty=Certainty.INFERRED,
        )


def _used(old: _OldVersions) -> str:
    return some_of([f"{api} v{words.plain(sorted(found))}" for api, found in sorted(old.versions.items())])


def _old_version_conditions(apis: Iterable[str]) -> str:
    return f"({' or '.join(map(_old_version_condition, sorted(apis)))})"


def _old_version_condition(api: str) -> str:
    return f"api == {api} and version < {kafka_4_least(api)}"
