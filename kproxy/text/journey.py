"""The output of ``kproxy journey``: the hops of single records, and the waits of all records of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo

from captures.analysis.journey.hops import Hop, branch_name, hops
from captures.analysis.journey.model import Journey
from captures.analysis.journey.totals import Range, TopicWaits
from captures.analysis.percentiles import Percentiles
from captures.meaning import words
from captures.time_format import clock, milliseconds, span, zone_name
from kproxy.output import style
from kproxy.text.blocks import BLANK, GAP, Block, Fact, Heading, Paragraph
from kproxy.text.records import form_words
from kproxy.text.tables import Column, Row, Table
from kproxy.text.values import short

_VALUE = 60
_NAME = 15
_WAIT = 10
_ODD = "yellow"
_RANGES = 10
"""Most ranges of a group that are listed, unless all are requested."""


class JourneyText:
    """Renders journeys as text.

    :param zone: time zone of the times; None is the local one
    """

    def __init__(self, zone: tzinfo | None, *, show_all: bool) -> None:
        self._zone = zone
        self._show_all = show_all

    # ------------------------------------------------------------ one record
    def journey(self, journey: Journey) -> Iterator[Block]:
        """Yield what happened to one record."""
        place = f"{words.line(journey.topic)}-{journey.partition}"
        offset = "@?" if journey.offset is None else f"@{journey.offset}"
        yield Heading([style(place + offset, bold=True), *_content(journey)])
        steps = hops(journey)
        text = _batch(journey)
        times = [hop.time for hop in steps if hop.time is not None]
        if times:
            text.append(f"times in {zone_name(times[0], self._zone)}")
        if text:
            yield Paragraph(words.listed(text), indent=(2, 2), dim=True)
        numbers = max((len(f"{hop.number}") for hop in steps if hop.number is not None), default=1)
        branch = ""
        for hop in steps:
            if hop.branch != branch:
                branch = hop.branch
                yield Heading([style(branch, bold=True)], 3, (2, 4))
            yield self._hop(hop, numbers)
        if not journey.attempts:
            yield Paragraph("The Produce request that sent it is not in the capture.", indent=(2, 2))

    def _hop(self, hop: Hop, numbers: int) -> Fact:
        time = "" if hop.time is None else clock(hop.time, self._zone)
        wait = "" if hop.wait is None else _signed(hop.wait)
        number = "" if hop.number is None else f"#{hop.number}"
        head = f"{hop.name:<{_NAME}}{GAP}{time:12}{GAP}{wait:>{_WAIT}}{GAP}{number:<{numbers + 1}}{GAP}"
        return Fact(head, hop.text, 2, 0, _ODD if hop.odd else None, number=hop.number, dim=False)

    # ------------------------------------------------------------ all records
    def waits(self, name: str, waits: TopicWaits) -> Iterator[Block]:
        """Yield the totals over all records of a topic."""
        yield self._hops_table(name, waits)
        for group in waits.groups:
            for title, ranges in (("delivered more than once", group.refetched), ("skipped", group.skipped)):
                if ranges:
                    yield BLANK
                    most = None if self._show_all else _RANGES
                    yield _ranges_table(f"{branch_name(group)}: {title}", ranges, most)

    def _hops_table(self, name: str, waits: TopicWaits) -> Table:
        columns = [
            Column("hop", least=16),
            Column("records", right=True),
            *(Column(f"{title} ms", right=True) for title in ("p50", "p95", "p99", "max")),
        ]
        rows = [_times("sent -> acknowledged", waits.waits)]
        for group in waits.groups:
            who = branch_name(group)
            done = "settled" if group.shares else "committed"
            rows += [
                Row([who, f"{group.records:,}", "", "", "", ""]),
                _times("  acknowledged -> delivered", group.delivered),
                _times(f"  delivered -> {done}", group.settled),
                _times("  sent -> delivered", group.total),
            ]
        about = f"{words.counted(waits.sent, 'record')} sent, {waits.acknowledged:,} acknowledged"
        for count, what in ((waits.resent, "sent more than once"), (waits.refused, "refused")):
            about += f", {count:,} {what}" if count else ""
        return Table(name, columns, rows, f"{about}, {words.counted(waits.partitions, 'partition')}")


def _ranges_table(title: str, ranges: list[Range], most: int | None) -> Table:
    total = sum(each.records for each in ranges)
    return Table.of(
        title,
        sorted(ranges, key=lambda each: -each.records),
        [
            (Column("partition", least=12), lambda each: f"{words.line(each.topic)}-{each.partition}"),
            (Column("first", right=True), lambda each: str(each.first)),
            (Column("last", right=True), lambda each: str(each.last)),
            (Column("records", right=True), lambda each: f"{each.records:,}"),
            (Column("times", right=True), lambda each: str(each.times) if each.times else ""),
            (Column("exchanges"), lambda each: f"#{each.first_number} #{each.again_number}"),
        ],
        about=words.counted(total, "record"),
        most=most,
    )


def _times(title: str, found: Percentiles | None) -> Row:
    if found is None:
        return Row([title, "none", "", "", "", ""])
    times = (found.p50, found.p95, found.p99, found.max)
    return Row([title, f"{found.count:,}", *map(milliseconds, times)])


def _signed(time: int) -> str:
    return f"-{span(-time)}" if time < 0 else f"+{span(time)}"


def _content(journey: Journey) -> list[str]:
    record = journey.record
    if record is None:
        return ["(its content is not in the capture)"]
    parts = [f"key {short(record.key, _VALUE)}", f"value {short(record.value, _VALUE)}"]
    if record.timestamp >= 0:
        parts.append(f"timestamp {words.moment(record.timestamp)} UTC")
    if record.headers:
        parts.append(words.counted(len(record.headers), "header"))
    return parts


def _batch(journey: Journey) -> list[str]:
    batch = journey.batch
    if batch is None:
        return []
    # an uncompressed message of magic 0 or 1 is its own batch, though sent with others
    of = f" of {batch.records}" if batch.records is not None and batch.index < batch.records else ""
    parts = [f"record {batch.index + 1}{of} in its batch", *form_words(batch)]
    if batch.producer_id >= 0:
        parts.append(
            f"producer {batch.producer_id} epoch {batch.producer_epoch} sequence {batch.base_sequence}"
        )
    if journey.transaction is not None:
        decided = {True: "committed", False: "aborted", None: "not decided in this capture"}
        name = journey.transaction.transactional_id or journey.transaction.producer_id
        parts.append(f"transaction {words.line(str(name))}: {decided[journey.transaction.committed]}")
    return parts
