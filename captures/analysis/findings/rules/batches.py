"""Produced record batches: size, compression, acks, checksums, timestamps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client, of_topic
from captures.analysis.decision_columns import DecisionColumns, of_own_keys
from captures.analysis.findings.batch_samples import FlowKey, FlowTotals, SamplingRule, worth_a_look
from captures.analysis.findings.common import NO_PRODUCE, Busiest, partitions_shown, some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.analysis.record_traffic import FetchedPartition, ProducedPartition
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.exchanges.broker_logs import Lack
from captures.exchanges.columns import NO_VALUE
from captures.exchanges.shapes import BatchTrait
from captures.meaning import words
from captures.meaning.exchange import Body, items, number, rows
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.budget import Budget, message_budget
from dissectors.records import Batch, Codec, compress
from dissectors.units import MS

# ---------------------------------------------------------------- small_batches


class _BatchSizes(msgspec.Struct):
    """The produced batches of a client.

    :ivar requests: number of Produce requests
    :ivar busiest: period with the most requests
    :ivar batches: number of batches, each of one partition in one request; with magic 0 and 1, a message set is one
    :ivar records: number of records in them
    """

    requests: Occurrences = msgspec.field(default_factory=Occurrences)
    busiest: Busiest = msgspec.field(default_factory=Busiest)
    batches: int = 0
    records: int = 0
    size: int = 0


class SmallBatches(Rule):
    """Counts the records of batches, and the requests."""

    name = "small_batches"
    needs = Lack.RECORDS
    title = "Tiny batches"
    about = (
        "At its peak a producer sends many requests a second, with hardly more than one record in each batch. "
        "Every batch costs a header of 61 bytes, a request and a response, and an append on the leader and on "
        "each follower, and it leaves little to compress. linger.ms sets how long the producer waits for more "
        "records (0 by default before Kafka 4.0, 5 since, KIP-1030)."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE})
    unseen = NO_PRODUCE
    thresholds = (
        Threshold(
            "requests", 200, Unit.COUNT, "Produce requests of a client within 10 s that are needed to judge"
        ),
        Threshold(
            "rate", 50, Unit.A_SECOND, "Produce requests of a client, from which a finding is reported"
        ),
        Threshold("records", 3, Unit.COUNT, "average records in a batch, below which batches are tiny"),
        Threshold("size", 4096, Unit.BYTES, "average size of a batch, below which batches are tiny"),
    )

    _clients: dict[str, _BatchSizes] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        produces, sent = rows.of_api({ApiKey.PRODUCE}), rows.produced
        clients, names = rows.clients
        count = len(names)
        evidence = rows.evidence_of(produces)
        by_client = dict(Counter(names[client] for client in clients[evidence].tolist()))
        first = rows.merged("evidence of produced data", by_client, _first, of_own_keys)
        shown = np.array([first.get(name, 0) for name in names], np.int64)
        unknown = (sent.uncounted > 0) | (sent.batches == 0)
        of_batches = (np.ones_like(sent.size), sent.records, sent.size, unknown)
        requests, touched, batches, records, size, unknown = rows.totals(
            "sizes of batches",
            names,
            *(np.bincount(clients[mask], minlength=count) for mask in (produces, produces & ~rows.untouched)),
            *(np.bincount(sent.client, values, count) for values in of_batches),
        )
        small = (records <= self.limit("records") * batches) & (size <= self.limit("size") * batches)
        small &= requests >= self.limit("requests")
        times = rows.columns.flat("time")
        for client in np.flatnonzero(small).tolist() if rows.whole else ():
            busiest = Busiest()
            for time in times[produces & (clients == client)].tolist():
                busiest.add(time)
            small[client] = busiest.count >= self.limit("requests") and busiest.rate >= self.limit("rate")
        small |= (shown >= self.limit("requests")) | (touched > 0) | (unknown > 0)
        found: Bools = produces & small[clients] | rows.earliest("produced data", evidence)
        return found

    def add(self, exchange: Exchange) -> None:
        parts = self.context.records.produced(exchange)
        self.saw_any = True
        client = self._clients.setdefault(client_name(exchange), _BatchSizes())
        for part in parts:
            records = part.records
            if records is None or not part.batches:
                return  # compressed messages of magic 0 and 1 do not show how many they contain
            client.batches += 1
            client.records += records
            client.size += part.size
        client.requests.add(exchange)
        client.busiest.add(exchange.time)

    def findings(self) -> Iterator[Finding]:
        for name, client in self._clients.items():
            busiest = client.busiest
            if busiest.count < self.limit("requests") or not client.batches:
                continue
            records, size = client.records / client.batches, client.size / client.batches
            if (
                busiest.rate < self.limit("rate")
                or records >= self.limit("records")
                or size >= self.limit("size")
            ):
                continue
            yield self.finding(
                f"client {name}",
                f"Client {name} sent {busiest.rate:,.0f} Produce requests a second at its peak, with {records:.1f} "
                f"records ({words.volume(round(size))}) in a batch on average.",
                "Let the producer wait for more records: linger.ms=5 to 100 (librdkafka: queue.buffering.max.ms). Do "
                "not wait for the response or flush after every record. Keys spread over very many partitions also "
                "make batches small.",
                client.requests,
                filter_text=f"api == Produce and {of_client(name)}",
            )


def _first(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the first counts that are not empty."""
    return next(filter(None, parts), {})


# ---------------------------------------------------------------- no_compression

_SAMPLE = 1 << 16
"""Bytes of a batch that are compressed to estimate the saving."""


class _UncompressedData(msgspec.Struct):
    """Uncompressed produced data.

    :ivar size: bytes of records fields
    :ivar sampled: bytes that were compressed as a sample
    :ivar packed: their compressed size in bytes
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    size: int = 0
    sampled: int = 0
    packed: int = 0


class NoCompression(SamplingRule):
    """Adds up uncompressed data, and compresses a sample of it to estimate the saving."""

    name = "no_compression"
    title = "Data without compression"
    about = (
        "A producer sends much data uncompressed that would compress well. Compression saves network on the way "
        "to the leader, to every follower and to every consumer, and disk on all replicas; brokers store batches "
        "as they arrive (compression.type=producer). The saving is measured with zstd on a sample: the first 16 "
        "requests of a client and topic, then ever fewer. lz4 saves a little less, and costs less."
    )
    by_batch = False
    thresholds = (
        Threshold(
            "size",
            1 << 20,
            Unit.BYTES,
            "uncompressed data of a client and topic, from which a finding is reported",
        ),
        Threshold("saving", 30, Unit.PERCENT, "least saving by compression"),
    )

    _flows: dict[FlowKey, _UncompressedData] = {}

    def samples(self, codec: Codec, flow: FlowTotals) -> bool:
        return codec == Codec.NONE and flow.size >= self.limit("size")

    def _take_in(self, key: FlowKey, plain: _UncompressedData, number: float = math.inf) -> None:
        """Add the counted elements of a flow before exchange `number`."""
        for elements in self.counted_before(key, number):
            plain.seen.include(elements.seen)
            plain.size += elements.size

    def add(self, exchange: Exchange) -> None:
        super().add(exchange)
        for part in self.context.records.produced(exchange):
            if part.batches and all(batch.codec == Codec.NONE for batch in part.batches):
                flow = FlowKey(client_name(exchange), part.topic, Codec.NONE)
                plain = self._flows.setdefault(flow, _UncompressedData())
                self._take_in(flow, plain, exchange.number)
                self._plain(exchange, plain, part)

    @staticmethod
    def _plain(exchange: Exchange, plain: _UncompressedData, part: ProducedPartition) -> None:
        plain.seen.add(exchange)
        plain.size += part.size
        if worth_a_look(plain.seen.count):
            first = part.batches[0]
            sample = bytes(first.data[first.start : min(part.batches[-1].end, first.start + _SAMPLE)])
            plain.sampled += len(sample)
            plain.packed += len(compress(Codec.ZSTD, sample))

    def findings(self) -> Iterator[Finding]:
        for flow, plain in self._flows.items():
            self._take_in(flow, plain)
            saving = 100 * (plain.sampled - plain.packed) / max(plain.sampled, 1)
            if plain.size < self.limit("size") or saving < self.limit("saving"):
                continue
            yield self.finding(
                f"client {flow.client}, topic {flow.topic}",
                f"Client {flow.client} sent {words.volume(plain.size)} to {flow.topic} uncompressed; zstd would "
                f"have saved about {saving:.0f}%.",
                "Set compression.type of the producer to zstd (brokers and consumers from 2.1 on) or lz4. Larger "
                "batches (linger.ms, batch.size) compress better.",
                plain.seen,
                filter_text=f"api == Produce and {of_client(flow.client)} and {of_topic(flow.topic)} and codec == none",
            )


# ---------------------------------------------------------------- compression_grows


class _BatchSample(msgspec.Struct):
    """Batches of a flow.

    :ivar batches: number of compressed batches
    :ivar sampled: number of batches that were decompressed
    :ivar packed: their bytes on the wire, without headers
    :ivar plain: their decompressed bytes
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    batches: int = 0
    sampled: int = 0
    packed: int = 0
    plain: int = 0


class CompressionGrows(SamplingRule):
    """Decompresses a sample of the produced batches, and compares sizes."""

    name = "compression_grows"
    title = "Compression that makes data larger"
    about = (
        "A producer's batches become larger by compression: they are too small, or their data is already "
        "compressed or encrypted. Client, broker and consumers spend CPU on it and save nothing. Measured on a "
        "sample: the first 16 compressed batches of a client and topic, then ever fewer."
    )
    by_batch = True
    thresholds = (
        Threshold(
            "batches", 16, Unit.COUNT, "compressed batches of a client and topic that are needed to judge"
        ),
    )

    _flows: dict[FlowKey, _BatchSample] = {}

    def samples(self, codec: Codec, flow: FlowTotals) -> bool:
        return codec != Codec.NONE and flow.batches >= self.limit("batches")

    def _take_in(self, key: FlowKey, sampled: _BatchSample, number: float = math.inf) -> None:
        """Add the counted batches of a flow before exchange `number`."""
        sampled.batches += sum(elements.batches for elements in self.counted_before(key, number))

    def add(self, exchange: Exchange) -> None:
        super().add(exchange)
        budget = message_budget()
        for part in self.context.records.produced(exchange):
            for batch in part.batches:
                # message sets of magic 0 and 1 have their codec inside, so they are not compared
                if batch.magic == 2 and batch.codec != Codec.NONE:
                    flow = FlowKey(client_name(exchange), part.topic, batch.codec)
                    sampled = self._flows.setdefault(flow, _BatchSample())
                    self._take_in(flow, sampled, exchange.number)
                    self._batch(exchange, sampled, batch, budget)

    @staticmethod
    def _batch(exchange: Exchange, sampled: _BatchSample, batch: Batch, budget: Budget) -> None:
        sampled.batches += 1
        if not worth_a_look(sampled.batches):
            return
        plain, problem = batch.payload(budget)
        if problem is not None:
            return
        packed = batch.end - batch.records_start
        sampled.sampled += 1
        sampled.packed += packed
        sampled.plain += len(plain)
        if packed > len(plain):
            sampled.seen.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for flow, sampled in self._flows.items():
            self._take_in(flow, sampled)
            if sampled.batches < self.limit("batches") or sampled.packed <= sampled.plain:
                continue
            codec = flow.codec.label
            growth = 100 * (sampled.packed - sampled.plain) / max(sampled.plain, 1)
            yield self.finding(
                f"client {flow.client}, topic {flow.topic}, {codec}",
                f"Batches that client {flow.client} compresses with {codec} for {flow.topic} are {growth:.0f}% "
                f"larger than without ({words.volume(sampled.plain // sampled.sampled)} become "
                f"{words.volume(sampled.packed // sampled.sampled)} on average, {sampled.sampled} of "
                f"{words.counted(sampled.batches, 'batch', 'batches')} sampled).",
                "Set compression.type=none for this topic if its values are already compressed or encrypted. Otherwise "
                "let batches become larger (linger.ms, batch.size), so that there is something to compress.",
                sampled.seen,
                filter_text=f"api == Produce and {of_client(flow.client)} and {of_topic(flow.topic)}"
                f" and codec == {codec}",
            )


# ---------------------------------------------------------------- weak_acks

_TOPIC_RESOURCE = 2
_MIN_INSYNC = "min.insync.replicas"
_ACKS_ALL, _ACKS_0, _ACKS_1 = -1, 0, 1


class WeakAcks(Rule):
    """Compares the acks of producers with the replicas of topics."""

    name = "weak_acks"
    title = "Writes that do not wait for replicas"
    about = (
        "A producer writes with acks=0 or 1 to a topic with several replicas. With acks=1 the leader responds "
        "before followers have the records: if it fails then, acknowledged records are lost. With acks=0 the "
        "producer never learns of errors. min.insync.replicas applies only to acks=all (Kafka's topic "
        "configuration), so such a producer gets less than the topic promises. Java producers use acks=all by "
        "default since 3.0 (KIP-679), librdkafka always has."
    )
    severity = Severity.LOW
    apis = frozenset({
        ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    })  # fmt: skip

    _flows: dict[tuple[str, str, int], Occurrences] = {}
    """By client, topic and acks."""
    _replicas: dict[str, int] = {}
    _insync: dict[str, int] = {}
    _produces: int = 0

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        produces = rows.of_api({ApiKey.PRODUCE})
        weak = np.isin(rows.columns.flat("acks"), (_ACKS_0, _ACKS_1))
        return ~produces | weak | rows.evidence_of(produces)

    def add(self, exchange: Exchange) -> None:
        key = exchange.api_key
        if key == ApiKey.PRODUCE:
            self._produced(exchange)
        elif key in (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS):
            self._placed(exchange.response_body)
        elif key == ApiKey.CREATE_TOPICS:
            for body in (exchange.request_body, exchange.response_body):
                for row in rows(body, "topics"):
                    self._configured(row, "name")
        else:
            described = key == ApiKey.DESCRIBE_CONFIGS
            body = exchange.response_body if described else exchange.request_body
            for row in rows(body, "results" if described else "resources"):
                if row.get("resource_type") == _TOPIC_RESOURCE:
                    self._configured(row, "resource_name")

    def _produced(self, exchange: Exchange) -> None:
        self._produces += 1
        acks = number(exchange.request_body, "acks", _ACKS_ALL)
        if acks not in (_ACKS_0, _ACKS_1):
            return
        for topic in {part.topic for part in self.context.records.produced(exchange)}:
            self._flows.setdefault((client_name(exchange), topic, acks), Occurrences()).add(exchange)

    def _placed(self, response: Body) -> None:
        for topic in rows(response, "topics"):
            name = topic.get("name")
            counts = [len(items(row, "replica_nodes")) for row in rows(topic, "partitions")]
            if name and counts:
                self._replicas[name] = max(counts)

    def _configured(self, row: Body, field: str) -> None:
        name = row.get(field)
        for config in rows(row, "configs"):
            value = config.get("value")
            if name and config.get("name") == _MIN_INSYNC and isinstance(value, str) and value.isdecimal():
                self._insync[name] = int(value)

    def findings(self) -> Iterator[Finding]:
        for (client, topic, acks), seen in self._flows.items():
            replicas, insync = self._replicas.get(topic, 0), self._insync.get(topic, 1)
            if replicas < 2:
                continue
            promised = f" and min.insync.replicas={insync}" if insync > 1 else ""
            lost = (
                "if the leader fails, acknowledged records that it has not replicated are lost"
                if acks == _ACKS_1
                else "records that do not arrive are lost, and the producer does not notice"
            )
            yield self.finding(
                f"client {client}, topic {topic}, acks={acks}",
                f"Client {client} wrote {words.counted(seen.count, 'request')} with acks={acks} to "
                f"{topic}, which has {replicas} replicas{promised}: {lost}.",
                "Set acks=all (and enable.idempotence=true) on the producer, with min.insync.replicas=2 on a topic of "
                "three replicas, unless losing these records is acceptable.",
                seen,
                filter_text=f"api == Produce and {of_client(client)} and {of_topic(topic)}"
                f" and acks == {acks}",
                severity=Severity.MEDIUM if insync > 1 else None,
            )

    def blind(self) -> str:
        if not self._produces:
            return NO_PRODUCE
        unknown = {topic for _, topic, _ in self._flows} - self._replicas.keys()
        if not unknown:
            return ""
        return (
            "producers write with acks=0 or 1 to these topics, but no message says how many replicas they have: "
            f"{some_of(sorted(unknown))}"
        )


# ---------------------------------------------------------------- crc_failures

_DAMAGED_BEFORE = (
    "The bytes changed at the client or on the way to the place of capture, and the broker refuses these "
    "batches. Check the client's memory, its codec library, and proxies in between."
)
_DAMAGED_AFTER = (
    "The bytes changed on the broker's disk or after it, and consumers cannot get past a damaged batch unless"
    " they seek beyond it. Check disks and memory. Another replica may have the batch intact: compare the "
    "same offsets there (kafka-dump-log.sh --deep-iteration on the brokers)."
)


class _Damage(msgspec.Struct):
    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    batches: int = 0
    partitions: set[int] = set()


class CrcFailures(Rule):
    """Computes the checksum of every completely captured batch."""

    name = "crc_failures"
    needs = Lack.RECORDS
    title = "Damaged record batches"
    about = (
        "The checksum of a record batch (CRC-32C; CRC-32 for messages of magic 0 and 1) does not match its bytes."
        " Brokers refuse such a batch with CORRUPT_MESSAGE (LogValidator.java). A consumer that gets one stops "
        "there; the damage happened on the broker's disk or after it. TCP's own checksum rarely misses such "
        "damage, so first suspect memory, disks, and programs in between that change bytes. Batches with bytes "
        "missing from the capture are left out."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH})

    _found: dict[tuple[str, str, str], _Damage] = {}
    """By client, topic and API."""
    _batches: int = 0
    _incomplete: int = 0

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        lacking = rows.flagged(Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED | Flag.CONFLICTING)
        found: Bools = lacking | rows.with_batches(BatchTrait.DAMAGED)
        sent = rows.columns.ragged("flow_batches")
        batches = rows.nothing
        batches[sent.rows[sent.values > 0]] = True
        return found | rows.evidence_of(batches & ~lacking & rows.of_api(self.apis or ()))

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == ApiKey.PRODUCE:
            self._check(exchange, Flag.REQUEST_DAMAGED, self.context.records.produced(exchange))
        else:
            self._check(exchange, Flag.RESPONSE_DAMAGED, self.context.records.fetched(exchange))

    def _check(
        self, exchange: Exchange, damaged: Flag, parts: Iterable[ProducedPartition | FetchedPartition]
    ) -> None:
        if exchange.flag & (damaged | Flag.CONFLICTING):
            self._incomplete += 1
            return
        for part in parts:
            self._batches += len(part.batches)
            wrong = sum(not batch.crc_valid for batch in part.batches)
            if wrong:
                flow = client_name(exchange), part.topic, exchange.api
                damage = self._found.setdefault(flow, _Damage())
                damage.seen.add(exchange)
                damage.batches += wrong
                damage.partitions.add(part.partition)

    def findings(self) -> Iterator[Finding]:
        for (client, topic, api), damage in self._found.items():
            sent = api == "Produce"
            yield self.finding(
                f"client {client}, topic {topic}, {api}",
                f"Client {client} {'sent' if sent else 'got'} "
                f"{words.counted(damage.batches, 'record batch', 'record batches')} of {topic} "
                f"({partitions_shown(damage.partitions)}) whose checksum does not match the bytes.",
                _DAMAGED_BEFORE if sent else _DAMAGED_AFTER,
                damage.seen,
                filter_text=f"api == {api} and {of_client(client)} and {of_topic(topic)}",
            )

    def blind(self) -> str:
        if not self._incomplete:
            return "" if self._batches else "no record batches were captured"
        return (
            f"{words.counted(self._incomplete, 'message')} with records lack bytes in the capture: "
            "checksums of their batches were not computed"
        )


# ---------------------------------------------------------------- timestamps_far_off

_SECONDS = range(1_000_000_000, 10_000_000_000)
"""Seconds since the epoch, from 2001 on: as milliseconds they are in the first months of 1970."""


class _WrongTimestamps(msgspec.Struct):
    """Batches of a client and topic with wrong timestamps.

    :ivar batches: number of batches with a timestamp, wrong or not
    :ivar largest: largest difference in ms, positive for the future
    :ivar timestamp: the timestamp with the largest difference, ms since the epoch
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    batches: int = 0
    largest: int = 0
    timestamp: int = 0


class TimestampsFarOff(Rule):
    """Compares CreateTime with the clock of the capture."""

    name = "timestamps_far_off"
    needs = Lack.RECORDS
    title = "Timestamps far off"
    about = (
        "Records carry timestamps (CreateTime) that are far from the time at which they were captured. Retention "
        "by time, segment rolling, offset lookups by time and windows of Kafka Streams depend on them: records "
        "from the past may be removed at once, and a record from the future keeps its segment from being removed."
        " That is fine while old data is loaded; otherwise a clock or a unit is wrong. Since 3.6 topics can "
        "refuse such records (KIP-937: message.timestamp.before.max.ms and message.timestamp.after.max.ms; Kafka "
        "4 accepts at most an hour into the future)."
    )
    severity = Severity.LOW
    key = Key.CLIENT
    apis = frozenset({ApiKey.PRODUCE})
    thresholds = (
        Threshold("past", 7 * 86_400_000, Unit.MS, "how far before the time of capture a timestamp may lie"),
        Threshold("future", 3_600_000, Unit.MS, "how far after the time of capture"),
    )
    unseen = NO_PRODUCE

    _found: dict[tuple[str, str], _WrongTimestamps] = {}

    @property
    def _bounds(self) -> tuple[float, float]:
        """Least and greatest ms from the time of capture to a timestamp."""
        return -self.limit("past"), self.limit("future")

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        produces, now = rows.of_api({ApiKey.PRODUCE}), rows.columns.flat("time") // MS
        earliest, latest = rows.columns.flat("batch_earliest"), rows.columns.flat("batch_latest")
        far = (earliest - now < self._bounds[0]) | (latest - now > self._bounds[1])
        far &= produces & (earliest != NO_VALUE)
        return None if rows.ever(f"timestamps beyond {self._bounds}", far) else rows.evidence_of(produces)

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True
        now, (earliest, latest) = exchange.time // MS, self._bounds
        for part in self.context.records.produced(exchange):
            for batch in part.batches:
                if batch.max_timestamp < 0:
                    continue
                apart = self._found.setdefault((client_name(exchange), part.topic), _WrongTimestamps())
                apart.batches += 1
                distance = batch.max_timestamp - now
                if earliest <= distance <= latest:
                    continue
                apart.seen.add(exchange)
                if abs(distance) > abs(apart.largest):
                    apart.largest, apart.timestamp = distance, batch.max_timestamp

    def findings(self) -> Iterator[Finding]:
        for (client, topic), apart in self._found.items():
            if not apart.seen:
                continue
            future = apart.largest > 0
            have = "has" if apart.seen.count == 1 else "have"
            unit = " Seconds seem to be given as milliseconds." if apart.timestamp in _SECONDS else ""
            yield self.finding(
                f"client {client}, topic {topic}",
                f"{apart.seen.count:,} of {words.counted(apart.batches, 'batch', 'batches')} that client {client} "
                f"sent to {topic} {have} timestamps far in the {'future' if future else 'past'}: the farthest is "
                f"{words.moment(apart.timestamp)} UTC, {_distance(abs(apart.largest))} "
                f"{'after' if future else 'before'} it was captured.{unit}",
                "Unless old data is being loaded, check the producer's clock and the unit (milliseconds) of timestamps "
                "that the application sets. With message.timestamp.type=LogAppendTime the broker sets them.",
                apart.seen,
                filter_text=f"api == Produce and {of_client(client)} and {of_topic(topic)}",
            )


def _distance(ms: int) -> str:
    for unit, length in (("year", 31_557_600_000), ("day", 86_400_000), ("hour", 3_600_000)):
        if ms >= 2 * length:
            return words.counted(ms // length, unit)
    return span(ms * MS)
