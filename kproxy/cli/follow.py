"""``kproxy follow``: everything that one client did, over all its connections and brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureRun
from kproxy.cli.command import argument, option, options
from kproxy.cli.common import with_progress
from kproxy.cli.options import ReadingOptions, ReportOptions, TimeOptions, UtcOption
from kproxy.cli.selection import ExchangeSelection, there_are
from kproxy.output import echo

if TYPE_CHECKING:
    from captures.analysis.client_trace.model import Line, Question, TracedClient
    from captures.exchanges import Capture, Exchange, ExchangeReader


@options
class FollowOptions(UtcOption, ReportOptions, ReadingOptions, TimeOptions):
    """Options of ``kproxy follow``."""

    files: tuple[str, ...] = argument("[CLIENT] CAPTURE...", type=click.Path(allow_dash=True))
    connection: int | None = option("--connection", metavar="N", help="Follow the client of this connection.")
    member: str | None = option("--member", metavar="ID", help="Follow the member of a group with this ID.")
    transactional_id: str | None = option(
        "--transactional-id", metavar="ID", help="Follow all clients that used this transactional ID."
    )
    producer_id: int | None = option(
        "--producer-id", metavar="N", help="Follow all clients that used this producer ID."
    )
    show_all: bool = option("--all", help="Show everything; do not fold repetitions.")
    as_json: bool = option("--json", help="Print one JSON object per line of the log (docs/follow.md).")
    mermaid: bool = option("--mermaid", help="Print a Mermaid sequence diagram instead.")


class FollowRun(CaptureRun[FollowOptions], short_help="Show everything that one client did, as a log."):
    """Show what one client in CAPTURE... did, over all its connections and brokers, as a log.

    CLIENT is a client ID, the instance ID of a static member, an address, or a pattern such as 'app-*'; omit it if you
    select the client with --connection, --member, --transactional-id or --producer-id. CAPTURE is a file, a folder, or
    - for standard input; several are one capture in the order of time.

    The log shows connections, bootstrap and authentication, requests to the cluster and the coordinator, its group and
    positions, what it fetched and produced, transactions, errors and what it did next, and how it ended. Repeated
    requests are folded. Connections of one process are tied by its names, such as its member ID; the log says by which.
    docs/follow.md explains the terms.

    --from and --to choose what is shown; the whole capture is read in any case.
    """

    def __init__(self, options: FollowOptions) -> None:
        self.question, files = _question(options)
        super().__init__(options, files)

    def run(self) -> None:
        from captures.analysis.client_trace.connections import find_client
        from captures.analysis.client_trace.repeats import without_repeats
        from kproxy.cli.results import PartyResult
        from kproxy.text.follow import FollowText

        capture = self.reading.capture()
        party = find_client(capture, self.question)
        if not party.ties:
            raise click.UsageError(self._nobody(capture))
        if self.options.mermaid:
            self._print_mermaid(capture, party)
        else:
            log = self._within(capture, self._log(capture, party))
            shown = log if self.options.show_all else without_repeats(log)
            text = FollowText(self.reading.zone, self.reading.names)
            self.answer(PartyResult(self.reading.files, party), *log, blocks=text.blocks(party, shown))

    def _log(self, capture: Capture, party: TracedClient) -> list[Line]:
        from captures.analysis.client_trace.log import PartyLog, rows_of

        reader = self.reading.reader(capture)
        log = PartyLog(party, capture, reader.knowledge.topic_name)
        add = capture.faults.guarded(log.add, "following it")
        for exchange in self._exchanges(reader, rows_of(capture, party).tolist()):
            add(exchange)
        nothing: list[Line] = []
        lines = capture.faults.contained(log.result, "telling what it did", nothing)
        self.conclude(capture)
        return lines

    def _exchanges(self, reader: ExchangeReader, indexes: list[int]) -> Iterator[Exchange]:
        done = iter(range(1, len(indexes) + 1))
        exchanges = self.reading.tally.counting(reader.several(indexes))
        return with_progress(exchanges, lambda _: next(done), len(indexes), "following")

    def _within(self, capture: Capture, log: list[Line]) -> list[Line]:
        low, high = self.reading.bounds(capture, self.options.begin, self.options.end)
        return [
            line for line in log if (high is None or line.time <= high) and (low is None or line.until >= low)
        ]

    def _nobody(self, capture: Capture) -> str:
        """Return a message that there is no such client, and which ones exist."""
        from captures.analysis.client_trace.connections import known_names
        from captures.analysis.client_trace.model import QuestionKind

        by, text = self.question
        if by is QuestionKind.CLIENT:
            return f"no client {text!r} in the capture; {there_are(known_names(capture))}"
        if by is QuestionKind.CONNECTION:
            return (
                f"no connection {text} in the capture; there are {len(capture.connections):,}, counted from 0"
            )
        name = by.removesuffix("_id").replace("transactional", "transaction")
        return f"no {name} with the ID {text!r} in the capture"

    # ------------------------------------------------------------ output
    def _print_mermaid(self, capture: Capture, party: TracedClient) -> None:
        from captures.exchanges import ExchangeReader
        from captures.export.mermaid import SequenceDiagram

        begin, end, zone = self.options.begin, self.options.end, self.reading.zone
        reader = ExchangeReader(capture, annotate=False)
        chosen = ExchangeSelection(None, begin, end, zone, tuple(party.ties)).indexes(capture, reader)
        diagram = SequenceDiagram()
        diagram.add(capture, self._exchanges(reader, chosen.tolist()))
        self.conclude(capture)
        if not self.reading.tally.exchanges:
            echo("sequenceDiagram")
            echo("    participant N as no exchange of it was seen")
            return
        for line in diagram.lines():
            echo(line)


def _question(options: FollowOptions) -> tuple[Question, tuple[str, ...]]:
    """Return whom to follow, and the captures.

    :raises click.UsageError: if that is given twice, or there is no capture
    """
    from captures.analysis.client_trace.model import Question, QuestionKind

    given = {
        QuestionKind.CONNECTION: options.connection,
        QuestionKind.MEMBER: options.member,
        QuestionKind.TRANSACTION: options.transactional_id,
        QuestionKind.PRODUCER: options.producer_id,
    }
    chosen = [Question(by, str(value)) for by, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(
            "--connection, --member, --transactional-id and --producer-id cannot be combined"
        )
    if chosen:
        return chosen[0], options.files
    if len(options.files) < 2:
        raise click.UsageError("it takes a client and a capture: kproxy follow CLIENT CAPTURE...")
    return Question(QuestionKind.CLIENT, options.files[0]), options.files[1:]
