"""``kproxy read``: captures to exchanges, as lines, trees or JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import click

from kproxy.cli.capture_run import CaptureRun, report_faults
from kproxy.cli.command import Count, argument, option, options
from kproxy.cli.common import (
    filter_option,
    read_all,
    refuse_to_overwrite,
    undecided_notes,
    with_progress,
)
from kproxy.cli.exchange_output import SAMPLE, SHOWING, ExchangeOutput
from kproxy.cli.options import FilterString, JobsOption, ReadingOptions, ShowingOptions, TimeOptions
from kproxy.cli.selection import ExchangeSelection
from kproxy.export_files import packet_steps, replacing
from kproxy.output import colored, echo, echo_lines, flush
from kproxy.signals import ended_by_signals

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange
    from captures.exchanges.exchange_block import ExchangeBlock
    from captures.export.packets import PacketFinder
    from kproxy.text.summary import Tally

T = TypeVar("T")


@options
class ReadOptions(ShowingOptions, ReadingOptions, JobsOption, TimeOptions):
    """Options of ``kproxy read``."""

    files: tuple[str, ...] = argument("FILE...", type=click.Path(allow_dash=True))
    number: Count | None = option("--exchange", help="Show exchange N byte by byte, or as JSON (--json).")
    follow: bool = option("-F", "--follow", help="Follow a FILE that is still being written, like tail -f.")
    count: Count | None = option("-c", "--count", help="Stop after N exchanges.")
    wanted: FilterString | None = option(
        "-Y", "--filter", help="Show only exchanges that match: 'api == Fetch and latency > 100ms'."
    )
    frame_numbers: bool = option(
        "--frame-numbers",
        help="With --json: add the numbers of the packets of each exchange, as in Wireshark.",
    )
    write: str | None = option(
        "-w",
        "--write",
        type=click.Path(dir_okay=False),
        metavar="OUT",
        help="Also write the packets of shown exchanges to a pcapng file; kproxy export knows other formats.",
    )
    force: bool = option("--force", help="With --write: overwrite OUT if it exists.")


class ReadRun(CaptureRun[ReadOptions], short_help="Show the exchanges of a capture."):
    """Show the Kafka exchanges in FILE..., one line each.

    FILE is a pcap or pcapng capture, plain or compressed with gzip or zstd, or a folder of captures; - reads standard
    input. Several files are one capture in the order of time, so rotated files may be given in any order, and
    connections continue from one to the next. kproxy recognises Kafka on any port by its content. Each line is a
    request with its response: time, latency, client, broker, and a summary of both.

    From a pipe, and with --follow, each exchange is shown as soon as it is complete, until Ctrl-C. With -U
    --immediate-mode tcpdump hands packets over at once.

    Responses without a request, requests without a response, lost bytes and undecodable messages are shown as such. The
    closing line counts them.
    """

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self.number = options.number
        self.showing = ExchangeOutput(options)
        zone = self.showing.zone
        wanted = filter_option(options.wanted, zone)
        self.selecting = ExchangeSelection(wanted, options.begin, options.end, zone, count=options.count)
        if options.frame_numbers and not options.as_json:
            raise click.UsageError("--frame-numbers adds a key to JSON objects: add --json")
        self._finder: PacketFinder | None = None
        self.write = options.write
        if options.write is not None:
            refuse_to_overwrite(options.write, options.files, force=options.force)
        self._shown: list[int] = []

    def run(self) -> None:
        capture = self.reading.opened()
        if self.number is not None:
            read_all(capture)
            self._print_one(capture, self.number)
        elif capture.source.live:
            if self.options.frame_numbers:
                raise click.UsageError(
                    "--frame-numbers needs a file that is complete: write the packets to one (-w)"
                )
            self._show_live(capture)
        else:
            read_all(capture)
            self._show(capture)
        self._write(capture)
        if self.number is None:
            self._conclude(capture)

    def _conclude(self, capture: Capture) -> None:
        from kproxy.text.summary import notes

        undecided = undecided_notes(self.selecting.wanted)
        tally = self.reading.tally
        self.clean = tally.clean(capture) and not undecided
        for note in [*notes(capture), *undecided]:
            echo(f"kproxy: {note}", err=True)
        report_faults(capture)
        flush()
        echo(
            tally.sentence(capture, self.selecting.wanted),
            err=not self.showing.terminal or self.showing.as_json,
        )

    # ------------------------------------------------------------ selection
    def _counted(self, exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
        for exchange in self.reading.tally.counting(exchanges):
            if self.write is not None:
                self._shown.append(exchange.row)
            yield exchange

    def _write(self, capture: Capture) -> None:
        """Write the packets of the exchanges shown."""
        if self.write is None:
            return
        import numpy as np  # slow, and needed only here

        def written(file: BinaryIO) -> Iterator[int]:
            names = (yield from packet_steps(capture, np.array(self._shown, np.int64), file)).names
            if names:
                echo(f"kproxy: packets of {names} were written", err=True)

        with replacing(self.write) as file:
            deque(written(file), maxlen=0)

    # ------------------------------------------------------------ output
    def _show_live(self, capture: Capture) -> None:
        """Print exchanges as they complete, until the capture ends, or is stopped."""
        reader = self.showing.reader(capture, live=True)
        exchanges = self.selecting.follow(capture, reader, pause=flush)
        with ended_by_signals(capture.source.stop):
            self.showing.show_live(self._counted(exchanges), capture.faults)
        capture.source.stop()  # it may not have ended

    def _show(self, capture: Capture) -> None:
        """Print the selected exchanges, decoded by several processes if they are many."""
        from captures.exchanges.parallel import in_parallel
        from captures.exchanges.summarised_exchanges import SummarisedExchanges

        showing, tally = self.showing, self.reading.tally
        reader = showing.reader(capture)
        indexes = self.selecting.indexes(capture, reader)
        if colored():  # whether a cell is dimmed depends on the line above
            capture.jobs = 1
        bodies = showing.as_json or showing.verbose
        summarised = SummarisedExchanges(reader, waits=False)
        by_block = not (showing.terminal or colored())
        several: Callable[[Sequence[int]], Iterable[Exchange | ExchangeBlock]] = reader.several
        if not bodies:
            several = summarised.blocks if by_block else summarised.several
        self._find_frames(capture)
        if not showing.as_json:
            showing.begin(list(reader.bares(indexes[:SAMPLE].tolist())))
        with closing(in_parallel(reader, indexes, partial(self._share, capture), several)) as shares:
            for piece, counted in self._followed(shares, lambda _: tally.exchanges, len(indexes)):
                if counted is None:
                    showing.write(piece)
                else:
                    tally.merge(counted)
        if self.write is not None:
            self._shown = reader.rows[indexes].tolist()

    def _find_frames(self, capture: Capture) -> None:
        if self.options.frame_numbers:
            from captures.export.packets import PacketFinder

            self._finder = PacketFinder(capture)

    def _followed(self, items: Iterable[T], position: Callable[[T], int], total: int) -> Iterator[T]:
        """Yield the items, with a progress bar unless the printed output itself shows the progress."""
        if self.showing.terminal:
            return iter(items)
        return with_progress(items, position, total, "decoding")

    def _share(
        self, capture: Capture, exchanges: Iterable[Exchange | ExchangeBlock]
    ) -> Iterator[tuple[str | bytearray, Tally | None]]:
        """Yield output for some exchanges, and finally their counts."""
        from kproxy.text.summary import Tally

        tally = Tally()
        exchanges = tally.counting(exchanges)
        if self._finder is not None:
            exchanges = self._with_frame_numbers(cast("Iterable[Exchange]", exchanges), self._finder)
        for piece in self.showing.pieces(exchanges, capture.faults):
            yield piece, None
        yield "", tally

    @staticmethod
    def _with_frame_numbers(exchanges: Iterable[Exchange], finder: PacketFinder) -> Iterator[Exchange]:
        for exchange in exchanges:
            exchange.frame_numbers = finder.of(exchange.row)
            yield exchange

    def _print_one(self, capture: Capture, number: int) -> None:
        from kproxy.text.lines import Lines
        from kproxy.text.tree import exchange_tree, problem_lines, traced_exchange

        reader = self.showing.reader(capture, annotate=True)
        if number > len(reader):
            raise click.UsageError(f"there is no exchange {number}: the capture has {len(capture.table):,}")
        exchange = reader.exchange(number - 1)
        self._shown.append(exchange.row)
        tokens = exchange.request is exchange.response is None  # raw SASL tokens have no fields
        if self.showing.as_json:
            self._find_frames(capture)
            for piece, _ in self._share(capture, [exchange]):
                self.showing.write(piece)
        else:
            parts = [iter([Lines(None, self.showing.zone).line(exchange)])]
            parts += (
                [exchange_tree(exchange)] if tokens else [traced_exchange(exchange), problem_lines(exchange)]
            )
            for part in parts:
                echo_lines(capture.faults.contained_items(part, SHOWING, number))
        flush()
        report_faults(capture)
        self.clean = (tokens or exchange.decoded_fully) and not capture.faults
