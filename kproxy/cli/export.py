"""``kproxy export``: chosen exchanges of a capture as a file for another program, or another person."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kproxy.cli.common import (
    EXIT_INCOMPLETE,
    EXIT_UNREADABLE,
    early_ends,
    filter_option,
    keylog_option,
    names_of,
    progress_bar,
    read_capture,
    with_progress,
)
from kproxy.cli.filtering import FILTER, undecided_notes
from kproxy.cli.options import reading_options, time_options
from kproxy.cli.output import refuse_to_overwrite, replacing
from kproxy.cli.printing import echo, json_output
from kproxy.cli.reading import tell_faults
from kproxy.cli.selecting import Selecting
from kproxy.writing import (
    FORMATS,
    MAX_STEPS,
    FileFormat,
    Layout,
    columns_of,
    format_of,
    packet_steps,
    write_exchanges,
)

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.export.columns import Column
    from kproxy.cli.selecting import Int64s

_EXCHANGES = ""  # no limit is called so


@click.command(short_help="Write chosen exchanges to a file: pcapng, JSON, CSV, Parquet, Mermaid.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="OUT",
    help="The file to write, - for standard output.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="What to write. Without it the name of OUT tells: .pcapng, .json or .jsonl, .csv, .parquet, .mmd.",
)
@click.option(
    "-Y",
    "--filter",
    "wanted",
    type=FILTER,
    help="Write only exchanges that fit, such as 'api == Fetch'.",
)
@click.option(
    "--connection",
    "connections",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Write only connection N, as numbered in JSON; may be given several times.",
)
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="Stop after N exchanges.")
@time_options
@reading_options
@click.option("--utc", is_flag=True, help="Read times in UTC instead of the local zone.")
@click.option(
    "--payload",
    type=click.Choice(["full", "preview", "none"]),
    help="How much of record keys and values to write; not for pcapng.  [default: full]",
)
@click.option(
    "--show-secrets", is_flag=True, help="Write passwords, tokens and keys instead of masking them."
)
@click.option("--text", is_flag=True, help="JSON: bytes as text where they are UTF-8, instead of base64.")
@click.option(
    "--columns",
    metavar="NAME,...",
    help="CSV and Parquet: which columns; all lists them. CSV has no bodies otherwise.",
)
@click.option(
    "--steps", type=click.IntRange(1), default=MAX_STEPS, show_default=True, help="Mermaid: longest picture."
)
@click.option(
    "--mark",
    type=FILTER,
    help="Mark what fits, such as 'error', beside what is marked already: in pcapng a packet comment.",
)
@click.option(
    "--scrub",
    is_flag=True,
    help="pcapng: blank record keys, values and headers, SASL tokens and passwords at equal size.",
)
@click.option(
    "--synthetic",
    is_flag=True,
    help="pcapng: write the frames as TCP of our own making, without other packets.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
def export(files: tuple[str, ...], output: str, **options: Any) -> None:
    """Write chosen exchanges of CAPTURE... to OUT.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    \b
    pcapng   the original packets; synthetic TCP for what was seen decrypted
    json     one object per exchange and line (docs/json.md)
    csv      one line per exchange
    parquet  one row per exchange, bodies as JSON text (needs pyarrow)
    mermaid  a sequence diagram

    Secrets are masked in all formats but pcapng, which holds the packets as they were. To give a capture away, add
    --scrub: what users wrote and what is secret becomes filler, and so does every byte that could not be decoded.
    Names of topics, groups, clients and hosts stay.
    """
    from captures.export.parquet import ParquetMissing

    run = Export(files, output, **options)
    try:
        with early_ends(lambda error: f"{output} could not be written"):
            run.run()
    except ParquetMissing as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    sys.exit(0 if run.clean else EXIT_INCOMPLETE)


class Export:
    """One run of ``kproxy export``.

    :ivar exchanges: how many were written
    :ivar clean: whether there were any, and all files could be read
    """

    def __init__(
        self,
        files: tuple[str, ...],
        output: str,
        *,
        format_: FileFormat | None,
        wanted: str | None,
        connections: tuple[int, ...],
        count: int | None,
        begin: str | None,
        end: str | None,
        keylog: str | None,
        hosts: tuple[str, ...],
        align_clocks: bool,
        spool: int | None,
        utc: bool,
        payload: str | None,
        show_secrets: bool,
        text: bool,
        columns: str | None,
        steps: int,
        mark: str | None,
        scrub: bool,
        synthetic: bool,
        force: bool,
    ) -> None:
        self.files = files
        self.output = output
        self.format = format_ or _format_of(output)
        zone = UTC if utc else None
        self.selecting = Selecting(filter_option(wanted, zone), begin, end, zone, connections, count)
        self.keylog = keylog_option(keylog, growing="-" in files)
        self.names = names_of(hosts)
        self.align_clocks = align_clocks
        self.spool = spool
        self.payload: Any = payload or "full"
        self.show_secrets = show_secrets
        self.text = text
        self.steps = steps
        self.mark = filter_option(mark, zone)
        self.scrub = scrub
        self.synthetic = synthetic
        self.exchanges = 0
        self.beyond: Counter[str] = Counter()
        self.clean = True
        self._check(payload, columns)
        self.columns = self._columns(columns)
        refuse_to_overwrite(output, files, force=force)

    def _check(self, payload: str | None, columns: str | None) -> None:
        """Refuse options that the format has no use for, rather than ignore them."""
        pcapng = self.format == "pcapng"
        wrong = [
            ("--payload", payload and pcapng, "pcapng holds whole packets; --scrub blanks what records say"),
            (
                "--scrub",
                self.scrub and not pcapng,
                "it makes a pcapng file; here --payload none leaves records out",
            ),
            ("--scrub", self.scrub and self.show_secrets, "it is the opposite of --show-secrets"),
            ("--synthetic", self.synthetic and not pcapng, "it makes packets, so it needs pcapng"),
            (
                "--columns",
                columns and self.format not in ("csv", "parquet"),
                "only csv and parquet have columns",
            ),
            ("--text", self.text and self.format != "json", "it is for json"),
        ]
        for option, applies, reason in wrong:
            if applies:
                raise click.UsageError(f"{option}: {reason}")

    def _columns(self, columns: str | None) -> tuple[Column, ...]:
        from captures.export.columns import COLUMNS, choose

        if columns is None:
            return columns_of(self.format)
        if columns == "all":
            return COLUMNS
        try:
            return choose(columns.replace(" ", "").split(","))
        except ValueError as error:
            raise click.UsageError(f"--columns: {error}") from None

    # ------------------------------------------------------------ running
    def run(self) -> None:
        """Read the capture, and write what was asked for."""
        from captures.meaning import words
        from kproxy.cli.summary import notes as notes_of
        from kproxy.cli.summary import unreadable

        with replacing(self.output) as file:
            capture = read_capture(
                self.files, self.keylog, self.names, align_clocks=self.align_clocks, spool=self.spool
            )
            out = json_output() if self.output == "-" and self.format == "json" else file
            notes = [*notes_of(capture), *self._write(capture, out)]
        undecided = self.selecting.wanted is not None and self.selecting.wanted.undecided
        beyond = self.beyond or undecided or capture.faults
        self.clean = bool(self.exchanges) and not (unreadable(capture) or beyond)
        if not self.exchanges:
            notes.append("no exchange was selected")
        for note in notes:
            echo(f"kproxy: {note}", err=True)
        tell_faults(capture)
        where = "standard output" if self.output == "-" else self.output
        echo(f"{words.counted(self.exchanges, 'exchange')} written to {where}.", err=True)

    def _write(self, capture: Capture, file: BinaryIO) -> list[str]:
        """Write what is selected; return what there is to be said about it."""
        from captures.exchanges import ExchangeReader

        # a filter may ask for what only a reader that shows nothing learns
        finder = ExchangeReader(capture, annotate=False, gist=False)
        if self.mark is not None:
            for exchange in self.mark.exchanges(finder):
                capture.notes.mark(exchange.row)
        indexes = self.selecting.indexes(capture, finder)
        if self.format == "pcapng":
            return self._write_packets(capture, indexes, file)
        bodies = {"request", "response", "decoded", "masked"} & {column.name for column in self.columns}
        reader = ExchangeReader(
            capture,
            show_secrets=self.show_secrets,
            payload=self.payload,
            annotate=self.format == "json" or bool(bodies),
            gist=self.format != "json",
        )
        if self.format == "json":
            self._write_json(reader, indexes, file)
        else:
            layout = Layout(self.format, self.columns, steps=self.steps)
            counted: Counter[str] = Counter()
            read = _counting(_read(reader, indexes), counted)
            self.exchanges = write_exchanges(capture, read, file, layout)
            self._count(counted - Counter({_EXCHANGES: counted[_EXCHANGES]}))
        return [*undecided_notes(self.selecting.wanted), *_beyond_notes(self.beyond)]

    def _write_packets(self, capture: Capture, indexes: Int64s, file: BinaryIO) -> list[str]:
        rows = capture.table.order()[indexes]
        steps = packet_steps(capture, rows, file, scrub=self.scrub, synthetic=self.synthetic)
        with progress_bar("writing packets") as progress:
            while True:
                try:
                    done = next(steps)
                except StopIteration as end:
                    self.exchanges = end.value.exchanges
                    return list(end.value.notes)
                if progress is not None:
                    progress(done, capture.source.size)

    def _write_json(self, reader: ExchangeReader, indexes: Int64s, file: BinaryIO) -> None:
        """Write exchanges that as many processes decode as there are processors."""
        from captures.exchanges.parallel import in_parallel

        with closing(in_parallel(reader, indexes, partial(self._json_share, reader.capture))) as shares:
            for lines, counted in with_progress(shares, lambda _: self.exchanges, len(indexes), "writing"):
                file.write(lines)
                self._count(counted)

    def _json_share(
        self, capture: Capture, exchanges: Iterable[Exchange]
    ) -> Iterator[tuple[bytes | bytearray, Counter[str]]]:
        """Yield some exchanges as JSON lines, and at last what was counted."""
        from captures.export.jsonlines import json_pieces

        counted: Counter[str] = Counter()
        for lines in json_pieces(_counting(exchanges, counted), text=self.text, faults=capture.faults):
            yield lines, Counter()
        yield b"", counted

    def _count(self, counted: Counter[str]) -> None:
        """Take in how many exchanges there were, and by the names of limits how many are partly beyond them."""
        self.exchanges += counted.pop(_EXCHANGES, 0)
        self.beyond += counted


def _counting(exchanges: Iterable[Exchange], counted: Counter[str]) -> Iterator[Exchange]:
    for exchange in exchanges:
        counted[_EXCHANGES] += 1
        for name in exchange.limits:
            counted[name] += 1
        yield exchange


def _beyond_notes(beyond: Counter[str]) -> list[str]:
    from dissectors.budget import shown

    return [
        f"what is beyond the limit {shown(name)} is missing in {count:,} exchange{'s' if count > 1 else ''}"
        for name, count in sorted(beyond.items())
    ]


def _read(reader: ExchangeReader, indexes: Int64s) -> Iterator[Exchange]:
    exchanges = enumerate(reader.several(indexes.tolist()), 1)
    for _, exchange in with_progress(exchanges, lambda done: done[0], len(indexes), "writing"):
        yield exchange


def _format_of(output: str) -> FileFormat:
    try:
        return format_of(output)
    except ValueError as error:
        raise click.UsageError(f"{error}; or give --format") from None
