"""``kproxy read``: captures to exchanges, as lines, trees or JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, filter_option, keylog_option, reading_progress
from kproxy.cli.output import refuse_to_overwrite, replacing
from kproxy.cli.selecting import Selecting
from kproxy.cli.times import Moment

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange
    from kproxy.cli.summary import Tally

_SAMPLE = 200  # exchanges that decide the column widths


@click.command(short_help="Show the exchanges of captures.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="FILE...")
@click.option("-V", "--verbose", is_flag=True, help="Show every field of requests and responses.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per exchange (docs/json.md).")
@click.option(
    "--exchange", "number", type=click.IntRange(1), metavar="N", help="Show exchange N byte by byte."
)
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="Stop after N exchanges.")
@click.option(
    "-Y", "--filter", "wanted", metavar="FILTER", help="Show what fits: 'api == Fetch and latency > 100ms'."
)
@click.option(
    "--from", "begin", type=Moment(), help="Leave out what came before: 5s, 09:14:03, 2026-11-21T09:14:03Z."
)
@click.option("--to", "end", type=Moment(), help="Leave out what came after.")
@click.option(
    "--keylog", type=click.Path(), metavar="FILE", help="Decrypt TLS with the secrets in this NSS key log."
)
@click.option(
    "-w",
    "--write",
    type=click.Path(dir_okay=False),
    metavar="OUT",
    help="Write the packets of what is shown to a pcapng file too; kproxy export knows other formats.",
)
@click.option("--force", is_flag=True, help="With --write: overwrite OUT if it exists.")
@click.option("--utc", is_flag=True, help="Show times in UTC instead of the local zone.")
@click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and keys instead of masking them.")
@click.option(
    "--payload",
    type=click.Choice(["full", "preview", "none"]),
    default="full",
    show_default=True,
    help="How much of record keys and values to show.",
)
@click.option(
    "--text", is_flag=True, help="With --json: bytes as text where they are UTF-8, instead of base64."
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
)
def read(files: tuple[str, ...], **options: Any) -> None:
    """Show the Kafka exchanges in FILE..., one line each.

    FILE is a pcap or pcapng capture, plain or compressed with gzip or zstd; - reads standard input. Kafka is found
    on any port by its content. Each line has a request with its response: time, latency, client, broker, what was
    asked and what was answered.

    A response without its request, a request without an answer, bytes that were lost and messages that could not be
    decoded are shown as what they are. The closing line counts them.
    """
    from captures.packets import CaptureError

    reading = Reading(files, **options)
    try:
        reading.run()
    except CaptureError as error:
        click.echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    except BrokenPipeError:
        # the reader of our output has seen enough (head, less): nothing is wrong
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        click.echo(f"kproxy: {error.filename}: {error.strerror}", err=True)
        sys.exit(EXIT_UNREADABLE)
    sys.exit(0 if reading.clean else EXIT_INCOMPLETE)


class Reading:
    """One run of ``kproxy read``: the options, and what was counted."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        verbose: bool,
        as_json: bool,
        number: int | None,
        count: int | None,
        wanted: str | None,
        begin: str | None,
        end: str | None,
        keylog: str | None,
        write: str | None,
        force: bool,
        utc: bool,
        show_secrets: bool,
        payload: str,
        text: bool,
        color: str,
    ) -> None:
        import os

        self.files = files
        self.verbose = verbose
        self.as_json = as_json
        self.number = number
        self.zone: tzinfo | None = UTC if utc else None
        self.selecting = Selecting(filter_option(wanted, self.zone), begin, end, self.zone, count=count)
        self.keylog = keylog_option(keylog)
        self.write = write
        if write is not None:
            refuse_to_overwrite(write, files, force=force)
        self.show_secrets = show_secrets
        self.payload: Any = payload
        self.text = text
        self.terminal = sys.stdout.isatty()
        self.color = color == "always" or (
            color == "auto" and self.terminal and not os.environ.get("NO_COLOR")
        )
        self.clean = True
        self._captures: list[Capture] = []
        self._shown: list[list[int]] = []

    def run(self) -> None:
        """Read the files and print what was asked for."""
        from kproxy.cli.summary import Tally, notes

        tally = Tally()
        exchanges = self._exchanges()
        if self.as_json:
            self._print_json(_counted(exchanges, tally))
        elif self.number is not None:
            self._print_one(exchanges)
            self._write()
            return
        else:
            self._print_lines(_counted(exchanges, tally))
        self._write()
        self.clean = tally.clean(self._captures)
        to_stderr = not self.terminal or self.as_json
        for capture in self._captures:
            for note in notes(capture):
                click.echo(f"kproxy: {note}", err=True)
        sys.stdout.flush()
        click.echo(tally.sentence(self._captures), err=to_stderr)

    # ------------------------------------------------------------ what to show
    def _exchanges(self) -> Iterator[Exchange]:
        number = 1
        for path in self.files:
            capture = self._open(path)
            reader = self._reader(capture, number)
            number += len(reader)
            if self.number is None:
                chosen = self.selecting.exchanges(capture, reader)
            elif self.number < number:
                chosen = iter([reader.exchange(self.number - (number - len(reader)))])
            else:
                continue
            for exchange in chosen:
                if self.write is not None:
                    self._shown[-1].append(exchange.row)
                yield exchange
            if self.number is not None or self.selecting.enough:
                return

    def _write(self) -> None:
        """Write the packets of what was shown."""
        if self.write is None:
            return
        from captures.export.capture_file import CaptureFileWriter
        from captures.export.selection import Selection

        with replacing(self.write) as file:
            writer = CaptureFileWriter(file)
            for capture, rows in zip(self._captures, self._shown, strict=True):
                writer.write(Selection(capture, rows))

    def _open(self, path: str) -> Capture:
        from captures.exchanges import open_capture

        capture = open_capture(path, keylog=self.keylog)
        self._captures.append(capture)
        self._shown.append([])
        with reading_progress(path) as progress:
            capture.read(progress)
        return capture

    def _reader(self, capture: Capture, number: int) -> Any:
        from captures.exchanges import ExchangeReader

        return ExchangeReader(
            capture,
            show_secrets=self.show_secrets,
            payload=self.payload,
            annotate=self.as_json or self.verbose or self.number is not None,
            gist=not self.as_json,
            first_number=number,
        )

    # ------------------------------------------------------------ how to show it
    def _print_lines(self, exchanges: Iterator[Exchange]) -> None:
        from kproxy.cli.lines import Lines
        from kproxy.cli.tree import exchange_tree

        width = shutil.get_terminal_size().columns if self.terminal else None
        lines = Lines(width, self.zone, color=self.color)
        sample = list(islice(exchanges, _SAMPLE))
        lines.fit(sample)
        if sample:
            self._echo(lines.header(sample[0].time))
        for exchange in chain(sample, exchanges):
            self._echo(lines.line(exchange))
            if self.verbose:
                for line in exchange_tree(exchange, color=self.color):
                    self._echo(line)

    def _print_json(self, exchanges: Iterable[Exchange]) -> None:
        from captures.export.jsonlines import write_json_lines

        write_json_lines(exchanges, sys.stdout.buffer, text=self.text)

    def _print_one(self, exchanges: Iterator[Exchange]) -> None:
        from kproxy.cli.lines import Lines
        from kproxy.cli.tree import exchange_tree, problem_lines, traced_frame

        exchange = next(exchanges, None)
        if exchange is None:
            total = sum(len(capture.table) for capture in self._captures)
            raise click.UsageError(f"there is no exchange {self.number}: the capture has {total:,}")
        self._echo(Lines(None, self.zone, color=self.color).line(exchange))
        if exchange.request is exchange.response is None:  # raw SASL tokens have no fields
            for line in exchange_tree(exchange, color=self.color):
                self._echo(line)
            return
        masked = set(exchange.annotations.masked)
        for side, body in (("request", exchange.request), ("response", exchange.response)):
            if body is not None:
                self._echo("")
                for line in traced_frame(body, side, exchange.annotations.decoded, masked=masked):
                    self._echo(line)
        for line in problem_lines(exchange):
            self._echo(line)
        self.clean = exchange.decoded_fully

    def _echo(self, line: str) -> None:
        sys.stdout.write(f"{line}\n")


def _counted(exchanges: Iterable[Exchange], tally: Tally) -> Iterator[Exchange]:
    for exchange in exchanges:
        tally.add(exchange)
        yield exchange
