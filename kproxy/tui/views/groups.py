"""Groups: kind, coordinator, members, generations."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from captures.analysis.conditions import of_group
from captures.analysis.group_stats import Generation, GroupRow, GroupStats, Member
from captures.filters.lexer import quoted
from captures.meaning import words
from kproxy.cli.tables import Column
from kproxy.cli.times import clock, span
from kproxy.tui.session.access import Access
from kproxy.tui.views.table_view import Detail, TableView, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted

_APIS = {
    "joins": ("JoinGroup",),
    "syncs": ("SyncGroup",),
    "heartbeats": ("Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"),
    "commits": ("OffsetCommit", "TxnOffsetCommit"),
    "leaves": ("LeaveGroup",),
}
"""Column -> APIs that are counted in it."""


class Groups(TableView[GroupStats]):
    """One row for each group; members and generations for the selected one."""

    view_name = "groups"
    EMPTY = "No groups yet."
    COLUMNS: ClassVar[Sequence[Column]] = (
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
        Column("errors", least=12, rank=1),
        Column("last", rank=2),
    )
    DETAILS: ClassVar[Sequence[Sequence[Column]]] = (
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
        (
            Column("generation", right=True),
            Column("time"),
            Column("after", right=True, rank=2),
            Column("members", right=True),
            Column("leader", least=8),
            Column("protocol", least=8, rank=1),
            Column("exchange", right=True),
        ),
    )

    def make(self, access: Access) -> GroupStats:
        return GroupStats()

    def rows(self, fold: GroupStats, access: Access) -> Sequence[Row]:
        return [self._row(group, access) for group in fold.result()]

    def _row(self, group: GroupRow, access: Access) -> Row:
        errors = words.listed(f"{count:,} {name}" for name, count in group.errors.most_common())
        cells: tuple[AnyCell, ...] = (
            group.group,
            group.kind,
            words.join(group.protocol_type if group.protocol_type != "consumer" else "", group.protocol),
            group.state,
            access.capture.names.shown(group.coordinator) if group.coordinator else "",
            counted(len(group.present)),
            "" if group.generation < 0 else Cell(f"{group.generation}", value=group.generation),
            counted(group.rebalances),
            counted(group.exchanges),
            *(counted(sum(group.apis[api] for api in apis)) for apis in _APIS.values()),
            Cell(errors, Role.ERROR),
            Cell(clock(group.last, self.session.zone), value=group.last),
        )
        return Row(group.group, cells, leads_to=of_group(group.group))

    def detail(self, fold: GroupStats, access: Access, key: Hashable) -> Detail | None:
        group = next((group for group in fold.result() if group.group == key), None)
        if group is None:
            return None
        zone = self.session.zone
        coordinator = access.capture.names.shown(group.coordinator) if group.coordinator else ""
        text = facts(
            ("kind", group.kind, group.protocol_type, group.protocol, group.state),
            ("coordinator", coordinator or Cell("not seen", Role.MUTED)),
            ("requests", *(f"{count:,} {api}" for api, count in group.apis.items())),
            (
                "errors",
                *(Cell(f"{count:,} {name}", Role.ERROR) for name, count in group.errors.most_common()),
            ),
            ("seen", f"{clock(group.first, zone)} to {clock(group.last, zone)}"),
        )
        leader = group.generations[-1].leader if group.generations else ""
        members = [self._member(group, member, leader, access) for member in group.members.values()]
        members.reverse()  # who came last is who one asks about
        befores = [None, *group.generations]
        generations = [
            self._generation(group, *both) for both in zip(befores, group.generations, strict=False)
        ]
        generations.reverse()
        return Detail(f"group {group.group}", text, (members, generations))

    def _member(self, group: GroupRow, member: Member, leader: str, access: Access) -> Row:
        zone, notes = self.session.zone, []
        if member.member_id == leader:
            notes.append("leader")
        if member.left is not None:
            notes.append(f"left {clock(member.left, zone)}")
        cells: tuple[AnyCell, ...] = (
            words.member(member.member_id),
            member.client,
            access.capture.names.shown_host(member.host),
            member.instance_id or "",
            "" if member.generation < 0 else Cell(f"{member.generation}", value=member.generation),
            counted(member.exchanges),
            Cell(clock(member.first, zone), value=member.first),
            Cell(clock(member.last, zone), value=member.last),
            Cell(words.listed(notes), Role.MUTED if member.left is not None else Role.PLAIN),
        )
        wanted = f"member == {quoted(member.member_id)} and {of_group(group.group)}"
        return Row(member.member_id, cells, leads_to=wanted)

    def _generation(self, group: GroupRow, before: Generation | None, made: Generation) -> Row:
        leader = group.members.get(made.leader)
        cells: tuple[AnyCell, ...] = (
            Cell(f"{made.number}", value=made.number),
            Cell(clock(made.time, self.session.zone), value=made.time),
            ""
            if before is None
            else Cell(span(max(made.time - before.time, 0)), value=made.time - before.time),
            counted(made.size if made.size is not None else len(made.members)),
            words.join(words.member(made.leader), leader.client if leader else ""),
            made.protocol,
            Cell(f"#{made.first}", value=made.first),
        )
        return Row(made.number, cells, leads_to=made.first)
