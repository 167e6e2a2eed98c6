"""Who talks most: clients, brokers, topics, partitions, connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from captures.export.markup import PARTS, Markup
from captures.export.report import statements
from captures.export.report.database import Row, Statement
from captures.export.report.section import Context, Section, block
from captures.meaning import words

_SAID = 60
"""Characters of a name that are shown."""


def _talkers(context: Context) -> Sequence[Markup]:
    parts: list[Markup] = []
    for title, statement, head, cells in (
        ("Clients", statements.CLIENTS, ["client", "hosts"], _client),
        ("Brokers", statements.BROKERS, ["broker", "connections"], _broker),
        ("Connections", statements.CONNECTIONS, ["connection", "ends"], _connection),
    ):
        if not context.tables.missing(statement.needs):
            parts.append(_talk(context, title, statement, head, cells))
    return [PARTS.pair(parts[:2]), *parts[2:]]


def _talk(
    context: Context,
    title: str,
    statement: Statement,
    head: list[str],
    cells: Callable[[Row], list[str | Markup]],
) -> Markup:
    rows = context.tables.rows(statement)
    most = max((int(row["total_bytes"]) for row in rows), default=0)
    lines = [
        [
            *cells(row),
            f"{row['exchanges']:,}",
            f"{row['with_errors']:,}" if row["with_errors"] else "",
            words.volume(int(row["request_bytes"])),
            words.volume(int(row["response_bytes"])),
            PARTS.share(int(row["total_bytes"]), most),
        ]
        for row in rows
    ]
    whole = [*head, "exchanges", "with errors", "sent", "received", ""]
    if title == "Brokers":
        whole[-3:-1] = ["received", "sent"]
    return _ranked(
        title,
        statement,
        rows,
        PARTS.table(whole, lines, right={2, 3, 4, 5} | ({1} if head[1] != "ends" else set())),
    )


def _ranked(title: str, statement: Statement, rows: Sequence[Row], shown: Markup) -> Markup:
    if not rows:
        return block(title, statement, PARTS.nothing("There are none."))
    more = rows[0]["of_all"] - len(rows)
    note = f"The {len(rows)} with the most bytes, of {rows[0]['of_all']:,}." if more > 0 else ""
    return block(title, statement, shown, note=note)


def _client(row: Row) -> list[str | Markup]:
    return [_name(row["who"]) or "(empty client ID)", f"{row['hosts']:,}"]


def _broker(row: Row) -> list[str | Markup]:
    return [PARTS.joined(_name(row["who"]), row["called"] or ""), f"{row['connections']:,}"]


def _connection(row: Row) -> list[str | Markup]:
    number = f"run {row['run']}: {row['connection']}" if row["last_run"] else str(row["connection"])
    ends = PARTS.styled("nowrap", f"{row['client']} → {row['broker']}")
    return [number, PARTS.joined(ends, PARTS.styled("dim", _name(row["client_id"] or "")))]


CLIENTS = Section("Top talkers", "talkers", {"exchanges": statements.CLIENTS.needs["exchanges"]}, _talkers)


# ---------------------------------------------------------------- topics
def _topics(context: Context) -> Sequence[Markup]:
    parts = [
        _flow(context, "Topics", statements.TOPICS, "partitions", lambda row: f"{row['partitions']:,}"),
        _flow(context, "Partitions", statements.PARTITIONS, "partition", lambda row: str(row["part"])),
    ]
    return [PARTS.pair(parts)]


def _flow(
    context: Context, title: str, statement: Statement, second: str, shown: Callable[[Row], str]
) -> Markup:
    rows = context.tables.rows(statement)
    most = max((int(row["total_bytes"]) for row in rows), default=0)
    head = ["topic", second, "produced", "records", "fetched", "records", "replicated", ""]
    lines = [
        [
            _name(row["who"]),
            shown(row),
            _bytes(row["produced"]),
            words.figure(row["records_produced"]),
            _bytes(row["fetched"]),
            words.figure(row["records_fetched"]),
            _bytes(row["replicated"]),
            PARTS.share(int(row["total_bytes"]), most, "c2"),
        ]
        for row in rows
    ]
    return _ranked(title, statement, rows, PARTS.table(head, lines, right={1, 2, 3, 4, 5, 6}))


def _name(text: str) -> str:
    return words.clipped(words.line(text), _SAID)


def _bytes(count: int | None) -> str:
    return words.volume(int(count)) if count else ""


TOPICS = Section("Topics and partitions", "topics", statements.TOPICS.needs, _topics)
