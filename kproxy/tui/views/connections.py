"""TCP connections: endpoints, traffic, troubles and ending; and the story of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from captures.analysis.connection_stats import OPEN, ConnectionRow, ConnectionStats
from captures.analysis.connection_story import ConnectionStories, Moment
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import COUNTED, exchange_groups
from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.samples import Sample
from captures.meaning import words
from captures.time_format import clock, milliseconds, span
from dissectors.sides import ENDS
from kproxy.session.access import Access
from kproxy.text.stats import ended, introduced, sides, troubles
from kproxy.text.tables import Column
from kproxy.tui.views.table_view import Detail, TableView, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, moment, numbered, sized


class _CachedRow(NamedTuple):
    """A row, and the state it was made from.

    :ivar state: compared to decide whether to rebuild the row; None to rebuild it always
    :ivar rank: sort key
    """

    state: tuple[int, int, bool] | None
    rank: tuple[bool, int, int]
    row: Row


class ConnectionsFold:
    """The figures of connections, and their stories."""

    TAKEN = COUNTED

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self.stats = ConnectionStats(capture)
        self.stories = ConnectionStories(capture)
        self._counts: Counter[int] = Counter()
        self._made: dict[int, _CachedRow] = {}

    def add(self, exchange: Exchange) -> None:
        self._counts[exchange.connection] += 1
        self.stats.add(exchange)
        self.stories.add(exchange)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        reader, rows = access.plain, DecisionColumns(columns)
        for group in exchange_groups(columns, indexes + reader.first):
            self._counts[group.connection.connection] += group.exchanges
            self.stats.count(group)
        for exchange in reader.several(indexes[rows.introducing].tolist()):
            self.stats.introduce(exchange)
            yield exchange.number - reader.first
        for exchange in self.stories.add_columns(rows, reader, indexes):
            yield exchange.number - reader.first

    def rows(self, make: Callable[[ConnectionRow], Row], *, everything: bool) -> list[Row]:
        """Return the rows of connections: those in trouble first, then by number of exchanges, then by first packet.

        Of ten thousand connections few change between two calls: only their rows are rebuilt.

        :param everything: whether to include connections without exchanges
        """
        packets = self._capture.connections.streams.packets.reshape(-1, 2).sum(axis=1)
        found = [
            self._row(connection, count, make)
            for connection, count in enumerate(packets.tolist())
            if everything or connection in self._counts
        ]
        found.sort(key=lambda made: made.rank)
        return [made.row for made in found]

    def _row(self, connection: int, packets: int, make: Callable[[ConnectionRow], Row]) -> _CachedRow:
        state = packets, self._counts[connection], connection in self._capture.foreign
        made = self._made.get(connection)
        if made is None or made.state != state:
            row = self.stats.row(connection)
            waits = row.ended == OPEN and row.unanswered_for is not None  # its wait grows
            rank = not row.troubled, -row.exchanges, connection
            made = self._made[connection] = _CachedRow(None if waits else state, rank, make(row))
        return made


class Connections(TableView[ConnectionsFold]):
    """One row per TCP connection; the story of the selected one."""

    view_name = "connections"
    THINGS = "connections"
    COLUMNS = (
        Column("#", right=True),
        Column("client", least=15),
        Column("broker", least=15),
        Column("client ID", least=8, rank=6),
        Column("software", least=10, rank=9),
        Column("SASL", least=8, rank=8),
        Column("count", right=True),
        Column("errors", right=True, rank=1),
        Column("sent", right=True, rank=10),
        Column("received", right=True, rank=10),
        Column("resent", right=True, rank=4),
        Column("0 window", right=True, rank=5),
        Column("RTT ms", right=True, rank=7),
        Column("began", rank=11),
        Column("lasted", right=True, rank=9),
        Column("ended", least=10, wraps=True),
        Column("trouble", least=12, rank=3, wraps=True),
    )
    DETAILS = (
        (
            Column("time", rank=1),
            Column("after", right=True),
            Column("what happened", least=20, wraps=True),
            Column("exchange", right=True),
        ),
    )

    def make(self, access: Access) -> ConnectionsFold:
        return ConnectionsFold(access.capture)

    def rows(self, fold: ConnectionsFold, access: Access) -> Sequence[Row]:
        return fold.rows(lambda row: self._row(row, access), everything=self.unfiltered)

    def _row(self, row: ConnectionRow, access: Access) -> Row:
        names, intro = access.capture.names, row.introduction
        trouble = words.listed(troubles(row))
        cells: tuple[AnyCell, ...] = (
            Cell(f"{row.connection}", value=row.connection),
            names.shown(row.client),
            names.shown(row.broker),
            words.some(row.client_ids),
            intro.software or "",
            _authentication(row),
            counted(row.exchanges),
            counted(row.errors, Role.ERROR),
            sized(row.request_bytes),
            sized(row.response_bytes),
            sized(sum(row.retransmitted), Role.WARNING),
            counted(sum(row.zero_windows), Role.WARNING),
            "" if row.round_trip is None else Cell(milliseconds(row.round_trip), value=row.round_trip),
            moment(row.first, self.session.zone),
            Cell(span(row.last - row.first), value=row.last - row.first),
            Cell(ended(row), Role.ERROR if row.ended.startswith("reset") else Role.PLAIN),
            Cell(trouble, Role.WARNING),
        )
        return Row(row.connection, cells, leads_to=f"connection == {row.connection}")

    def detail(self, fold: ConnectionsFold, access: Access, key: Hashable) -> Detail | None:
        if not isinstance(key, int) or key >= len(access.capture.connections):
            return None
        row = fold.stats.row(key)
        capture, zone = access.capture, self.session.zone
        client, broker = capture.shown_endpoints(key)
        mix = fold.stories.mix(key)
        text = facts(
            ("client", *row.client_ids, *introduced(row.introduction)),
            ("requests", *(f"{count:,} {_versioned(api, row)}" for api, count in mix.items())),
            ("trouble", *(Cell(each, Role.WARNING) for each in troubles(row))),
            ("bytes resent", sides(row.retransmitted)),
            ("out of order", sides(row.reordered)),
            ("kernel", *_sampled(capture.samples.of(key))),
        )
        story = [
            _moment(moment, index, row.first, clock(moment.time, zone))
            for index, moment in enumerate(fold.stories.of(row))
        ]
        return Detail(f"connection {key}: {client} → {broker}", text, (story,))


def _authentication(row: ConnectionRow) -> AnyCell:
    intro = row.introduction
    if intro.authenticated is False:
        return Cell(f"refused: {intro.refusal}", Role.ERROR)
    if not intro.mechanism:
        return ""
    return f"{intro.mechanism} {intro.principal or ''}".rstrip()


def _versioned(api: str, row: ConnectionRow) -> str:
    used = row.versions.get(api)
    return f"{api} v{'/'.join(map(str, used))}" if used else api


def _moment(moment: Moment, index: int, begin: int, time: str) -> Row:
    role = Role.ERROR if moment.trouble else Role.PLAIN
    cells = (
        time,
        Cell(f"+{span(max(moment.time - begin, 0))}", Role.MUTED, moment.time),
        Cell(f"{'! ' if moment.trouble else ''}{moment.text}", role),
        numbered(moment.number),
    )
    return Row((index, moment.text), cells, leads_to=moment.number)


def _sampled(samples: Sequence[Sample]) -> list[str]:
    """Return what the kernel of the proxy's host reported about the network on each side."""
    parts = []
    for side in ENDS:
        values_of_side = [sample.values for sample in samples if sample.values.side == side]
        if values_of_side:
            trips = sorted(values.rtt_us for values in values_of_side)
            middle, most = trips[len(trips) // 2] / 1000, trips[-1] / 1000
            retransmits = values_of_side[-1].retransmits
            parts.append(
                f"{side} round trip {middle:.1f} ms, at most {most:.1f} ms"
                + (f", {words.counted(retransmits, 'segment')} sent again" if retransmits else "")
            )
    return parts
