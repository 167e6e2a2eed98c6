"""``kproxy journey``: the way of a record through the cluster, and how long all records of a topic wait at each hop."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends, with_progress
from kproxy.cli.group_option import chosen_groups, group_option
from kproxy.cli.options import color_option, reading_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude_unread, terminal_width

if TYPE_CHECKING:
    from captures.analysis.journey import JourneyResult, Sought
    from captures.exchanges import Capture

_JOURNEYS = 20


@click.command(short_help="Follow a record from its producer to the commits of its groups.")
@click.argument(
    "arguments", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="[RECORD] CAPTURE..."
)
@click.option("-k", "--key", metavar="TEXT", help="Follow the records with this key.")
@click.option(
    "-c", "--contains", metavar="TEXT", help="Follow the records that have this in key, value or a header."
)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    help="Only records of this topic; alone, tell how long all of them wait.",
)
@click.option(
    "-p", "--partition", type=click.IntRange(min=0), metavar="N", help="Only records of this partition."
)
@group_option
@click.option("--all", "show_all", is_flag=True, help="Show every record that fits, and every range.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/journey.md).")
@reading_options
@utc_option
@color_option
def journey(arguments: tuple[str, ...], **options: Any) -> None:
    """Tell the way of a RECORD, such as orders-3@120, as CAPTURE... shows it.

    RECORD is TOPIC-PARTITION@OFFSET. In its place, --key or --contains choose records by what is in them, and --topic
    alone all records of a topic. CAPTURE is a file, a folder, or - for standard input; several are one capture in the
    order of time.

    Of a record: when it was sent, and sent again, by whom; when it was acknowledged, at which offset; the transaction
    it is part of; which Fetch response brought it to each group first, and to which member; the first commit above it.
    Of all records of a topic: how long they wait at each hop, and which were delivered more than once or skipped.
    docs/journey.md tells what is seen and what is inferred.
    """
    run = JourneyCommand(arguments, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class JourneyCommand:
    """One run of ``kproxy journey``."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        *,
        key: str | None,
        contains: str | None,
        topic: str | None,
        partition: int | None,
        wanted: tuple[str, ...],
        show_all: bool,
        as_json: bool,
        utc: bool,
        color: str,
        **reading: Any,
    ) -> None:
        self.sought, files = _sought(arguments, key, contains, topic, partition)
        self.wanted = wanted
        self.show_all = show_all
        self.as_json = as_json
        self.reading = Reading(files, utc=utc, **reading)
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read the capture, and tell what was sought."""
        from captures.analysis.journey import JourneyResult, Journeys
        from captures.exchanges import ExchangeReader
        from dissectors.budget import shown

        capture = self.reading.capture()
        reader = ExchangeReader(capture, annotate=False, gist=False)
        reader.learn(len(reader))
        journeys = Journeys(self.sought, reader.knowledge.topic_name, capture.table)
        for _ in with_progress(journeys.read(reader), lambda done: done, len(reader), "following records"):
            pass
        self.clean = conclude_unread(capture) and not journeys.beyond
        for name, count in sorted(journeys.beyond.items()):
            echo(
                f"kproxy: records beyond the limit {shown(name)} were not looked at, in {count:,} batches",
                err=True,
            )
        most = None if self.show_all else _JOURNEYS
        nothing = JourneyResult(self.sought, [], 0, None, {})
        result = capture.faults.made(lambda: journeys.result(most), "telling the way of records", nothing)
        if self.wanted:
            result = result.of_groups(chosen_groups(result.groups, self.wanted))
        if self.as_json:
            self._print_json(result, capture)
        else:
            self._print(result)
        flush()

    # ------------------------------------------------------------ telling
    def _print_json(self, result: JourneyResult, capture: Capture) -> None:

        from captures.exchanges import rfc3339

        times = capture.table.column("request_first")
        times = times[times >= 0]
        shape = {
            "captures": list(self.reading.files),
            "first": rfc3339(int(times.min())) if len(times) else None,
            "last": rfc3339(int(times.max())) if len(times) else None,
        }
        echo_json(shape | result.to_json(), wait=True)

    def _print(self, result: JourneyResult) -> None:
        from captures.meaning import words
        from kproxy.cli.journey_text import JourneyText

        text = JourneyText(self.reading.zone, terminal_width(), color=self.color, show_all=self.show_all)
        if result.waits is not None and result.offsets:
            for line in text.waits(words.line(self.sought.topic or "all topics"), result.waits):
                echo(line)
        elif not result.journeys:
            echo(_nothing(result))
        for index, each in enumerate(result.journeys):
            if index:
                echo()
            for line in text.journey(each):
                echo(line)
        if result.more:
            echo()
            echo(f"… {words.counted(result.more, 'record')} more fit, --all shows them")


def _sought(
    arguments: tuple[str, ...],
    key: str | None,
    contains: str | None,
    topic: str | None,
    partition: int | None,
) -> tuple[Sought, tuple[str, ...]]:
    """Return what is sought, and the captures.

    :raises click.UsageError: if nothing is, or too much
    """
    from captures.analysis.journey import Sought, place_of

    if key is not None or contains is not None or topic is not None:
        return Sought(topic, partition, None, _bytes(key), _bytes(contains)), arguments
    found = place_of(arguments[0])
    if found is None:
        raise click.UsageError(
            f"{arguments[0]!r} is no record: write TOPIC-PARTITION@OFFSET, such as orders-3@120, "
            "or use --key, --contains or --topic"
        )
    if partition is not None:
        raise click.UsageError(
            "the record tells its partition: --partition goes with --key, --contains and --topic"
        )
    if len(arguments) == 1:
        raise click.UsageError("Missing argument 'CAPTURE...'.")
    return found, arguments[1:]


def _bytes(text: str | None) -> bytes | None:
    # bytes of the command line that are no UTF-8 come back as they were
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _nothing(result: JourneyResult) -> str:
    """Say that nothing was found, and what there is."""
    sought, offsets = result.sought, result.offsets
    if sought.offset is None or not offsets:
        where = sought.topic or "any topic"
        return f"No such record of {where} is in the capture." if sought.single else f"No records of {where}."
    (((topic, partition), (first, last)),) = offsets.items()
    there = f"the capture has records from {first} to {last} of that partition"
    return f"{topic}-{partition}@{sought.offset} is not in the capture: {there}."
