"""``kproxy records``: the records in a capture or a log, one by one: key, value, headers, and log offset."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import click

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import Count, Number, TextParam, option, options
from kproxy.cli.common import (
    filter_option,
    read_all,
    refuse_contradictions,
    usage_errors,
    with_progress,
)
from kproxy.cli.options import ColorOption, FilterString, JobsOption, ReadingOptions, TimeOptions, UtcOption
from kproxy.cli.selection import ExchangeSelection
from kproxy.output import echo, echo_gated, flush, gated, gated_lines, json_line, json_output, terminal_width
from kproxy.signals import ended_by_signals

if TYPE_CHECKING:
    from captures.analysis.journey.log_facts import LogFacts
    from captures.analysis.records import AnyRecord, CapturedRecord, RecordListing, RecordSelection
    from captures.analysis.records.listing import Listing
    from captures.analysis.records.log_listing import LogListing
    from captures.arrays import Int64s
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.faults import Faults
    from captures.filters import Filter
    from captures.log_segments import LogSurvey, PartitionLog
    from captures.meaning.topic_partitions import TopicPartition
    from captures.payloads.decoding import PayloadDecoding
    from captures.payloads.plain import PlainFormat
    from kproxy.cli.results import LoggedRecordResult, RecordResult
    from kproxy.text.records import RecordLines, RecordPayloads
    from kproxy.text.summary import Tally

    _Place = tuple[TopicPartition, int | None]

T = TypeVar("T")

_LISTING = "listing records"
"""The activity, for reports of internal errors."""
_SAMPLE = 200
"""Records that decide the column widths."""
_PIECE = 1 << 18
"""Characters that a worker process sends at a time."""
_OFFSETS = re.compile(r"(\d*)(\.\.)?(\d*)")
_FORMATS = click.Choice(("auto", "text", "json", "int", "hex"))


class OffsetRange(NamedTuple):
    """A range of offsets, both ends included; None for no bound."""

    first: int | None
    last: int | None


def _offsets(text: str) -> OffsetRange:
    found = _OFFSETS.fullmatch(text)
    if found is None or not (found[1] or found[3]):
        raise ValueError(f"{text!r} is not a range of offsets: write 120, 100..200, 100.. or ..200")
    low = int(found[1]) if found[1] else None
    high = (int(found[3]) if found[3] else None) if found[2] else low
    if low is not None and high is not None and low > high:
        raise ValueError(f"{text!r} ends before it begins")
    return OffsetRange(low, high)


@options
class RecordsOptions(UtcOption, ColorOption, ReadingOptions, JobsOption, TimeOptions):
    """Options of ``kproxy records``."""

    topics: tuple[str, ...] = option(
        "-t",
        "--topic",
        metavar="TOPIC",
        help="Show only records of this topic, or of those that match 'orders-*'; may be given several times.",
    )
    partitions: tuple[Number, ...] = option(
        "--partition", help="Show only records of this partition; may be given several times."
    )
    offsets: OffsetRange | None = option(
        "--offset",
        type=TextParam("A..B", _offsets),
        help="Show only these offsets: 120, 100..200, 100.. or ..200.",
    )
    timestamps: str | None = option(
        "--timestamp",
        metavar="A..B",
        help="Show only records with a timestamp between these times, which may be old: "
        "2026-11-21T09:00:00Z..2026-11-21T10:00:00Z; --from and --to select by when they were sent or fetched.",
    )
    key: str | None = option("-k", "--key", help="Show only records with exactly this key.")
    contains: str | None = option(
        "--contains", help="Show only records with this text in key, value or a header."
    )
    once: bool = option(
        "--once", help="Show the record at an offset once, however often it was sent and fetched."
    )
    wanted: FilterString | None = option(
        "-Y",
        "--filter",
        help="Show only records that match, of exchanges that match: 'client_id == app and value contains 4711'.",
    )
    count: Count | None = option("-c", "--count", help="Stop after N records.")
    follow: bool = option(
        "-F", "--follow", help="Follow a CAPTURE that is still being written, like tail -f."
    )
    verbose: bool = option("-V", "--verbose", help="Show all of each record, JSON with indents.")
    as_json: bool = option("--json", help="Print one JSON object per record (docs/records.md).")
    show_secrets: bool = option(
        "--show-secrets",
        help="Show passwords, tokens and keys in Kafka's own topics instead of masking them.",
    )
    value_format: str = option(
        "--format", type=_FORMATS, default="auto", show_default=True, help="Read values as this."
    )
    key_format: str = option(
        "--key-format", type=_FORMATS, default="auto", show_default=True, help="Read keys as this."
    )
    value_schemas: tuple[str, ...] = option(
        "--value-schema",
        metavar="[TOPIC=]FILE",
        help="Read values by an Avro (.avsc) or Protobuf (.proto, .pb) schema, FILE:MESSAGE for one of several "
        "messages; may be given several times. Needs kproxy[schema].",
    )
    key_schemas: tuple[str, ...] = option(
        "--key-schema", metavar="[TOPIC=]FILE", help="Read keys by a schema, likewise."
    )
    registry: str | None = option(
        "--registry",
        metavar="URL",
        private=True,
        help="Ask this schema registry for the schemas of keys and values in Confluent's wire format.",
    )


class RecordsRun(CaptureRun[RecordsOptions], short_help="Show the records: keys, values, headers."):
    """Show the records that Produce, Fetch and ShareFetch messages in CAPTURE... carry, one line each.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    A line has the record's place (topic, partition and offset in the log), its timestamp, the exchange that produced
    or fetched it, key, value and headers. The offset of a produced record comes from the answer, or from a Fetch of
    the same batch; where neither was captured it is a question mark. kproxy decompresses batches, decodes Kafka's own
    topics, and marks control records, aborted records and refused ones.

    CAPTURE may also be a broker's log: the folder of a partition, such as /var/lib/kafka/orders-0, a folder of such
    folders, or a segment. Lines then have the position in the segment instead of the exchange, and standard error has
    the gaps, transactions and damage of each log.

    Keys and values are shown as text, JSON or hexadecimal; as Avro or Protobuf with --value-schema or --registry.
    docs/records.md explains the columns and the formats.
    """

    def __init__(self, options: RecordsOptions) -> None:
        super().__init__(options)
        self.decoding = _decoding(options)
        # parse it alone first, so that errors show the filter as it was typed
        self.of_records = filter_option(options.wanted, self.reading.zone)
        self.wanted = self._with_topics()
        self._shown = 0
        self._faults: Faults
        self._payloads: RecordPayloads
        self._lines: RecordLines

    def run(self) -> None:
        from captures.log_segments import partition_logs

        logs = partition_logs(self.options.files)
        if logs:
            self._list_logs(logs)
        else:
            self._list_capture()

    def _list_capture(self) -> None:
        from captures.analysis.records import CARRIERS, RecordListing

        capture = self.reading.opened()
        self._faults = capture.faults
        live = capture.source.live
        if not live:
            read_all(capture)
        options = self.options
        reader = self.reading.reader(capture, live=live)
        selecting = ExchangeSelection(
            self.wanted, options.begin, options.end, self.reading.zone, apis=frozenset(CARRIERS)
        )
        if not live:
            reader.learn(len(reader))
        listing = RecordListing(
            self._selection(capture.connections.first_time.min() if len(capture.connections) else 0),
            reader.knowledge.topic_name,
            None if live else lambda: _facts(capture),
            wanted=self.of_records,
            show_secrets=options.show_secrets,
        )
        if live:
            exchanges = selecting.follow(capture, reader, pause=flush)
            with ended_by_signals(capture.source.stop):
                self._show_in_turn(exchanges, listing, capture, sample=1)
            capture.source.stop()
        else:
            self._show(selecting.indexes(capture, reader), reader, listing)
        self._conclude(capture, listing)

    def _list_logs(self, logs: list[PartitionLog]) -> None:
        """List the records of log segments."""
        from captures.analysis.records import RecordSelection
        from captures.analysis.records.log_listing import LogListing
        from captures.faults import Faults
        from captures.filters.records import RecordFilter
        from captures.log_segments import LogSurvey
        from dissectors.units import MS

        options = self.options
        fields = "topic, partition, topic_partition, key, value, header and header.value"
        wanted = self.of_records
        refuse_contradictions(
            {
                "a log has no exchanges: use --timestamp, not --from and --to": options.begin or options.end,
                "--follow does not apply to log segments": options.follow,
                "--keylog and --align-clocks do not apply to log segments": options.keylog
                or options.align_clocks,
                f"-Y: a filter of log segments can only use {fields}": wanted
                and not RecordFilter(wanted).complete,
            }
        )
        chosen = RecordSelection(options.topics, options.partitions)
        surveys = [LogSurvey(log) for log in logs if chosen.has_partition(log.tp)]
        start = min((each.first_time for each in surveys if each.first_time >= 0), default=0) * MS
        self._faults = Faults()
        listing = LogListing(
            self._selection(start), self._faults, wanted=wanted, show_secrets=options.show_secrets
        )
        records = chain.from_iterable(map(listing.of, surveys))
        self._print(self._texts(chain(self._begin(records, _SAMPLE), records)))
        self._conclude_logs(surveys, listing)

    # ------------------------------------------------------------ which records
    def _with_topics(self) -> Filter | None:
        """Return the filter extended by the topics: by their columns, most exchanges need not be decoded."""
        from captures.analysis.records import RecordSelection
        from captures.filters.lexer import quoted

        names = RecordSelection(self.options.topics).topic_names
        parts = [f"({self.options.wanted})"] if self.options.wanted is not None else []
        if names:
            parts.append(" or ".join(f"topic == {quoted(name)}" for name in names))
        return filter_option(" and ".join(f"({each})" for each in parts) or None, self.reading.zone)

    def _selection(self, start: int) -> RecordSelection:
        from captures.analysis.journey import RecordQuery
        from captures.analysis.records import RecordSelection

        options = self.options
        key, contains = (
            None if text is None else text.encode("utf-8", "surrogateescape")
            for text in (options.key, options.contains)
        )
        return RecordSelection(
            options.topics,
            options.partitions,
            options.offsets or (None, None),
            self._timestamps(int(start)),
            RecordQuery(key=key, contains=contains),
        )

    def _timestamps(self, start: int) -> tuple[int | None, int | None]:
        from captures.filters.values import resolved
        from dissectors.units import MS

        text = self.options.timestamps
        if text is None:
            return None, None
        begin, both, end = text.partition("..")
        found = []
        for each in (begin, end if both else begin):
            moment = resolved(each, start, self.reading.zone) if each else None
            if each and moment is None:
                raise click.UsageError(
                    f"--timestamp: {each!r} is not a time: write 2026-11-21T09:14:03Z, 09:14:03, "
                    "or 5s after the first packet"
                )
            found.append(None if moment is None else moment // MS)
        return found[0], found[1]

    # ------------------------------------------------------------ how to show them
    def _show(self, indexes: Int64s, reader: ExchangeReader, listing: RecordListing) -> None:
        """Show the records of exchanges; if there are many, several processes decode them."""
        from captures.exchanges.parallel import in_parallel

        capture, total = reader.capture, _ListingCounts(self.reading.tally)
        exchanges = reader.several(indexes.tolist())
        if self.options.count is not None:  # usually reached long before the end of the capture
            self._show_in_turn(exchanges, listing, capture, sample=_SAMPLE)
            return
        if self.decoding.registry is not None:
            capture.jobs = 1  # so that each schema is requested only once
        self._begin(self._records(exchanges, listing, capture), _SAMPLE)
        with closing(in_parallel(reader, indexes, partial(self._share, listing, capture))) as shares:
            pieces = shares if sys.stdout.isatty() else self._followed(shares, len(indexes))
            self._print(chain.from_iterable(map(total.add, pieces)))
        total.put(listing, self.decoding)

    def _show_in_turn(
        self, exchanges: Iterable[Exchange], listing: RecordListing, capture: Capture, *, sample: int
    ) -> None:
        """Show the records of exchanges as they arrive, up to ``--count``."""
        records = self._records(self.reading.tally.counting(exchanges), listing, capture)
        self._print(self._texts(chain(self._begin(records, sample), records)))

    def _records(
        self, exchanges: Iterable[Exchange], listing: RecordListing, capture: Capture
    ) -> Iterator[CapturedRecord]:
        return chain.from_iterable(
            capture.faults.contained_items(listing.of(exchange), _LISTING, exchange.number)
            for exchange in exchanges
        )

    def _begin(self, records: Iterator[AnyRecord], sample: int) -> list[AnyRecord]:
        """Choose column widths by the first shown records, and return all records examined for that.

        Facts of the whole capture that records need are computed here, before processes are forked.
        """
        from kproxy.text.records import RecordLines, RecordPayloads

        self._payloads = RecordPayloads(self.decoding)
        self._lines = RecordLines(self._payloads, terminal_width(), self.reading.zone)
        looked_at: list[AnyRecord] = []

        def looking() -> Iterator[AnyRecord]:
            for record in records:
                looked_at.append(record)
                yield record

        chosen = _once(looking(), _place_of) if self.options.once else looking()
        self._lines.fit(list(islice(chosen, min(sample, self.options.count or sample))))
        return looked_at

    def _share(
        self, listing: RecordListing, capture: Capture, exchanges: Iterable[Exchange]
    ) -> Iterator[_ListingCounts | list[_Shown]]:
        """Yield the printed form of the records of some exchanges, and finally the counts."""
        from kproxy.text.summary import Tally

        counted = _ListingCounts(Tally())
        counted.put(listing, self.decoding)
        texts = self._texts(self._records(counted.tally.counting(exchanges), listing, capture))
        piece, size = list[_Shown](), 0
        for shown in texts:
            piece.append(shown)
            size += len(shown.text)
            if size > _PIECE:
                yield piece
                piece, size = [], 0
        yield piece
        yield counted.taken(listing, self.decoding)

    def _texts(self, records: Iterable[AnyRecord]) -> Iterator[_Shown]:
        """Yield the printed form of records, safe for a terminal."""
        from captures.analysis.records import LoggedRecord

        for record in records:
            try:
                if self.options.as_json:
                    text: str | bytes = json_line(_result(record, self._payloads))
                elif self.options.verbose:
                    text = "".join(gated_lines(self._lines.whole(record)))
                else:
                    text = f"{gated(self._lines.line(record))}\n"
            except Exception as error:
                number = 0 if isinstance(record, LoggedRecord) else record.number
                self._faults.note(error, "showing a record", number)
                continue
            yield _Shown(text, _place_of(record) if self.options.once else None)

    def _print(self, texts: Iterable[_Shown]) -> None:
        write = json_output().write if self.options.as_json else echo_gated
        chosen = _once(texts, lambda shown: shown.at) if self.options.once else texts
        for text, _ in islice(chosen, self.options.count):
            write(text)  # type: ignore[arg-type]
            self._shown += 1

    def _followed(self, shares: Iterable[T], total: int) -> Iterator[T]:
        return with_progress(shares, lambda _: self.reading.tally.exchanges, total, _LISTING)

    # ------------------------------------------------------------ notes
    def _conclude(self, capture: Capture, listing: RecordListing) -> None:
        flush()
        self.conclude(capture, wanted=self.wanted)
        self._note(self._notes(listing, "kproxy read -V shows why"), listing, "capture")

    def _conclude_logs(self, surveys: Sequence[LogSurvey], listing: LogListing) -> None:
        from kproxy.text.log_notes import log_notes

        flush()
        about = chain.from_iterable(map(log_notes, surveys))
        advice = "its checksum is valid, so it was written like that"
        self._note(chain(about, self._notes(listing, advice), self._faults.news()), listing, "log")
        damaged = any(each.lossy for survey in surveys for each in survey.damage)
        wrong = any(survey.wrong_indexes for survey in surveys)
        self.clean &= not (damaged or wrong or self._faults)

    def _note(self, notes: Iterable[str], listing: Listing, source: str) -> None:
        """Print notes on standard error, and whether there were no records."""
        self.clean &= not (listing.beyond or listing.damaged)
        for note in notes:
            echo(f"kproxy: {note}", err=True)
        if not self._shown and not self.options.as_json:
            echo("No records that fit." if self._selective else f"No records in the {source}.", err=True)

    @property
    def _selective(self) -> bool:
        given = self.options
        return any(
            (
                *(given.topics, given.partitions, given.offsets, given.timestamps, given.wanted),
                *(given.key is not None, given.contains is not None, given.begin, given.end),
            )
        )

    def _notes(self, listing: Listing, advice: str) -> Iterator[str]:
        """Yield notes on batches, keys and values that were not read completely.

        :param advice: for damaged batches
        """
        from captures.meaning import words
        from dissectors.budget import shown

        for name, count in sorted(listing.beyond.items()):
            batches = words.counted(count, "batch", "batches")
            yield f"records beyond the limit {shown(name)} are not shown, in {batches}"
        if listing.damaged:
            batches = words.counted(listing.damaged, "batch", "batches")
            yield f"{batches} could not be read to the end: {advice}"
        decoding = self.decoding
        yield from decoding.registry.failures if decoding.registry is not None else ()
        for reason, count in decoding.unread.most_common():
            yield f"{words.counted(count, 'key or value', 'keys and values')}: {reason}"
        for topic, number in decoding.framed.items():
            yield (
                f"keys or values of {words.line(topic)} begin like those of a schema registry (schema {number}): "
                "--registry URL or --value-schema FILE reads them"
            )


def _decoding(options: RecordsOptions) -> PayloadDecoding:
    """Return the decoding of keys and values.

    :raises click.UsageError: if a schema cannot be used
    """
    from captures.payloads.decoding import PayloadDecoding
    from captures.payloads.payload import SchemaError

    with usage_errors(SchemaError):
        return PayloadDecoding.of(
            {
                "key": cast("PlainFormat", options.key_format),
                "value": cast("PlainFormat", options.value_format),
            },
            {"key": options.key_schemas, "value": options.value_schemas},
            options.registry,
        )


def _facts(capture: Capture) -> LogFacts:
    """Return the facts about records that the whole capture shows."""
    from captures.analysis.journey import Journeys, RecordQuery
    from captures.exchanges import ExchangeReader

    reader = ExchangeReader(capture, annotate=False, summary=False)
    reader.learn(len(reader))
    journeys = Journeys(RecordQuery(), reader.knowledge.topic_name, capture.table)
    for _ in with_progress(journeys.read(reader), lambda done: done, len(reader), "following transactions"):
        pass
    return journeys.facts()


class _Shown(NamedTuple):
    """The printed form of a record.

    :ivar at: place of the record, only with ``--once``
    """

    text: str | bytes
    at: _Place | None


@dataclass
class _ListingCounts:
    """The counts of a listing of records."""

    tally: Tally
    beyond: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    unread: Counter[str] = field(default_factory=Counter)
    framed: dict[str, int] = field(default_factory=dict)

    def put(self, listing: RecordListing, decoding: PayloadDecoding) -> None:
        """Let the listing and the decoding count into this object."""
        listing.beyond, listing.damaged = self.beyond, self.damaged
        decoding.unread, decoding.framed = self.unread, self.framed

    def taken(self, listing: RecordListing, decoding: PayloadDecoding) -> _ListingCounts:
        """Return the counts of the listing and the decoding."""
        return _ListingCounts(self.tally, listing.beyond, listing.damaged, decoding.unread, decoding.framed)

    def add(self, piece: _ListingCounts | list[_Shown]) -> list[_Shown]:
        """Return the records to print; add a piece with counts to the totals."""
        if isinstance(piece, list):
            return piece
        self.tally.merge(piece.tally)
        self.beyond += piece.beyond
        self.damaged += piece.damaged
        self.unread += piece.unread
        self.framed = piece.framed | self.framed
        return []


def _place_of(record: AnyRecord) -> _Place:
    return record.tp, record.offset


def _once(records: Iterable[T], place_of: Callable[[T], _Place | None]) -> Iterator[T]:
    """Yield each record only once per offset; records with unknown offsets always."""
    from captures.packets.coverage import Coverage

    seen: dict[TopicPartition, Coverage] = {}
    for record in records:
        at = place_of(record)
        if at is None or at[1] is None or seen.setdefault(at[0], Coverage()).add(at[1], at[1] + 1):
            yield record


def _result(record: AnyRecord, payloads: RecordPayloads) -> RecordResult | LoggedRecordResult:
    """Return a record in the form of JSON output."""
    from captures.analysis.records import LoggedRecord
    from kproxy.cli.results import HeaderResult, LoggedRecordResult, RecordResult

    key, value = payloads.key(record), payloads.value(record)
    content = (
        key.data,
        key.format,
        value.data,
        value.format,
        value.schema or key.schema,
        value.problem or key.problem,
        [HeaderResult(name, each.data, each.format) for name, each in payloads.headers(record)],
    )
    if isinstance(record, LoggedRecord):
        return LoggedRecordResult(*content, record)
    return RecordResult(*content, record)
