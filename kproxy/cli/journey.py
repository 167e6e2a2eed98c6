"""``kproxy journey``: the path of a record through the cluster, and how long all records of a topic wait at each
hop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureRun, conclude_unread
from kproxy.cli.command import Number, argument, option, options
from kproxy.cli.common import with_progress
from kproxy.cli.options import GroupOption, ReadingOptions, ReportOptions, UtcOption
from kproxy.cli.selection import chosen
from kproxy.output import echo

if TYPE_CHECKING:
    from captures.analysis.journey import JourneyResult, RecordQuery
    from kproxy.text.blocks import Block

_JOURNEYS = 20


@options
class JourneyOptions(UtcOption, ReportOptions, ReadingOptions, GroupOption):
    """Options of ``kproxy journey``."""

    files: tuple[str, ...] = argument("[RECORD] CAPTURE...", type=click.Path(allow_dash=True))
    key: str | None = option("-k", "--key", help="Follow the records with this key.")
    contains: str | None = option(
        "--contains", former=("-c",), help="Follow the records with this text in key, value or a header."
    )
    topic: str | None = option(
        "-t",
        "--topic",
        metavar="TOPIC",
        help="Follow only records of this topic; alone, show how long all of them wait.",
    )
    partition: Number | None = option(
        "--partition", former=("-p",), help="Follow only records of this partition."
    )
    show_all: bool = option("--all", help="Show every matching record, and every range.")
    as_json: bool = option("--json", help="Print one JSON object (docs/journey.md).")


class JourneyRun(
    CaptureRun[JourneyOptions], short_help="Trace a record from its producer to the commits of its groups."
):
    """Trace a RECORD, such as orders-3@120, through CAPTURE...

    RECORD is TOPIC-PARTITION@OFFSET. Instead, --key or --contains select records by content, and --topic alone selects
    all records of a topic. CAPTURE is a file, a folder, or - for standard input; several are one capture in the order
    of time. The folder of a partition on a broker's disk may be among them: kproxy looks for the records in its log.

    For a record: when it was sent and resent, and by which client; when it was acknowledged, at which offset; its
    transaction; which Fetch response delivered it to each group first, and to which member; the first commit above it.
    For all records of a topic: how long they wait at each hop, and which were delivered more than once or skipped.
    docs/journey.md explains what is seen and what is inferred.
    """

    def __init__(self, options: JourneyOptions) -> None:
        from captures.log_segments.folders import is_log

        self.sought, files = _query(options)
        self._logs = tuple(path for path in files if is_log(path))
        if self._logs and not self.sought.single:
            raise click.UsageError(
                f"{self._logs[0]} is a log, in which single records are looked up: name one, or use --key or --contains"
            )
        if self._logs and len(self._logs) == len(files):
            raise click.UsageError("name a capture, too; 'kproxy records' lists the records of a log")
        super().__init__(options, tuple(path for path in files if path not in self._logs))

    def run(self) -> None:
        from captures.analysis.journey import JourneyResult, Journeys
        from dissectors.budget import shown
        from kproxy.cli.results import JourneysResult

        capture = self.reading.capture()
        reader = self.reading.reader(capture)
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
        most = None if self.options.show_all else _JOURNEYS
        nothing = JourneyResult(self.sought, [], 0, None, {})
        result = capture.faults.contained(
            lambda: journeys.result(most), "telling the way of records", nothing
        )
        if self.options.groups:
            result = result.of_groups(chosen(result.groups, self.options.groups))
        if self._logs:
            result = self._with_logs(result)
        times = capture.table.column("request_first")
        times = times[times >= 0]
        first, last = (int(times.min()), int(times.max())) if len(times) else (None, None)
        self.answer(JourneysResult(self.reading.files, first, last, result), blocks=self._blocks(result))

    def _with_logs(self, result: JourneyResult) -> JourneyResult:
        """Look for the records in the logs.

        :raises CaptureError: if a log cannot be read
        """
        from captures.analysis.journey.stored_records import unseen, with_logs
        from captures.log_segments import LogSurvey, partition_logs
        from captures.meaning import words
        from captures.meaning.topic_partitions import TopicPartition
        from captures.packets import CaptureError
        from kproxy.text.log_notes import log_notes

        journeys = result.journeys or unseen(self.sought)
        wanted = {TopicPartition(each.topic, each.partition) for each in journeys}
        try:
            surveys = [LogSurvey(log) for log in partition_logs(self._logs) if log.tp in wanted]
            for topic, partition in sorted(wanted - {survey.log.tp for survey in surveys}):
                echo(f"kproxy: no log of {words.line(topic)}-{partition} was named", err=True)
            for note in (note for survey in surveys for note in log_notes(survey)):
                echo(f"kproxy: {note}", err=True)
            self.clean &= not any(damage.lossy for survey in surveys for damage in survey.damage)
            journeys = with_logs(journeys, surveys)
        except OSError as error:
            raise CaptureError(str(error.filename), 0, error.strerror or str(error)) from error
        return replace(result, journeys=[each for each in journeys if each.logs or result.journeys])

    def _blocks(self, result: JourneyResult) -> Iterator[Block]:
        from captures.meaning import words
        from kproxy.text.blocks import BLANK, Paragraph
        from kproxy.text.journey import JourneyText

        text = JourneyText(self.reading.zone, show_all=self.options.show_all)
        if result.waits is not None and result.offsets:
            yield from text.waits(words.line(self.sought.topic or "all topics"), result.waits)
        elif not result.journeys:
            hint = " 'kproxy records' lists the records of a log." if self._logs else ""
            yield Paragraph(_nothing(result) + hint)
        for index, each in enumerate(result.journeys):
            if index:
                yield BLANK
            yield from text.journey(each)
        if result.more:
            yield BLANK
            yield Paragraph(f"… {words.counted(result.more, 'record')} more fit, --all shows them")


def _query(options: JourneyOptions) -> tuple[RecordQuery, tuple[str, ...]]:
    """Return the query for records, and the captures.

    :raises click.UsageError: if the query is missing or contradictory
    """
    from captures.analysis.journey import RecordQuery, place_of

    key, contains, topic, arguments = options.key, options.contains, options.topic, options.files
    if key is not None or contains is not None or topic is not None:
        return RecordQuery(topic, options.partition, None, _bytes(key), _bytes(contains)), arguments
    found = place_of(arguments[0])
    if found is None:
        raise click.UsageError(
            f"{arguments[0]!r} is not a record: write TOPIC-PARTITION@OFFSET, such as orders-3@120, "
            "or use --key, --contains or --topic"
        )
    if options.partition is not None:
        raise click.UsageError(
            "the record tells its partition: --partition goes with --key, --contains and --topic"
        )
    if len(arguments) == 1:
        raise click.UsageError("Missing argument 'CAPTURE...'.")
    return found, arguments[1:]


def _bytes(text: str | None) -> bytes | None:
    # restores bytes of the command line that are not UTF-8
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _nothing(result: JourneyResult) -> str:
    """Return a message that no record was found, and which records exist."""
    sought, offsets = result.query, result.offsets
    if sought.offset is None or not offsets:
        where = sought.topic or "any topic"
        return f"No such record of {where} is in the capture." if sought.single else f"No records of {where}."
    (((topic, partition), (first, last)),) = offsets.items()
    there = f"the capture has records from {first} to {last} of that partition"
    return f"{topic}-{partition}@{sought.offset} is not in the capture: {there}."
