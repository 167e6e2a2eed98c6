"""``kproxy follow``: everything that one party did, over all its connections and brokers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends, with_progress
from kproxy.cli.group_option import there_are
from kproxy.cli.options import color_option, reading_options, time_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width

if TYPE_CHECKING:
    from captures.analysis.party.model import Line, Party, Question
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from kproxy.cli.summary import Tally


@click.command(short_help="Tell everything that one client did, as a log.")
@click.argument(
    "arguments", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="[CLIENT] CAPTURE..."
)
@click.option("--connection", type=int, metavar="N", help="Follow the client of this connection.")
@click.option("--member", metavar="ID", help="Follow the member of a group with this ID.")
@click.option("--transactional-id", metavar="ID", help="Follow all who used this transactional ID.")
@click.option("--producer-id", type=int, metavar="N", help="Follow all who used this producer ID.")
@click.option("--all", "show_all", is_flag=True, help="Show everything; fold nothing that repeats.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line of the log (docs/follow.md)."
)
@click.option("--mermaid", is_flag=True, help="Print a Mermaid sequence diagram instead.")
@time_options
@reading_options
@utc_option
@color_option
def follow(arguments: tuple[str, ...], **options: Any) -> None:
    """Tell what one party in CAPTURE... did, over all its connections and brokers, as a log.

    CLIENT is a client ID, the instance ID of a static member, or an address, or a pattern such as 'app-*'; it is left
    out where one of --connection, --member, --transactional-id and --producer-id says whom to follow. CAPTURE is a
    file, a folder, or - for standard input; several are one capture in the order of time.

    Connections, bootstrap and authentication, what it asked the cluster and the coordinator, its group and positions,
    what it fetched and produced, transactions, errors and what it did next, and how it ended. What goes on and on is
    put together. Connections of one process are tied by its names, such as its member ID; the log says by which.
    docs/follow.md explains the words.

    --from and --to choose what is shown; the whole capture is read all the same.
    """
    run = Follow(arguments, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class Follow:
    """One run of ``kproxy follow``."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        *,
        connection: int | None,
        member: str | None,
        transactional_id: str | None,
        producer_id: int | None,
        show_all: bool,
        as_json: bool,
        mermaid: bool,
        begin: str | None,
        end: str | None,
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        if as_json and mermaid:
            raise click.UsageError("--json and --mermaid exclude each other")
        self.question, files = _question(
            arguments,
            connection=connection,
            member=member,
            transactional_id=transactional_id,
            producer_id=producer_id,
        )
        self.show_all = show_all
        self.as_json = as_json
        self.mermaid = mermaid
        self.begin, self.end = begin, end
        self.reading = Reading(files, utc=utc, **reading)
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read the capture, find the party, and tell what it did."""
        from captures.analysis.party.finding import find_party

        capture = self.reading.capture()
        party = find_party(capture, self.question)
        if not party.ties:
            raise click.UsageError(self._nobody(capture))
        if self.mermaid:
            self._print_mermaid(capture, party)
        else:
            log = self._within(capture, self._log(capture, party))
            if self.as_json:
                self._print_json(party, log)
            else:
                self._print(party, log)
        flush()

    def _log(self, capture: Capture, party: Party) -> list[Line]:
        from captures.analysis.party.log import PartyLog, rows_of
        from captures.exchanges import ExchangeReader
        from kproxy.cli.summary import Tally

        reader = ExchangeReader(capture, annotate=False, gist=False)
        log = PartyLog(party, capture, reader.knowledge.topic_name)
        tally = Tally()
        add = capture.faults.guarded(log.add, "following it")
        for exchange in self._exchanges(reader, rows_of(capture, party).tolist(), tally):
            add(exchange)
        nothing: list[Line] = []
        lines = capture.faults.made(log.result, "telling what it did", nothing)
        self.clean = conclude(capture, tally)
        return lines

    @staticmethod
    def _exchanges(reader: ExchangeReader, indexes: list[int], tally: Tally) -> Iterator[Exchange]:
        done = iter(range(1, len(indexes) + 1))
        exchanges = tally.counting(reader.several(indexes))
        return with_progress(exchanges, lambda _: next(done), len(indexes), "following")

    def _within(self, capture: Capture, log: list[Line]) -> list[Line]:
        low, high = self.reading.bounds(capture, self.begin, self.end)
        return [
            line for line in log if (high is None or line.time <= high) and (low is None or line.until >= low)
        ]

    def _nobody(self, capture: Capture) -> str:
        """Return that there is no such party, and who there is."""
        from captures.analysis.party.finding import known_names
        from captures.analysis.party.model import Asked

        by, text = self.question
        if by is Asked.CLIENT:
            return f"no client {text!r} in the capture; {there_are(known_names(capture))}"
        if by is Asked.CONNECTION:
            return (
                f"no connection {text} in the capture; there are {len(capture.connections):,}, counted from 0"
            )
        name = by.removesuffix("_id").replace("transactional", "transaction")
        return f"no {name} with the ID {text!r} in the capture"

    # ------------------------------------------------------------ what is shown
    def _print(self, party: Party, log: list[Line]) -> None:
        from captures.analysis.party.repeats import without_repeats
        from kproxy.cli.follow_text import FollowText

        shown = log if self.show_all else without_repeats(log)
        text = FollowText(terminal_width(), self.reading.zone, self.reading.names, color=self.color)
        for line in self.reading.faults.whole(text.lines(party, shown), "showing what it did"):
            echo(line)

    def _print_json(self, party: Party, log: Iterable[Line]) -> None:

        head = {"what": "party", "captures": list(self.reading.files), **party.to_json()}
        for shape in (head, *(line.to_json() for line in log)):
            echo_json(shape, wait=True)

    def _print_mermaid(self, capture: Capture, party: Party) -> None:
        import numpy as np

        from captures.exchanges import ExchangeReader
        from captures.export.mermaid import SequenceDiagram
        from kproxy.cli.summary import Tally

        low, high = self.reading.bounds(capture, self.begin, self.end)
        table = capture.table
        order = table.order()
        mine = np.isin(table.column("connection")[order], list(party.ties))
        began = np.where(
            table.column("request_size") > 0, table.column("request_first"), table.column("response_first")
        )
        if low is not None:
            mine &= began[order] >= low
        if high is not None:
            mine &= began[order] <= high
        reader = ExchangeReader(capture, annotate=False)
        diagram, tally = SequenceDiagram(), Tally()
        diagram.add(capture, self._exchanges(reader, np.flatnonzero(mine).tolist(), tally))
        self.clean = conclude(capture, tally)
        if not tally.exchanges:
            echo("sequenceDiagram")
            echo("    participant N as no exchange of it was seen")
            return
        for line in diagram.lines():
            echo(line)


def _question(
    arguments: tuple[str, ...],
    *,
    connection: int | None,
    member: str | None,
    transactional_id: str | None,
    producer_id: int | None,
) -> tuple[Question, tuple[str, ...]]:
    """Return whom to follow, and the captures.

    :raises click.UsageError: if it is said twice, or there is no capture
    """
    from captures.analysis.party.model import Asked, Question

    given = {
        Asked.CONNECTION: connection,
        Asked.MEMBER: member,
        Asked.TRANSACTION: transactional_id,
        Asked.PRODUCER: producer_id,
    }
    chosen = [Question(by, str(value)) for by, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise click.UsageError(
            "--connection, --member, --transactional-id and --producer-id exclude each other"
        )
    if chosen:
        return chosen[0], arguments
    if len(arguments) < 2:
        raise click.UsageError("it takes a client and a capture: kproxy follow CLIENT CAPTURE...")
    return Question(Asked.CLIENT, arguments[0]), arguments[1:]
