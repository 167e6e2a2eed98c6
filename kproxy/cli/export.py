"""``kproxy export``: selected exchanges of a capture as a file for another program, or another person."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

import click

from kproxy.cli.capture_run import CaptureRun, report_faults
from kproxy.cli.command import Count, Number, option, options
from kproxy.cli.common import (
    EXIT_UNREADABLE,
    filter_option,
    progress_bar,
    refuse_contradictions,
    refuse_to_overwrite,
    undecided_notes,
    usage_errors,
    with_progress,
)
from kproxy.cli.options import (
    Collector,
    FilterString,
    JobsOption,
    Payload,
    ReadingOptions,
    TimeOptions,
    UtcOption,
)
from kproxy.cli.selection import ExchangeSelection
from kproxy.export_files import (
    FORMATS,
    MAX_STEPS,
    FileFormat,
    Layout,
    columns_of,
    exchange_pieces,
    format_of,
    packet_steps,
    replacing,
    write_exchanges,
    write_pieces,
)
from kproxy.output import echo, json_output

if TYPE_CHECKING:
    from captures.arrays import Int64s
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.exchanges.exchange_block import ExchangeBlock
    from captures.export.columns import Column

E = TypeVar("E", bound="Exchange | ExchangeBlock")

_EXCHANGES = ""  # key of the count of exchanges, beside the names of limits


@options
class ExportOptions(UtcOption, ReadingOptions, JobsOption, TimeOptions):
    """Options of ``kproxy export``."""

    output: str | None = option(
        "-o",
        "--output",
        type=click.Path(allow_dash=True, dir_okay=False),
        metavar="OUT",
        help="The file to write, - for standard output.",
    )
    otlp: Collector | None = option(
        "--otlp",
        help="Instead of a file, send exchanges, rebalances and incidents as spans to this OpenTelemetry collector "
        "(docs/otlp.md). Needs kproxy[otlp].",
    )
    format: FileFormat | None = option(
        "--format",
        type=click.Choice(FORMATS),
        help="Output format. Default: by the suffix of OUT: .pcapng, .json or .jsonl, .csv, .parquet, .mmd.",
    )
    wanted: FilterString | None = option(
        "-Y", "--filter", help="Write only exchanges that match, such as 'api == Fetch'."
    )
    connections: tuple[Number, ...] = option(
        "--connection", help="Write only connection N, as numbered in JSON; may be given several times."
    )
    count: Count | None = option("-c", "--count", help="Stop after N exchanges.")
    payload: Payload | None = option(
        "--payload", help="How much of record keys and values to write; not for pcapng.  [default: full]"
    )
    show_secrets: bool = option(
        "--show-secrets", help="Write passwords, tokens and keys instead of masking them."
    )
    text: bool = option("--text", help="JSON: bytes as text where they are UTF-8, instead of base64.")
    columns: str | None = option(
        "--columns",
        metavar="NAME,...",
        help="CSV and Parquet: the columns to write; all lists them. By default CSV has no bodies.",
    )
    steps: int = option(
        "--steps",
        type=click.IntRange(1),
        default=MAX_STEPS,
        show_default=True,
        help="Mermaid: the most steps in the diagram.",
    )
    mark: FilterString | None = option(
        "--mark",
        help="Mark exchanges that match, such as 'error', besides those already marked: in pcapng as packet comments.",
    )
    scrub: bool = option(
        "--scrub",
        help="pcapng: blank record keys, values and headers, SASL tokens and passwords, without changing sizes.",
    )
    synthetic: bool = option(
        "--synthetic", help="pcapng: write the frames as synthetic TCP, without other packets."
    )
    force: bool = option("--force", help="Overwrite OUT if it exists.")


class ExportRun(
    CaptureRun[ExportOptions],
    short_help="Write selected exchanges to a file: pcapng, JSON, CSV, Parquet, Mermaid.",
):
    """Write selected exchanges of CAPTURE... to OUT.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    \b
    pcapng   the original packets; synthetic TCP for decrypted data
    json     one object per exchange and line (docs/json.md)
    csv      one line per exchange
    parquet  one row per exchange, bodies as JSON text (needs pyarrow)
    mermaid  a sequence diagram

    Or send them with --otlp to an OpenTelemetry collector; without a filter, rebalances and incidents too.

    Secrets are masked in all formats but pcapng, which holds the original packets. To share a capture, add --scrub: it
    replaces user data, secrets and every byte that could not be decoded with filler. Names of topics, groups, clients
    and hosts stay.
    """

    def __init__(self, options: ExportOptions) -> None:
        super().__init__(options)
        if (options.output is None) == (options.otlp is None):
            raise click.UsageError("give -o OUT or --otlp URL")
        self.format = options.format or _format_of(options.output or "-.json")
        zone = self.reading.zone
        self.selecting = ExchangeSelection(
            filter_option(options.wanted, zone),
            options.begin,
            options.end,
            zone,
            options.connections,
            options.count,
        )
        self.mark = filter_option(options.mark, zone)
        self.exchanges = 0
        self.beyond: Counter[str] = Counter()
        self._check()
        self.columns = self._columns(options.columns)
        if options.output is not None:
            refuse_to_overwrite(options.output, options.files, force=options.force)

    def _check(self) -> None:
        """Refuse options that do not apply to the format, rather than ignore them."""
        pcapng = self.format == "pcapng"
        given = self.options
        tabular = self.format in ("csv", "parquet")
        wrong = {
            "--otlp: spans have no format, columns, marks or secrets": given.otlp
            and (
                given.format
                or given.columns
                or given.mark
                or given.payload
                or given.text
                or given.show_secrets
            ),
            "--payload: pcapng holds whole packets; --scrub blanks what records say": given.payload
            and pcapng,
            "--scrub: it makes a pcapng file; here --payload none leaves records out": given.scrub
            and not pcapng,
            "--scrub: it is the opposite of --show-secrets": given.scrub and given.show_secrets,
            "--synthetic: it makes packets, so it needs pcapng": given.synthetic and not pcapng,
            "--columns: only csv and parquet have columns": given.columns and not tabular,
            "--text: it is for json": given.text and self.format != "json",
        }
        refuse_contradictions(wrong)

    def _columns(self, columns: str | None) -> tuple[Column, ...]:
        from captures.export.columns import COLUMNS, choose

        if columns is None:
            return columns_of(self.format)
        if columns == "all":
            return COLUMNS
        with usage_errors(ValueError, before="--columns: "):
            return choose(columns.replace(" ", "").split(","), COLUMNS)

    # ------------------------------------------------------------ running
    def execute(self) -> NoReturn:
        from captures.export.parquet import ParquetMissing

        try:
            super().execute()
        except ParquetMissing as error:
            echo(f"kproxy: {error}", err=True)
            sys.exit(EXIT_UNREADABLE)

    def concerned(self, error: OSError) -> object:
        return f"{self.options.output} could not be written"

    def run(self) -> None:
        from captures.meaning import words
        from kproxy.text.summary import notes as notes_of
        from kproxy.text.summary import unreadable

        output = self.options.output
        if output is None:
            capture = self.reading.capture()
            notes = [*notes_of(capture), *self._send(capture)]
        else:
            with replacing(output) as file:
                capture = self.reading.capture()
                out = json_output() if output == "-" and self.format == "json" else file
                notes = [*notes_of(capture), *self._write(capture, out)]
        undecided = self.selecting.wanted is not None and self.selecting.wanted.undecided
        beyond = self.beyond or undecided or capture.faults
        self.clean = bool(self.exchanges) and not (unreadable(capture) or beyond)
        if not self.exchanges:
            notes.append("no exchange was selected")
        for note in notes:
            echo(f"kproxy: {note}", err=True)
        report_faults(capture)
        where = "standard output" if output == "-" else output
        done = f"sent to {self.options.otlp}" if output is None else f"written to {where}"
        echo(f"{words.counted(self.exchanges, 'exchange')} {done}.", err=True)

    def _send(self, capture: Capture) -> list[str]:
        """Send the selected exchanges as spans, and everything else if all are selected; return notes on them."""
        from captures.analysis.clusters import ONE_CLUSTER
        from captures.analysis.groups.history import HISTORIES
        from captures.analysis.incidents.history import ClusterHistories
        from captures.exchanges import ExchangeReader
        from captures.export.otlp import SENDING, CollectorError, Spans, SpanSender

        assert self.options.otlp is not None
        reader = self.reading.reader(capture)
        indexes = self.selecting.indexes(capture, reader)
        whole = len(indexes) == len(reader)
        clusters = self.reading.clusters(reader) if whole else ONE_CLUSTER
        reader = ExchangeReader(capture, annotate=False)
        names = reader.knowledge.topic_name
        spans, sender = Spans(names), SpanSender(self.options.otlp, wait=True)
        histories = ClusterHistories(names, capture, clusters)
        follow = capture.faults.guarded(histories.add, HISTORIES)
        counted: Counter[str] = Counter()
        try:
            for exchange in _counting(_read(reader, indexes, "sending"), counted):
                make = partial(spans.of_exchange, exchange)
                span = capture.faults.contained(make, SENDING, None, exchange.number)
                if span is not None:
                    sender.send(span)
                if whole:
                    follow(exchange)
            for timeline in histories.result():
                for rebalance in timeline.rebalances:
                    sender.send(spans.of_rebalance(rebalance))
            for incident in histories.incidents:
                sender.send(spans.of_incident(incident))
            sender.close()
        except CollectorError as error:
            raise click.ClickException(f"{self.options.otlp} took {sender.sent:,} spans: {error}") from None
        self._count(counted)
        return [*undecided_notes(self.selecting.wanted), *_beyond_notes(self.beyond)]

    def _write(self, capture: Capture, file: BinaryIO) -> list[str]:
        """Write the selected exchanges; return notes on them."""
        from captures.exchanges import ExchangeReader
        from captures.exchanges.parallel import in_parallel
        from captures.exchanges.summarised_exchanges import SummarisedExchanges

        # a filter may need raw bodies, which a reader for display replaces
        finder = self.reading.reader(capture)
        if self.mark is not None:
            for exchange in self.mark.exchanges(finder):
                capture.notes.mark(exchange.row)
        indexes = self.selecting.indexes(capture, finder)
        if self.format == "pcapng":
            return self._write_packets(capture, indexes, file)
        bodies = {"request", "response", "decoded", "masked"} & {column.name for column in self.columns}
        annotate = self.format == "json" or bool(bodies)
        reader = ExchangeReader(
            capture,
            show_secrets=self.options.show_secrets,
            payload=self.options.payload or "full",
            annotate=annotate,
            summary=self.format != "json",
        )
        layout = Layout(self.format, self.columns, text=self.options.text, steps=self.options.steps)
        if self.format == "mermaid":
            counted: Counter[str] = Counter()
            write_exchanges(capture, _counting(_read(reader, indexes), counted), file, layout)
            self._count(counted)
        else:
            several: Callable[[Sequence[int]], Iterable[Exchange | ExchangeBlock]] = reader.several
            if not annotate:
                several = SummarisedExchanges(reader, waits=True).blocks
            work = partial(self._share, capture, layout)
            with closing(in_parallel(reader, indexes, work, several)) as shares:
                write_pieces(self._pieces(shares, len(indexes)), file, layout)
        return [*undecided_notes(self.selecting.wanted), *_beyond_notes(self.beyond)]

    def _write_packets(self, capture: Capture, indexes: Int64s, file: BinaryIO) -> list[str]:
        rows = capture.table.order()[indexes]
        steps = packet_steps(capture, rows, file, scrub=self.options.scrub, synthetic=self.options.synthetic)
        with progress_bar("writing packets") as progress:
            while True:
                try:
                    done = next(steps)
                except StopIteration as end:
                    self.exchanges = end.value.exchanges
                    return list(end.value.notes)
                if progress is not None:
                    progress(done, capture.source.size)

    def _share(
        self, capture: Capture, layout: Layout, exchanges: Iterable[Exchange | ExchangeBlock]
    ) -> Iterator[tuple[Any, Counter[str]]]:
        """Yield pieces of output for some exchanges, and finally their counts."""
        counted: Counter[str] = Counter()
        for piece in exchange_pieces(_counting(exchanges, counted), layout, capture.faults):
            yield piece, Counter()
        yield None, counted

    def _pieces(self, shares: Iterable[tuple[Any, Counter[str]]], total: int) -> Iterator[Any]:
        """Yield pieces of output and add up their counts, with a progress bar if there are many."""
        for piece, counted in with_progress(shares, lambda _: self.exchanges, total, "writing"):
            self._count(counted)
            if piece is not None:
                yield piece

    def _count(self, counted: Counter[str]) -> None:
        """Add the number of exchanges, and of those that are partly beyond a limit, by its name."""
        self.exchanges += counted.pop(_EXCHANGES, 0)
        self.beyond += counted


def _counting(exchanges: Iterable[E], counted: Counter[str]) -> Iterator[E]:
    from captures.exchanges.exchange_block import ExchangeBlock

    def count(item: E) -> E:
        kinds = item.counted_kinds() if isinstance(item, ExchangeBlock) else [(item, 1)]
        for exchange, times in kinds:
            counted[_EXCHANGES] += times
            counted.update(exchange.limits)
        return item

    return map(count, exchanges)


def _beyond_notes(beyond: Counter[str]) -> list[str]:
    from dissectors.budget import shown

    return [
        f"what is beyond the limit {shown(name)} is missing in {count:,} exchange{'s' if count > 1 else ''}"
        for name, count in sorted(beyond.items())
    ]


def _read(reader: ExchangeReader, indexes: Int64s, doing: str = "writing") -> Iterator[Exchange]:
    exchanges = enumerate(reader.several(indexes.tolist()), 1)
    for _, exchange in with_progress(exchanges, lambda done: done[0], len(indexes), doing):
        yield exchange


def _format_of(output: str) -> FileFormat:
    try:
        return format_of(output)
    except ValueError as error:
        raise click.UsageError(f"{error}; or give --format") from None
