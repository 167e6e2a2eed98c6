"""How TCP fared: connections over time, what was lost or sent again, round trips."""

from __future__ import annotations

from collections.abc import Sequence

from captures.export.markup import PARTS, Markup
from captures.export.report import statements
from captures.export.report.database import Row
from captures.export.report.plots import stacked, whole
from captures.export.report.scales import amount
from captures.export.report.section import Context, Section, block
from captures.export.report.traffic import keys_of, series_of
from captures.meaning import words
from captures.time_format import latency

_TROUBLES = (
    ("retransmitted", "sent again", "B"),
    ("reordered", "out of order", ""),
    ("lost", "not captured", "B"),
    ("cut", "cut", "B"),
    ("conflicting", "conflicting", "B"),
    ("zero_windows", "windows full", ""),
)
_HEADS = [title for _, title, _ in _TROUBLES]
_ENDS = {
    "closed by client": "c0",
    "closed by broker": "c4",
    "open": "rest",
    "reset by client": "c3",
    "reset by broker": "c1",
    "closed by kproxy": "c2",
    "reset by kproxy": "c2",
}
_SAID = (
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


CONNECTIONS = Section("Connections", "connections", statements.openings(1).needs, _openings)


def _health(context: Context) -> Sequence[Markup]:
    rows = context.tables.rows(statements.DIRECTIONS)
    if not rows:
        return [PARTS.nothing("No connection was seen.")]
    head = ["sent by", "connections", "packets", "payload", *_HEADS, "resets"]
    lines = [
        [
            f"{row['direction']}s",
            f"{row['connections']:,}",
            f"{int(row['packets']):,}",
            words.volume(int(row["payload"])),
            *_troubles(row),
            f"{row['resets']:,}" if row["resets"] else "",
        ]
        for row in rows
    ]
    directions = PARTS.table(head, lines, right=set(range(1, 12)))
    return [
        block("By direction", statements.DIRECTIONS, directions, note=_SAID),
        _troubled(context),
        *_round_trips(context),
    ]


def _troubles(row: Row) -> list[str]:
    out = []
    for name, _, unit in _TROUBLES:
        count = int(row[name])
        out.append("" if not count else amount(count, unit) if unit else f"{count:,}")
    return out


def _troubled(context: Context) -> Markup:
    rows = context.tables.rows(statements.TROUBLED)
    if not rows:
        return block(
            "In trouble", statements.TROUBLED, PARTS.nothing("All connections are whole and in order.")
        )
    several = any(row["run"] for row in rows)
    head = ["connection", "from", "to", "payload", *_HEADS]
    lines = [
        [
            f"run {row['run']}: {row['connection']}" if several else str(row["connection"]),
            f"{row['sender']} ({row['direction']})",
            row["receiver"],
            words.volume(int(row["payload"])),
            *_troubles(row),
        ]
        for row in rows
    ]
    shown = PARTS.table(head, lines, right=set(range(3, 10)))
    return block("In trouble, the most bytes first", statements.TROUBLED, shown, PARTS.not_shown(rows))


def _round_trips(context: Context) -> Sequence[Markup]:
    if context.tables.missing(statements.ROUND_TRIPS.needs):
        return []
    rows = context.tables.rows(statements.ROUND_TRIPS)
    if not rows:
        return []
    head = ["broker", "connections", "median", "95%", "longest"]
    lines = [
        [
            row["broker"],
            f"{row['connections']:,}",
            latency(row["p50_ns"]),
            latency(row["p95_ns"]),
            latency(row["most_ns"]),
        ]
        for row in rows
    ]
    note = (
        "Between the place of the capture and the broker, of the handshakes, or as the kernel told a proxy."
    )
    return [
        block(
            "Round trips",
            statements.ROUND_TRIPS,
            PARTS.table(head, lines, right={1, 2, 3, 4}),
            PARTS.not_shown(rows),
            note=note,
        )
    ]


HEALTH = Section("TCP health", "tcp", statements.DIRECTIONS.needs, _health)
