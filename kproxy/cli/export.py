"""``kproxy export``: chosen exchanges of captures as a file for another program, or another person."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, filter_option, keylog_option, reading_progress
from kproxy.cli.output import as_text, refuse_to_overwrite, replacing
from kproxy.cli.selecting import Selecting
from kproxy.cli.times import Moment

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from captures.export.columns import Column
    from captures.export.mermaid import SequenceDiagram
    from kproxy.cli.selecting import Int64s

FORMATS = ("pcapng", "json", "csv", "parquet", "mermaid")

_BY_SUFFIX = {
    ".pcapng": "pcapng",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
}
_MANY = 20_000


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
    metavar="FILTER",
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
@click.option(
    "--from", "begin", type=Moment(), help="Leave out what came before: 5s, 09:14:03, 2026-11-21T09:14:03Z."
)
@click.option("--to", "end", type=Moment(), help="Leave out what came after.")
@click.option(
    "--keylog", type=click.Path(), metavar="FILE", help="Decrypt TLS with the secrets in this NSS key log."
)
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
    "--steps", type=click.IntRange(1), default=100, show_default=True, help="Mermaid: longest picture."
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
    from captures.packets import CaptureError

    run = Export(files, output, **options)
    try:
        run.run()
    except CaptureError as error:
        click.echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    except ParquetMissing as error:
        click.echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        click.echo(f"kproxy: {output} could not be written: {error.strerror or error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    sys.exit(0 if run.exchanges else EXIT_INCOMPLETE)


class Export:
    """One run of ``kproxy export``.

    :ivar exchanges: how many were written
    """

    def __init__(
        self,
        files: tuple[str, ...],
        output: str,
        *,
        format_: str | None,
        wanted: str | None,
        connections: tuple[int, ...],
        count: int | None,
        begin: str | None,
        end: str | None,
        keylog: str | None,
        utc: bool,
        payload: str | None,
        show_secrets: bool,
        text: bool,
        columns: str | None,
        steps: int,
        scrub: bool,
        synthetic: bool,
        force: bool,
    ) -> None:
        self.files = files
        self.output = output
        self.format = format_ or _format_of(output)
        zone = UTC if utc else None
        self.selecting = Selecting(filter_option(wanted, zone), begin, end, zone, connections, count)
        self.keylog = keylog_option(keylog)
        self.payload: Any = payload or "full"
        self.show_secrets = show_secrets
        self.text = text
        self.steps = steps
        self.scrub = scrub
        self.synthetic = synthetic
        self.exchanges = 0
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
        from captures.export.columns import COLUMNS, PLAIN, choose

        if columns == "all" or (columns is None and self.format == "parquet"):
            return COLUMNS
        try:
            return choose(PLAIN if columns is None else columns.replace(" ", "").split(","))
        except ValueError as error:
            raise click.UsageError(f"--columns: {error}") from None

    # ------------------------------------------------------------ running
    def run(self) -> None:
        """Read the captures, and write what was asked for."""
        with replacing(self.output) as file:
            if self.format == "pcapng":
                notes = self._write_packets(file)
            elif self.format == "mermaid":
                notes = self._write_diagram(file)
            else:
                notes = self._write_rows(file)
        if not self.exchanges:
            notes.append("no exchange was selected")
        for note in notes:
            click.echo(f"kproxy: {note}", err=True)
        where = "standard output" if self.output == "-" else self.output
        click.echo(f"{_plural(self.exchanges, 'exchange')} written to {where}.", err=True)

    def _write_packets(self, file: BinaryIO) -> list[str]:
        from captures.export.capture_file import CaptureFileWriter
        from captures.export.selection import Selection

        writer = CaptureFileWriter(file, scrub=self.scrub, synthetic=self.synthetic)
        for path, capture, _, indexes in self._captures(decode=False):
            order = capture.table.order()
            with reading_progress(path) as progress:
                writer.write(Selection(capture, order[indexes]), progress=progress)
        written = writer.written
        self.exchanges = written.exchanges
        made = f", {written.synthetic:,} of them synthetic" if written.synthetic else ""
        return [f"{_plural(written.packets, 'packet')}{made}", *writer.notes]

    def _write_diagram(self, file: BinaryIO) -> list[str]:
        from captures.export.mermaid import SequenceDiagram

        diagram: SequenceDiagram = SequenceDiagram(max_steps=self.steps)
        for _, capture, reader, indexes in self._captures():
            self.exchanges += diagram.add(capture, _read(reader, indexes))
        with as_text(file) as text:
            diagram.write(text)
        return []

    def _write_rows(self, file: BinaryIO) -> list[str]:
        match self.format:
            case "json":
                from captures.export.jsonlines import write_json_lines

                self.exchanges = write_json_lines(self._exchanges(), file, text=self.text)
            case "csv":
                from captures.export.csv_export import write_csv

                with as_text(file) as text:
                    self.exchanges = write_csv(self._exchanges(), text, self.columns)
            case _:
                from captures.export.parquet import write_parquet

                self.exchanges = write_parquet(self._exchanges(), file, self.columns)
        return []

    def _exchanges(self) -> Iterator[Exchange]:
        for _, _, reader, indexes in self._captures():
            yield from _read(reader, indexes)

    def _captures(self, *, decode: bool = True) -> Iterator[tuple[str, Capture, ExchangeReader, Int64s]]:
        """Yield the captures with a reader and the indexes of what is to be written."""
        from captures.exchanges import ExchangeReader, open_capture
        from kproxy.cli.summary import notes

        number = 1
        for path in self.files:
            capture = open_capture(path, keylog=self.keylog)
            with reading_progress(path) as progress:
                capture.read(progress)
            for note in notes(capture):
                click.echo(f"kproxy: {note}", err=True)
            # a filter may ask for what only a reader that shows nothing learns
            finder = ExchangeReader(capture, annotate=False, gist=False, first_number=number)
            indexes = self.selecting.indexes(capture, finder)
            bodies = {"request", "response", "decoded", "masked"} & {column.name for column in self.columns}
            reader = ExchangeReader(
                capture,
                show_secrets=self.show_secrets,
                payload=self.payload,
                annotate=self.format == "json" or bool(bodies),
                gist=self.format != "json",
                first_number=number,
            )
            yield path, capture, reader if decode else finder, indexes
            number += len(capture.table)


def _read(reader: ExchangeReader, indexes: Int64s) -> Iterator[Exchange]:
    wanted = indexes.tolist()
    if len(wanted) < _MANY or not sys.stderr.isatty():
        yield from map(reader.exchange, wanted)
        return
    with click.progressbar(wanted, label="writing", file=sys.stderr) as bar:
        yield from map(reader.exchange, bar)


def _format_of(output: str) -> str:
    suffix = Path(output).suffix.lower()
    known = _BY_SUFFIX.get(suffix)
    if known is not None:
        return known
    names = ", ".join(FORMATS)
    if suffix in (".pcap", ".cap"):
        raise click.UsageError(f"{suffix} cannot hold comments or more than one link type: write .pcapng")
    raise click.UsageError(f"the name {output!r} does not tell the format: give --format, one of {names}")


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
