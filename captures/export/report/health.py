"""TCP health: connections over time, lost and retransmitted bytes, round trips."""

from __future__ import annotations

from collections.abc import Sequence

from captures.export.markup import PARTS, Markup
from captures.export.report import statements
from captures.export.report.plots import stacked, whole
from captures.export.report.section import Column, Context, Section, block, count, duration, size, table
from captures.export.report.traffic import keys_of, series_of

_TROUBLES = (
    size("retransmitted", "sent again", zero=""),
    count("reordered", "out of order", zero=""),
    size("lost", "not captured", zero=""),
    size("cut", "cut", zero=""),
    size("conflicting", "conflicting", zero=""),
    count("zero_windows", "windows full", zero=""),
)
_ENDS = {
    "closed by client": "c0",
    "closed by broker": "c4",
    "open": "rest",
    "reset by client": "c3",
    "reset by broker": "c1",
    "closed by kproxy": "c2",
    "reset by kproxy": "c2",
}
_TROUBLES_NOTE = (
    "Sent again, not captured, cut by the snapshot length, and sent again with other content (conflicting) are bytes; "
    "out of order are segments; windows full are packets that announced that no more can be taken."
)


def _openings(context: Context) -> Sequence[Markup]:
    statement = statements.openings(context.slices.width)
    rows = context.tables.rows(statement)
    if not rows:
        return [PARTS.nothing("No connection was seen.")]
    series = series_of(rows, "ended", "connections", _ENDS)
    title = "Connections that began, by how they ended"
    drawn = stacked(context.axis, context.slices, series, whole, about=title)
    note = f"In {context.slices.words}. Those that were there before the capture count where their first packet is."
    return [block(title, statement, drawn, PARTS.legend(keys_of(series)), note=note)]


CONNECTIONS = Section("Connections", "connections", (statements.openings(1),), _openings)


def _health(context: Context) -> Sequence[Markup]:
    rows = context.tables.rows(statements.DIRECTIONS)
    if not rows:
        return [PARTS.nothing("No connection was seen.")]
    columns = (
        Column("sent by", lambda row: f"{row['direction']}s"),
        count("connections"),
        count("packets"),
        size("payload", "payload"),
        *_TROUBLES,
        count("resets", zero=""),
    )
    return [
        block("By direction", statements.DIRECTIONS, table(rows, columns), note=_TROUBLES_NOTE),
        _troubled(context),
        *_round_trips(context),
    ]


def _troubled(context: Context) -> Markup:
    rows = context.tables.rows(statements.TROUBLED)
    if not rows:
        return block(
            "In trouble", statements.TROUBLED, PARTS.nothing("All connections are whole and in order.")
        )
    several = any(row["run"] for row in rows)
    columns = (
        Column("connection", lambda row: f"run {row['run']}: " * several + str(row["connection"])),
        Column("from", lambda row: f"{row['sender']} ({row['direction']})"),
        Column("to", lambda row: row["receiver"]),
        size("payload", "payload"),
        *_TROUBLES,
    )
    shown = table(rows, columns)
    return block("In trouble, the most bytes first", statements.TROUBLED, shown, PARTS.not_shown(rows))


def _round_trips(context: Context) -> Sequence[Markup]:
    if context.tables.missing(statements.ROUND_TRIPS):
        return []
    rows = context.tables.rows(statements.ROUND_TRIPS)
    if not rows:
        return []
    columns = (
        Column("broker", lambda row: row["broker"]),
        count("connections"),
        duration("p50_ns", "median"),
        duration("p95_ns", "95%"),
        duration("most_ns", "longest"),
    )
    note = (
        "Between the place of the capture and the broker, of the handshakes, or as the kernel told a proxy."
    )
    shown = table(rows, columns)
    return [block("Round trips", statements.ROUND_TRIPS, shown, PARTS.not_shown(rows), note=note)]


HEALTH = Section("TCP health", "tcp", (statements.DIRECTIONS, statements.TROUBLED), _health)
