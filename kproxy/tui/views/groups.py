"""Groups: kind, coordinator, members, and their rebalances as a picture and as stories."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from captures.analysis.clusters import beside, recorded_names
from captures.analysis.conditions import of_group
from captures.analysis.group_stats import TAKEN as OF_STATS
from captures.analysis.group_stats import GroupRow, GroupStats
from captures.analysis.groups.facts import EVIDENCE_SHOWN, Tone, duration_text, manner, members_now
from captures.analysis.groups.facts import facts as facts_of
from captures.analysis.groups.history import TAKEN as OF_HISTORIES
from captures.analysis.groups.labels import Labels, counter_of, step
from captures.analysis.groups.model import GroupMember, GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Trigger
from captures.analysis.incidents.history import IncidentHistories, add_all
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns, SelectedColumns
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.time_format import clock, span
from dissectors.api_keys import ApiKey
from kproxy.session.access import Access
from kproxy.session.engine import ClosedError, Priority
from kproxy.text.tables import Column
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.views.findings import named_exchange
from kproxy.tui.views.paced import PacedFold, PacedView
from kproxy.tui.views.table_view import Detail, facts
from kproxy.tui.widgets.group_picture import GroupPicture
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, moment, numbered

if TYPE_CHECKING:
    from kproxy.session import Access, Session

_APIS = {
    "joins": ("JoinGroup",),
    "syncs": ("SyncGroup",),
    "heartbeats": ("Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"),
    "commits": ("OffsetCommit", "TxnOffsetCommit"),
    "leaves": ("LeaveGroup",),
}
"""APIs counted in each column."""


_LEAST_LANES = 7
"""Lines of the picture of a group with four members."""


@dataclass(frozen=True, slots=True)
class GroupDetail(Detail):
    """Details of a group.

    :ivar timeline: None if there is none yet
    """

    timeline: GroupTimeline | None


class Groups(PacedView["GroupFold"]):
    """One row per group; of the selected one a lane per member, its rebalances, and the story of one.

    It covers all exchanges regardless of the filter: with a part of them, members would seem to fall silent.
    """

    view_name = "groups"
    THINGS = "groups"
    EVERYTHING = True
    WITHOUT = (ApiKey.PRODUCE,)  # mentions no group
    BESIDE = False  # lanes take the whole width
    DRAWN = False  # lanes are the picture over time

    DEFAULT_CSS = """
    Groups {
        & > .rows { max-height: 25%; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.GROUPS)]

    COLUMNS = (
        Column("group", least=20),
        Column("kind"),
        Column("protocol", least=8, rank=5),
        Column("state", rank=9),
        Column("coordinator", least=15, rank=4),
        Column("members", right=True),
        Column("gen", right=True),
        Column("rebalances", right=True),
        Column("count", right=True, rank=3),
        *(Column(title, right=True, rank=6 + place // 2) for place, title in enumerate(_APIS)),
        Column("errors", least=28, rank=1),
        Column("last", rank=2),
    )
    DETAILS = (
        (
            Column("gen", right=True),
            Column("time"),
            Column("took", right=True),
            Column("members", right=True, rank=2),
            Column("trigger"),
            Column("what happened", least=30),
            Column("exchange", right=True, rank=1),
        ),
        (
            Column("member", least=8),
            Column("client", least=10),
            Column("host", least=9, rank=2),
            Column("static", least=6, rank=3),
            Column("gen", right=True),
            Column("requests", right=True, rank=4),
            Column("first", rank=5),
            Column("last", rank=1),
            Column("note", least=8),
        ),
    )

    def __init__(self, session: Session) -> None:
        self._picture = GroupPicture(session.zone)
        super().__init__(session)
        self._shown: GroupDetail | None = None
        self._members = False
        self._evidence_names: dict[int, str] = {}
        """Names of exchanges that are evidence, by number."""

    def pictures(self) -> Iterable[Widget]:
        yield self._picture

    def parts(self) -> Iterator[tuple[Widget, int, int]]:
        wanted = self._picture.wanted_height
        yield self._picture, min(wanted, _LEAST_LANES), wanted
        yield from super().parts()

    def make(self, access: Access) -> GroupFold:
        return GroupFold(access)

    def rows(self, fold: GroupFold, access: Access) -> Sequence[Row]:
        timelines = self.result(fold, access)
        found = [(cluster, group) for cluster, part in fold.clusters.items() for group in part.stats.result()]
        found.sort(key=lambda each: (-each[1].exchanges, each[1].group))
        return [self._row(*each, timelines.get((each[0], each[1].group)), access) for each in found]

    def _row(self, cluster: str, group: GroupRow, timeline: GroupTimeline | None, access: Access) -> Row:
        errors = words.listed(f"{count:,} {name}" for name, count in group.errors.most_common())
        # without any member seen, requests of others about the group are the only source
        shown = group if timeline is None else timeline
        generation = -1 if timeline is None else timeline.generation
        cells: tuple[AnyCell, ...] = (
            beside(group.group, cluster),
            str(shown.kind),
            words.join(shown.protocol_type if shown.protocol_type != "consumer" else "", shown.protocol),
            shown.state,
            _coordinator(timeline, access),
            "" if timeline is None else counted(members_now(timeline)),
            "" if generation < 0 else Cell(f"{generation}", value=generation),
            "" if timeline is None else counted(len(timeline.rebalances)),
            counted(group.exchanges),
            *(counted(sum(group.apis[api] for api in apis)) for apis in _APIS.values()),
            Cell(errors, Role.ERROR),
            moment(group.last, self.session.zone),
        )
        return Row((cluster, group.group), cells, leads_to=of_group(group.group, cluster))

    def detail(self, fold: GroupFold, access: Access, key: Hashable) -> GroupDetail | None:
        assert isinstance(key, tuple)
        cluster, name = key
        group = fold.clusters[cluster].stats.group(name) if cluster in fold.clusters else None
        if group is None:
            return None
        timeline = self.result(fold, access).get((cluster, name))
        rebalances = [] if timeline is None else timeline.rebalances
        leader = next((each.leader for each in reversed(rebalances) if each.leader), "")
        members = [] if timeline is None else timeline.members
        tables = (
            [self._story(*each) for each in enumerate(rebalances)],
            # the latest members are the most interesting
            [self._member(cluster, group, member, leader, access) for member in reversed(members)],
        )
        return GroupDetail(
            f"group {beside(name, cluster)}", self._facts(group, timeline, access), tables, timeline
        )

    def _facts(self, group: GroupRow, timeline: GroupTimeline | None, access: Access) -> Content:
        shown = group if timeline is None else timeline
        return facts(
            ("kind", str(shown.kind), shown.protocol_type, shown.protocol, shown.state),
            ("coordinator", _coordinator(timeline, access) or Cell("not seen", Role.MUTED)),
            ("seen", *(() if timeline is None else timeline.seen)),
            ("requests", *(f"{count:,} {api}" for api, count in group.apis.items())),
            (
                "errors",
                *(Cell(f"{count:,} {name}", Role.ERROR) for name, count in group.errors.most_common()),
            ),
        )

    def _story(self, index: int, story: Rebalance) -> Row:
        number = next(iter(story.cause.evidence or story.evidence), None)
        duration = story.duration
        duration_text = "" if duration is None else span(duration)
        cells: tuple[AnyCell, ...] = (
            "" if story.generation < 0 else Cell(f"{story.generation}", value=story.generation),
            moment(story.time, self.session.zone),
            Cell(
                "running" if story.running else duration_text,
                Role.ERROR if story.running else Role.PLAIN,
                duration,
            ),
            "" if story.size is None else Cell(f"{story.size}", value=story.size),
            Cell(story.trigger, Role.MUTED if story.trigger is Trigger.UNKNOWN else Role.PLAIN),
            story.sentence or story.cause.sentence,
            numbered(number),
        )
        return Row(index, cells, leads_to=number)

    def _member(self, cluster: str, group: GroupRow, member: GroupMember, leader: str, access: Access) -> Row:
        zone, notes = self.session.zone, []
        if member.member == leader:
            notes.append("leader")
        if member.left is not None:
            notes.append(f"left {clock(member.left, zone)}")
        generation = max((span.generation for span in member.spans), default=-1)
        cells: tuple[AnyCell, ...] = (
            words.member(member.member),
            member.client,
            access.capture.names.shown_host(member.host),
            member.instance or "",
            "" if generation < 0 else Cell(f"{generation}", value=generation),
            counted(sum(group.members[each] for each in {*member.former, member.member})),
            moment(member.first, zone),
            moment(member.last, zone),
            Cell(words.listed(notes), Role.MUTED if member.left is not None else Role.PLAIN),
        )
        wanted = f"member == {quoted(member.member)} and {of_group(group.group, cluster)}"
        return Row(member.member, cells, leads_to=wanted)

    # ------------------------------------------------------------ details of the selected group
    def show_detail(self, found: Detail | None) -> None:
        super().show_detail(found)
        self._shown = found if isinstance(found, GroupDetail) else None
        timeline = None if self._shown is None else self._shown.timeline
        self._picture.show(timeline)
        self._show_tables()
        self._show_story()

    def _show_tables(self) -> None:
        stories, members = self._details
        stories.display = not self._members and bool(stories.rows)
        members.display = self._members and bool(members.rows)
        self.call_after_refresh(self.use_room)

    def _show_story(self) -> None:
        """Show the story of the rebalance under the cursor, above the facts about the group."""
        shown, index = self._shown, self._picture.cursor
        if shown is None:
            return
        if shown.timeline is None or index is None:
            self._text.update(shown.text)
            return
        story = shown.timeline.rebalances[index]
        lines = story_lines(story, shown.timeline, self.session.zone, self._evidence_names)
        self._text.update(Content("\n").join([facts(*lines), Content(""), shown.text]))
        self.call_after_refresh(self.use_room)
        self._details[0].select(index)
        # exchanges of a file are numbered anew at its end
        if self.session.live or self.session.status.finished:
            unnamed = [each for each in story.evidence[:EVIDENCE_SHOWN] if each not in self._evidence_names]
            if unnamed:
                self._name_evidence(unnamed)

    @work(exclusive=True, group="names")
    async def _name_evidence(self, numbers: Sequence[int]) -> None:
        """Name exchanges that are evidence, and show the story with their names."""
        with suppress(ClosedError):
            self._evidence_names |= await self.session.run(
                lambda access: {each: named_exchange(access, each) for each in numbers}, Priority.LOOK
            )
            self._show_story()

    @on(GroupPicture.Selected)
    def _rebalance_selected(self) -> None:
        self._show_story()

    @on(RowTable.RowSelected)
    def _story_selected(self, message: RowTable.RowSelected) -> None:
        if message.table is self._details[0] and isinstance(message.key, int):
            self._picture.select(message.key)

    @on(GroupPicture.Entered)
    def _rebalance_entered(self, message: GroupPicture.Entered) -> None:
        self._details[0].select(message.place)
        row = self._details[0].selected
        if row is not None and isinstance(row.leads_to, int):
            self.post_message(self.GoTo(row.leads_to))

    # ------------------------------------------------------------ keys
    def action_group_members(self) -> None:
        """Show members instead of rebalances, or rebalances again."""
        self._members = not self._members
        self._show_tables()


def _coordinator(timeline: GroupTimeline | None, access: Access) -> str:
    """Return the name of the latest coordinator; empty if none was seen."""
    seen = [] if timeline is None else timeline.coordinators
    return access.capture.names.shown(seen[-1].broker) if seen else ""


class _Cluster:
    """The groups of one cluster.

    :param name: as kproxy's proxy has recorded it; empty if it has none
    :ivar stats: requests per group
    """

    def __init__(self, name: str, access: Access) -> None:
        self.stats = GroupStats()
        capture = access.capture

        def has_broker(address: str) -> bool:
            return name in recorded_names(capture, address)

        topic_name = access.plain.knowledge.topic_name
        self.histories = IncidentHistories(topic_name, capture, has_broker if name else None)


class GroupFold(PacedFold[Mapping[tuple[str, str], GroupTimeline]]):
    """Collects messages of group members, and makes timelines of them, by cluster and group.

    :ivar clusters: by the name that kproxy's proxy has recorded; empty if there is none
    """

    TAKEN = (*OF_STATS, *OF_HISTORIES)

    def __init__(self, access: Access) -> None:
        super().__init__({})
        self.clusters: dict[str, _Cluster] = {}
        self._access = access

    def add(self, exchange: Exchange) -> None:
        super().add(exchange)
        cluster = self._cluster(exchange.upstream.cluster)
        cluster.stats.add(exchange)
        cluster.histories.add(exchange)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        reader = access.plain
        connections, of = np.unique(columns.flat("connection"), return_inverse=True)
        names = np.array([access.capture.upstream_of(each).cluster for each in connections.tolist()], object)
        for name in sorted(set(names)):
            chosen = np.flatnonzero((names == name)[of])
            theirs = SelectedColumns(columns, chosen) if len(chosen) < len(columns) else columns
            cluster = self._cluster(name)
            cluster.stats.add_columns(theirs, reader, indexes[chosen])
            for exchange in add_all(cluster.histories, reader, theirs, indexes[chosen]):
                yield exchange.number - reader.first

    def compute(
        self, now: int, pending: Iterable[Exchange], *, live: bool
    ) -> Mapping[tuple[str, str], GroupTimeline]:
        waiting = list(pending)
        found = {}
        for name, cluster in self.clusters.items():
            theirs = [each for each in waiting if each.upstream.cluster == name]
            for timeline in cluster.histories.result(now=now, pending=theirs, live=live):
                found[name, timeline.group] = timeline
        return found

    def _cluster(self, name: str) -> _Cluster:
        if name not in self.clusters:
            self.clusters[name] = _Cluster(name, self._access)
        return self.clusters[name]


_ROLES = {Tone.PLAIN: Role.PLAIN, Tone.QUIET: Role.MUTED, Tone.ODD: Role.WARNING, Tone.TROUBLE: Role.ERROR}


def story_lines(
    rebalance: Rebalance, timeline: GroupTimeline, zone: tzinfo | None, names: Mapping[int, str]
) -> Iterator[tuple[AnyCell, ...]]:
    """Yield the lines of a rebalance's story: the sentence, its time and course, and further facts.

    :param timeline: of its group
    :param names: of exchanges that are evidence, by number; others are shown by number
    """
    labels, counter = Labels(timeline), counter_of(rebalance.kind)
    storm = f"one of {words.counted(rebalance.storm, 'rebalance')} of one cause" if rebalance.storm else ""
    yield "", Cell(rebalance.sentence, Role.STRONG)
    yield (
        counter,
        step(rebalance).removeprefix(f"{counter} "),
        clock(rebalance.time, zone),
        duration_text(rebalance, timeline),
        manner(rebalance),
        Cell(storm, Role.WARNING),
    )
    yield "trigger", f"{rebalance.trigger} ({rebalance.certainty})"
    for fact in facts_of(rebalance, timeline, labels):
        if fact.title != "evidence":
            incident = rebalance.incident if fact.title == "because of" else ""
            yield fact.title, Cell(fact.text, _ROLES[fact.tone], incident=incident)
    shown, left = rebalance.evidence[:EVIDENCE_SHOWN], len(rebalance.evidence) - EVIDENCE_SHOWN
    named = [names.get(each, f"#{each}") for each in shown]
    yield "evidence", Cell(words.listed([*named, f"{left:,} more" if left > 0 else ""]), Role.MUTED)
