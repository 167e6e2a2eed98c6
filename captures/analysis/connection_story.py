"""The events of a connection, ordered by time: opened, introductions, errors, silence, closed.

Exchanges are added one by one; TCP's part is read from the capture when the story is requested. Only the first of
frequent events are kept, and the rest is counted.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from captures.analysis.connection_stats import ConnectionRow
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import RowGroups, api_names, greatest_before
from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader, Flag
from captures.exchanges.samples import Sample
from captures.meaning import errors_text, words
from captures.time_format import span
from dissectors.api_keys import CONNECTING, ApiKey

IDLE = 10_000_000_000
"""ns; three times the usual heartbeat interval of members (``heartbeat.interval.ms``)."""
MOST = 20
"""Most moments of a kind in a story; the rest is counted."""


class Moment(NamedTuple):
    """One event.

    :ivar time: ns since the epoch
    :ivar trouble: whether it is bad news
    :ivar number: number of the exchange; None for an event of TCP
    """

    time: int
    text: str
    trouble: bool = False
    number: int | None = None


class _Idle(NamedTuple):
    length: int
    begin: int
    number: int


@dataclass(slots=True)
class _Story:
    """What is kept about one connection."""

    moments: list[Moment] = field(default_factory=list)
    apis: Counter[str] = field(default_factory=Counter)
    idle: list[_Idle] = field(default_factory=list)
    errors: int = 0
    unanswered: int = 0
    worked: bool = False
    authenticated: bool = False
    busy_until: int = 0

    def keep(self, idle: _Idle) -> None:
        """Keep a silence if it is one of the longest."""
        (heapq.heappush if len(self.idle) < MOST else heapq.heappushpop)(self.idle, idle)


class ConnectionStories:
    """Collects the stories of the connections of one capture.

    :param capture: capture of the added exchanges
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._stories: defaultdict[int, _Story] = defaultdict(_Story)

    def add(self, exchange: Exchange) -> None:
        """Process one exchange."""
        story = self._stories[exchange.connection]
        silence = exchange.time - story.busy_until
        if story.busy_until and silence >= IDLE:
            story.keep(_Idle(silence, story.busy_until, exchange.number))
        story.busy_until = max(story.busy_until, exchange.end)
        story.apis[exchange.api] += 1
        self._begin(story, exchange)
        self._trouble(story, exchange)

    def add_columns(
        self, rows: DecisionColumns, reader: ExchangeReader, indexes: Int64s
    ) -> Iterator[Exchange]:
        """Process exchanges of a completely read capture; yield those of which single moments are told.

        :param rows: columns with errors, in the order of the numbers
        :param indexes: index in the reader for each row of the columns
        """
        connection, columns = rows.connection, rows.columns
        codes, names = api_names(columns)
        mix = RowGroups(connection, codes)
        for at, count in zip(mix.first.tolist(), mix.sums(~rows.nothing), strict=True):
            self._stories[int(connection[at])].apis[names[codes[at]]] += count
        last = rows.last(~rows.nothing, by=rows.ends)
        for of, end in zip(connection[last].tolist(), rows.ends[last].tolist(), strict=True):
            self._stories[of].busy_until = end
        numbers, times = indexes + reader.first, columns.flat("time")
        busy_until = greatest_before(connection, rows.ends)
        silent = np.flatnonzero((busy_until > 0) & (times - busy_until >= IDLE))
        each = (values[silent].tolist() for values in (connection, times, busy_until, numbers))
        for of, time, begin, number in zip(*each, strict=True):
            self._stories[of].keep(_Idle(time - begin, begin, number))
        troubles = rows.failed, rows.flagged(Flag.UNANSWERED) & ~rows.failed
        kept = [rows.first_of_each(connection, among, MOST) for among in troubles]
        starting = rows.of_api(CONNECTING) | rows.flagged(Flag.SASL_TOKEN)
        starting |= rows.first(~starting & (rows.api_key >= 0))
        for exchange in reader.several(indexes[starting | kept[0] | kept[1]].tolist()):
            story = self._stories[exchange.connection]
            self._begin(story, exchange)
            self._trouble(story, exchange)
            yield exchange
        for among, name in zip(troubles, ("errors", "unanswered"), strict=True):
            for of, count in zip(*np.unique(connection[among], return_counts=True), strict=True):
                setattr(self._stories[int(of)], name, int(count))

    def of(self, row: ConnectionRow) -> list[Moment]:
        """Return the story of a connection, ordered by time.

        :param row: its figures from :class:`~captures.analysis.connection_stats.ConnectionStats`
        """
        story = self._stories.get(row.connection) or _Story()
        moments = [*self._tcp(row), *story.moments]
        moments += [
            Moment(idle.begin, f"silence for {span(idle.length)}", number=idle.number) for idle in story.idle
        ]
        moments += _sampled(self._capture.samples.of(row.connection))
        moments.sort(key=lambda moment: moment.time)
        kept = sum(moment.trouble and moment.number is not None for moment in story.moments)
        more = story.errors + story.unanswered - kept
        if more > 0:
            last = max(story.busy_until, moments[-1].time if moments else 0)
            text = f"{words.counted(more, 'more exchange')} with an error or without an answer"
            moments.append(Moment(last, text, trouble=True))
        return moments

    def mix(self, connection: int) -> dict[str, int]:
        """Return the exchanges of a connection by API, the most frequent first."""
        story = self._stories.get(connection)
        return dict(story.apis.most_common()) if story else {}

    # ------------------------------------------------------------ exchanges
    @staticmethod
    def _begin(story: _Story, exchange: Exchange) -> None:
        """Add the moments of the start of the conversation."""
        if exchange.api_key in CONNECTING or Flag.SASL_TOKEN in exchange.flag:
            introduced = _introduced(story, exchange)
            if introduced and not any(moment.text == introduced for moment in story.moments):
                story.moments.append(Moment(exchange.time, introduced, number=exchange.number))
        elif not story.worked and exchange.api_key is not None:
            story.worked = True
            text = f"first request: {exchange.title}"
            story.moments.append(Moment(exchange.time, text, number=exchange.number))

    @staticmethod
    def _trouble(story: _Story, exchange: Exchange) -> None:
        if exchange.failed:
            story.errors += 1
            if story.errors <= MOST:
                text = f"{exchange.api}: {errors_text(exchange.unexpected_errors, lambda _: None)}"
                time = exchange.end
                story.moments.append(Moment(time, text, trouble=True, number=exchange.number))
        elif Flag.UNANSWERED in exchange.flag:
            story.unanswered += 1
            if story.unanswered <= MOST:
                text = f"{exchange.api}: no answer came"
                story.moments.append(Moment(exchange.time, text, trouble=True, number=exchange.number))

    # ------------------------------------------------------------ TCP
    def _tcp(self, row: ConnectionRow) -> Iterator[Moment]:
        if not row.whole:
            yield Moment(row.first, "the capture begins, the connection was open")
        elif row.handshake is None:
            yield Moment(row.first, "opened by the client")
        else:
            yield Moment(row.first, f"opened by the client, accepted after {span(row.handshake)}")
        if row.foreign:
            yield Moment(row.first, f"not Kafka in the clear: {row.foreign}", trouble=True)
        known = self._capture.connections[row.connection]
        turned = self._capture.client_stream(row.connection) & 1
        for side, name in ((known.directions[turned], "client"), (known.directions[1 - turned], "broker")):
            if side.fin_time >= 0:
                yield Moment(side.fin_time, f"closed by the {name}")
            if side.reset_time >= 0:
                yield Moment(side.reset_time, f"reset by the {name}", trouble=True)


def _introduced(story: _Story, exchange: Exchange) -> str:
    """Return what an exchange adds to the introduction of a client; empty if nothing."""
    request = exchange.request_body
    if exchange.api_key == ApiKey.API_VERSIONS:
        name, version = request.get("client_software_name"), request.get("client_software_version")
        return f"introduces itself as {name or '?'} {version or ''}".rstrip() if name or version else ""
    if exchange.api_key == ApiKey.SASL_HANDSHAKE:
        verb = "authenticates again" if story.authenticated else "authenticates"
        story.authenticated = True
        return f"{verb} by {request.get('mechanism') or 'SASL'}"
    return ""


def _sampled(samples: Sequence[Sample]) -> list[Moment]:
    """Return the moments at which the kernel retransmitted, or the other end's window closed."""
    out: list[Moment] = []
    before: dict[str, int] = {}
    closed: dict[str, bool] = {}
    for sample in samples:
        values = sample.values
        side = values.side
        retransmits = values.retransmits - before.get(side, 0)
        if retransmits > 0:
            text = f"{words.counted(retransmits, 'segment')} sent again to the {side}"
            out.append(Moment(sample.time, text, trouble=True))
        before[side] = values.retransmits
        full = values.snd_wnd == 0
        if full and not closed.get(side):
            out.append(Moment(sample.time, f"the {side} takes no more data (window closed)", trouble=True))
        closed[side] = full
    return out[:MOST]
