"""The output of ``kproxy follow``: the party and its connections, then its log, line by line under its phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from captures.analysis.client_trace.model import Association, AssociationReason, Line, TracedClient
from captures.analysis.groups.vocabulary import Certainty
from captures.meaning import words
from captures.names import Names
from captures.time_format import Clock, span, zone_name
from kproxy.output import style
from kproxy.text.blocks import BLANK, Block, Fact, Heading, Paragraph
from kproxy.text.cells import fit, width

_TROUBLE = "red"
_UNSURE = "yellow"
_QUIET = "bright_black"
_GAP = "  "
_DELTA, _NUMBERS, _NAME, _BROKER = 10, 13, 24, 24
_KINDS = 12
"""Most kinds of ties that the header names; the connections of others are counted."""

_BY = {
    AssociationReason.CLIENT_ID: "client ID",
    AssociationReason.ADDRESS: "address",
    AssociationReason.CONNECTION: "connection",
    AssociationReason.INSTANCE: "instance ID",
    AssociationReason.MEMBER: "member ID",
    AssociationReason.TRANSACTION: "transactional ID",
    AssociationReason.PRODUCER: "producer ID",
    AssociationReason.SAME_CLIENT: "client ID and address:",
}
_DOUBT = {
    Certainty.OBSERVED: "",
    Certainty.INFERRED: " (inferred)",
    Certainty.POSSIBLE: " (possibly: another process there has the same client ID)",
}


class _Columns(NamedTuple):
    """Optional columns.

    :ivar clients: whether there are several clients
    :ivar brokers: whether there are several brokers
    """

    clients: bool
    brokers: bool


class FollowText:
    """Renders the log of a party as text.

    :param zone: time zone of the times; None is the local one
    :param names: names of addresses
    """

    def __init__(self, zone: tzinfo | None, names: Names) -> None:
        self._zone = zone
        self._names = names

    def blocks(self, party: TracedClient, log: Sequence[Line]) -> Iterator[Block]:
        """Yield the header of the party, and its log."""
        yield from self._header(party)
        if not log:
            yield Paragraph("Nothing of it in this time.")
            return
        clock = Clock.of(log[0].time, log[-1].time, self._zone)
        columns = _Columns(
            clients=len({line.client for line in log if line.client}) > 1,
            brokers=len({broker for line in log for broker in line.brokers}) > 1,
        )
        phase, before = None, None
        for line in log:
            if line.phase is not phase:
                times = f"(times in {zone_name(line.time, self._zone)})" if phase is None else ""
                phase = line.phase
                yield BLANK
                yield Heading([style(str(phase), bold=True), style(times, fg=_QUIET) if times else ""], 3)
            yield from self._line(line, clock, before, columns)
            before = line.time

    # ------------------------------------------------------------ header
    def _header(self, party: TracedClient) -> Iterator[Block]:
        who = words.some([words.line(each) for each in party.client_ids] or ["a client without a client ID"])
        hosts = words.some(self._names.shown_host(host) for host in party.hosts)
        title = f"{who} at {hosts}, {words.counted(len(party.ties), 'connection')}"
        yield Paragraph(title, level=2, bold=True)
        kinds = _alike(party.ties.values())
        for ties in kinds[:_KINDS]:
            ids = words.ranges(tie.connection for tie in ties)
            first = ties[0]
            shown = "" if first.number is None else f", as in #{first.number}"
            noun = "connection" if len(ties) == 1 else "connections"
            value = "" if first.bond is AssociationReason.CONNECTION else f" {words.line(first.value)}"
            by = "as asked for" if first.bond is AssociationReason.CONNECTION else f"by {_BY[first.bond]}"
            yield _about(f"{noun} {ids} {by}{value}{shown}{_DOUBT[first.certainty]}", first.number)
        if kinds[_KINDS:]:
            yield _about(words.counted(sum(map(len, kinds[_KINDS:])), "more connection"))
        if party.unclaimed:
            count = words.counted(party.unclaimed, "more connection")
            yield _about(f"{count} from there carried nothing; whose they are is not known")
        for noun, values in (
            ("group", party.groups),
            ("member ID", party.members),
            ("instance ID", party.instances),
            ("transactional ID", party.transactional_ids),
            ("producer ID", [str(each) for each in party.producer_ids]),
        ):
            if values:
                plural = noun if len(values) == 1 else f"{noun}s"
                yield _about(f"{plural} {words.some(words.line(each) for each in values)}")
        if len(party.client_ids) > 1 or len(party.hosts) > 1:
            parties = [
                words.counted(len(party.client_ids), "client ID") if len(party.client_ids) > 1 else "",
                words.counted(len(party.hosts), "address", "addresses") if len(party.hosts) > 1 else "",
            ]
            text = f"{words.listed(parties)}: they are shown together; name one to follow it alone"
            yield _about(text, color=_UNSURE)

    # ------------------------------------------------------------ log
    def _line(self, line: Line, clock: Clock, before: int | None, columns: _Columns) -> Iterator[Fact]:
        delta = "" if before is None else f"+{span(max(line.time - before, 0))}"
        cells = [clock(line.time), f"{delta:>{_DELTA}}", f"{_numbers(line):<{_NUMBERS}}"]
        if columns.clients:
            cells.append(fit(line.client, _NAME))
        if columns.brokers:
            # lines about a connection name its broker
            named = "" if line.what.startswith("connection") else words.some(line.brokers, 1)
            cells.append(fit(named, _BROKER))
        start = _GAP.join(cells) + _GAP
        text = line.text
        if line.certainty is not Certainty.OBSERVED:
            text = f"{text} ({line.certainty})"
        color = _TROUBLE if line.trouble else _QUIET if line.what == "repeats" else None
        number = line.numbers[0] if line.numbers else None
        for each in (text, *(f"→ {then}" for then in line.then)):
            yield Fact(start, each, len(_GAP), width(start), color, number=number, dim=False)
            start = " " * width(start)


def _about(text: str, number: int | None = None, *, color: str | None = None) -> Paragraph:
    """Return a line of the header."""
    return Paragraph(text, indent=(len(_GAP), 2 * len(_GAP)), color=color, number=number)


def _numbers(line: Line) -> str:
    if not line.numbers:
        return ""
    first, last = line.numbers[0], line.last
    return f"#{first}" if last is None or last <= first else f"#{first}…#{last}"


def _alike(ties: Iterable[Association]) -> list[list[Association]]:
    """Return ties grouped by kind and name."""
    found: dict[tuple[object, ...], list[Association]] = {}
    for tie in ties:
        found.setdefault((tie.bond, tie.value, tie.certainty), []).append(tie)
    return list(found.values())
