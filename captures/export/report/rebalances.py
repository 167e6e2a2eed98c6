"""When groups rebalanced, why, and which rebalances took longest."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.clusters import beside
from captures.export.markup import PARTS, Markup, on_lines
from captures.export.report import statements
from captures.export.report.database import Row
from captures.export.report.plots import LABEL, Bar, BarRow, lanes
from captures.export.report.section import (
    Column,
    Context,
    Section,
    block,
    count,
    duration,
    evidence,
    share,
    table,
)
from captures.meaning import words
from captures.time_format import latency

_CHANGED = (
    "subscription_changed partitions_changed leader_rejoined cooperative_follow_up coordinator_moved "
    "protocol_upgraded protocol_downgraded"
)
_KINDS = (
    ("c1", "a member fell out", "session_timeout max_poll_exceeded rebalance_timeout instance_fenced"),
    ("c0", "a member joined", "member_joined static_member_returned"),
    ("c4", "a member left", "member_left removed_by_admin"),
    ("c3", "what is consumed changed, or how", _CHANGED),
)
"""Colours, their meanings, and the triggers of docs/json-groups.md with that colour."""
_COLOURS = {trigger: colour for colour, _, triggers in _KINDS for trigger in triggers.split()}
_UNKNOWN = "rest"
_CLUSTER = 8
"""Characters of a cluster ID beside the name of a group."""


def _rebalances(context: Context) -> Sequence[Markup]:
    groups = context.tables.rows(statements.REBALANCE_GROUPS)
    if not groups:
        return [
            block("Rebalances over time", statements.REBALANCE_GROUPS, PARTS.nothing("No group rebalanced."))
        ]
    return [_timeline(context, groups), _by_group(groups), _stories(context)]


def _timeline(context: Context, groups: Sequence[Row]) -> Markup:
    rows = context.tables.rows(statements.REBALANCE_BARS)
    bars: dict[str, list[Bar]] = {_group(row): [] for row in groups}
    used: set[str] = set()
    for row in sorted(rows, key=lambda each: each["time_ns"]):
        bar = _bar(context, row)
        used |= set(bar.colour.split())
        bars[_group(row)].append(bar)
    found = [BarRow(_short(row), bars[_group(row)]) for row in groups]
    keys = [(colour, name) for colour, name, _ in _KINDS if colour in used]
    keys += [(_UNKNOWN, "not known")] if _UNKNOWN in used else []
    keys += [("running", "had not ended")] if "running" in used else []
    notes = []
    if groups[0]["of_all"] > len(groups):
        notes.append(f"The {len(groups)} groups with the most rebalances, of {groups[0]['of_all']:,}.")
    if rows and rows[0]["of_all"] > len(rows):
        notes.append(f"The {len(rows)} longest of their {rows[0]['of_all']:,} rebalances.")
    drawn = lanes(context.axis, found, about="Rebalances over time, by group")
    note = " ".join(
        ["One lane for each group, one bar for each rebalance; its colour is what triggered it.", *notes]
    )
    return block("Rebalances over time", statements.REBALANCE_BARS, drawn, PARTS.legend(keys), note=note)


def _bar(context: Context, row: Row) -> Bar:
    begin, took = row["time_ns"], row["duration_ns"]
    end = context.axis.end if row["running"] else begin + (took or 0)
    colour = _COLOURS.get(row["trigger"], _UNKNOWN)
    client = f" ({row['client_id']})" if row["client_id"] else ""
    title = [
        context.clock(begin),
        f"{row['trigger']}{client}, {row['certainty']}",
        f"generation {'?' if row['generation'] is None else row['generation']}, {_duration(row)}",
    ]
    return Bar(begin, end, f"{colour} running" if row["running"] else colour, on_lines(title))


def _group(row: Row) -> str:
    """Return the name of a group, with its cluster if the tables show several."""
    return beside(words.line(row["group_id"]), row["of_cluster"])


def _short(row: Row) -> str:
    """Return the name of a group for the margin of a picture: the cluster stays visible if the name is cut."""
    cluster = f" ({row['of_cluster'][:_CLUSTER]})" if row["of_cluster"] else ""
    return words.clipped(words.line(row["group_id"]), LABEL - len(cluster)) + cluster


def _duration(row: Row) -> str:
    if row["running"]:
        return "not ended"
    return "duration not known" if row["duration_ns"] is None else f"took {latency(row['duration_ns'])}"


def _by_group(groups: Sequence[Row]) -> Markup:
    columns = (
        Column("group", _group),
        Column("kind", lambda row: row["kind"]),
        count("rebalances"),
        count("timeouts", "by timeouts", zero=""),
        count("running", "not ended", zero=""),
        duration("total_ns", "in all"),
        share(groups, "total_ns"),
        duration("most_ns", "longest"),
        count("stopped", "partitions stopped", zero=""),
        count("commit_failures", "commits failed", zero=""),
    )
    return block("By group", statements.REBALANCE_GROUPS, table(groups, columns))


def _stories(context: Context) -> Markup:
    rows = context.tables.rows(statements.REBALANCE_STORIES)
    several = any(row["run"] for row in rows)
    took = duration("duration_ns", "took")
    columns = (
        Column("time", lambda row: PARTS.styled("nowrap", context.clock(row["time_ns"]))),
        Column("group", _group),
        took._replace(cell=lambda row: "not ended" if row["running"] else took.cell(row)),
        Column("trigger", lambda row: row["trigger"]),
        Column("what happened", lambda row: row["sentence"]),
        Column("evidence", lambda row: evidence(row, several=several)),
    )
    rest = PARTS.not_shown(rows, "shorter ones are not shown; 'kproxy groups' tells all of them.")
    return block("The longest", statements.REBALANCE_STORIES, table(rows, columns), rest)


_STATEMENTS = statements.REBALANCE_GROUPS, statements.REBALANCE_BARS, statements.REBALANCE_STORIES
REBALANCES = Section("Rebalances", "rebalances", _STATEMENTS, _rebalances)
