"""Topics and partitions: producers, consumers, rates and lag."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from captures.analysis.conditions import of_client
from captures.analysis.positions import Position
from captures.analysis.topic_stats import Flow
from captures.filters.lexer import quoted
from captures.meaning import words
from dissectors.units import SECOND
from kproxy.session.access import Access
from kproxy.text.stats import records
from kproxy.text.tables import Column
from kproxy.tui.views.table_view import Detail, TableView, facts
from kproxy.tui.views.topic_figures import Figures, Key, Progress, TopicFigures, TopicsFold, lag, standings
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, sized

_LATELY = 10 * SECOND
"""Time in ns over which recent rates of live traffic are measured."""
_FLOWS = (("produces", "{Produce}"), ("fetches", "{Fetch, ShareFetch}"), ("replicates", "{Fetch}"))
"""Activities of clients with their APIs, in the order of :attr:`PartitionRow.flows`."""


class _ByteCounts(NamedTuple):
    """Bytes produced and fetched up to a time.

    :ivar time: ns since the epoch
    """

    time: int
    bytes: dict[Key, tuple[int, int]]


class _Rates(NamedTuple):
    """Bytes per second as text, produced and fetched: over the whole time, and lately."""

    produced: str
    fetched: str
    produced_lately: str
    fetched_lately: str


class Topics(TableView[TopicsFold]):
    """One row per topic, with its partitions; activities of clients and groups for the selected one."""

    view_name = "topics"
    THINGS = "topics"
    COLUMNS = (
        Column("topic", least=20),
        Column("count", right=True, rank=6),
        Column("produced", right=True),
        Column("per s", right=True, rank=4),
        Column("now/s", right=True, rank=5),
        Column("records", right=True, rank=1),
        Column("fetched", right=True),
        Column("per s", right=True, rank=4),
        Column("now/s", right=True, rank=5),
        Column("records", right=True, rank=2),
        Column("replicated", right=True, rank=7),
        Column("end", right=True, rank=8),
        Column("lag", right=True),
        Column("leader", right=True, rank=9),
        Column("producers", least=8, rank=10),
        Column("fetchers", least=8, rank=11),
        Column("errors", least=28),
    )
    DETAILS = (
        (
            Column("who", least=12),
            Column("does"),
            Column("partitions", least=6, rank=1),
            Column("bytes", right=True),
            Column("offset", right=True, rank=2),
            Column("lag", right=True),
        ),
    )

    def make(self, access: Access) -> TopicsFold:
        self._seen: deque[_ByteCounts] = deque()
        self._made: dict[Key, tuple[int, _Rates, Row]] = {}
        return TopicsFold(access.plain.knowledge.topic_name)

    def rows(self, fold: TopicsFold, access: Access) -> Sequence[Row]:
        found = fold.result()
        lately = self._lately(found, access.capture.latest)
        return [self._row(topic, fold.seconds, lately) for topic in found.values()]

    def _lately(self, topics: Mapping[str, TopicFigures], now: int) -> dict[Key, tuple[int, int]]:
        """Return bytes per second produced and fetched lately; empty unless traffic is live."""
        if not self.session.live or self._folding.progress < 1:
            self._seen.clear()
            return {}
        sums = {
            figures.key: (figures.traffic.produced.bytes, figures.traffic.fetched.bytes)
            for topic in topics.values()
            for figures in (topic.total, *topic.partitions.values())
        }
        while len(self._seen) > 1 and self._seen[1].time <= now - _LATELY:
            self._seen.popleft()
        if not self._seen or self._seen[-1].time < now:
            self._seen.append(_ByteCounts(now, sums))
        before, seconds = self._seen[0], (now - self._seen[0].time) / SECOND
        if seconds <= 0:
            return {}
        rates = {}
        for key, (produced, fetched) in sums.items():
            then = before.bytes.get(key, (0, 0))
            rates[key] = round((produced - then[0]) / seconds), round((fetched - then[1]) / seconds)
        return rates

    def _row(self, topic: TopicFigures, seconds: float, lately: Mapping[Key, tuple[int, int]]) -> Row:
        children = tuple(
            self._one(figures, Cell(f"{topic.total.topic}-{number}", value=number), seconds, lately)
            for number, figures in topic.partitions.items()
        )
        return replace(self._one(topic.total, topic.total.topic, seconds, lately), children=children)

    def _one(
        self, figures: Figures, title: AnyCell, seconds: float, lately: Mapping[Key, tuple[int, int]]
    ) -> Row:
        """Return a row without children; rebuilt only if an exchange mentions it, or a rate has changed."""
        produced, fetched, _ = figures.traffic.flows
        now = lately.get(figures.key, (0, 0))
        rates = _Rates(_rate(produced, seconds), _rate(fetched, seconds), *map(_size, now))
        mentions, before, row = self._made.get(figures.key, (-1, None, None))
        if row is None or mentions != figures.mentions or before != rates:
            row = Row(figures.key, _cells(title, figures, rates, now), leads_to=_place(figures))
            self._made[figures.key] = figures.mentions, rates, row
        return row

    def detail(self, fold: TopicsFold, access: Access, key: Hashable) -> Detail | None:
        name, partition = key if isinstance(key, tuple) else ("", None)
        topic = fold.result().get(name)
        figures = None if topic is None else topic.of(partition)
        if topic is None or figures is None:
            return None
        nodes, traffic, seconds = fold.positions.nodes, figures.traffic, fold.seconds
        leaders = {each.leader for each in figures.positions.values() if each.leader is not None}
        text = facts(
            ("partitions", words.ranges(topic.partitions) if partition is None else ""),
            ("leader", *(_node(leader, nodes) for leader in sorted(leaders))),
            ("offsets", _offsets(figures.position)),
            ("produced", *_texts(traffic.produced, seconds)),
            ("fetched", *_texts(traffic.fetched, seconds)),
            ("replicated", *_texts(traffic.replicated, seconds)),
            ("errors", *(Cell(f"{count:,} {error}", Role.ERROR) for error, count in traffic.errors.items())),
        )
        title = f"topic {name}" if partition is None else f"topic {name}, partition {partition}"
        return Detail(title, text, (list(_who(figures)),))


def _place(figures: Figures) -> str:
    """Return a filter for the exchanges that mention a topic or a partition."""
    if figures.partition is None:
        return f"topic == {quoted(figures.topic)}"
    return f"topic_partition == {quoted(f'{figures.topic}-{figures.partition}')}"


def _cells(title: AnyCell, figures: Figures, rates: _Rates, now: tuple[int, int]) -> tuple[AnyCell, ...]:
    traffic, position = figures.traffic, figures.position
    produced, fetched, replicated = traffic.flows
    return (
        title,
        counted(figures.mentions),
        sized(produced.bytes),
        Cell(rates.produced, value=produced.bytes),
        Cell(rates.produced_lately, value=now[0]),
        Cell(records(produced), value=produced.records),
        sized(fetched.bytes),
        Cell(rates.fetched, value=fetched.bytes),
        Cell(rates.fetched_lately, value=now[1]),
        Cell(records(fetched), value=fetched.records),
        sized(replicated.bytes),
        "" if position is None or position.end is None else _exact(position.end),
        _lag(lag(figures)),
        "" if position is None or position.leader is None else _node(position.leader, {}),
        words.some(produced.clients),
        words.some({**fetched.clients, **replicated.clients}),
        Cell(words.listed(f"{count:,} {error}" for error, count in traffic.errors.items()), Role.ERROR),
    )


def _exact(number: int) -> Cell:
    return Cell(f"{number:,}", value=number)


def _rate(flow: Flow, seconds: float) -> str:
    return _size(round(flow.bytes / seconds)) if seconds else ""


def _size(count: int) -> str:
    return words.size(count) if count else ""


def _lag(offsets: int | None) -> AnyCell:
    return "" if offsets is None else Cell(f"{offsets:,}", Role.WARNING if offsets else Role.PLAIN, offsets)


def _node(leader: int, nodes: Mapping[int, str]) -> AnyCell:
    if leader < 0:
        return Cell("none", Role.ERROR, leader)
    return Cell(f"{leader} ({nodes[leader]})" if leader in nodes else f"{leader}", value=leader)


def _offsets(position: Position | None) -> str:
    if position is None or position.end is None:
        return ""
    begin = "" if position.begin is None else f"{position.begin:,} "
    return f"{begin}to {position.end:,}"


def _texts(flow: Flow, seconds: float) -> Iterator[str]:
    if flow.bytes:
        yield words.size(flow.bytes)
        yield f"{records(flow) or '0'} records in {words.counted(flow.batches, 'batch', 'batches')}"
        if seconds:
            yield f"{words.size(round(flow.bytes / seconds))}/s over {seconds:,.1f} s"


def _who(figures: Figures) -> Iterator[Row]:
    """Yield a row for each activity of a client or group with a topic or a partition."""
    place = _place(figures)
    for group, standing in standings(figures, groups=True).items():
        wanted = f"{place} and group == {quoted(group)}"
        yield _who_row(f"group {group}", "commits", "", standing, wanted)
    fetching = standings(figures, groups=False)
    for (does, apis), flow in zip(_FLOWS, figures.traffic.flows, strict=True):
        for client, size in flow.clients.items():
            standing = fetching.get(client, Progress()) if does == "fetches" else Progress()
            wanted = f"{place} and {of_client(client)} and api in {apis}"
            yield _who_row(client, does, sized(size), standing, wanted)


def _who_row(who: str, does: str, size: AnyCell, standing: Progress, wanted: str) -> Row:
    partitions = standing.partitions
    cells: tuple[AnyCell, ...] = (
        who,
        does,
        words.ranges(partitions),
        size,
        _exact(standing.offset) if len(partitions) == 1 else "",
        _lag(standing.lag),
    )
    return Row((who, does), cells, leads_to=wanted)
