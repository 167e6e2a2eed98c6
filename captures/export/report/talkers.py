"""Top talkers: clients, brokers, topics, partitions, connections."""

from __future__ import annotations

from collections.abc import Sequence

from captures.export.markup import PARTS, Markup
from captures.export.report import statements
from captures.export.report.database import Row, Statement
from captures.export.report.section import Column, Context, Section, block, called, count, share, size, table


def _talkers(context: Context) -> Sequence[Markup]:
    parts: list[Markup] = []
    for title, statement, columns in (
        ("Clients", statements.CLIENTS, (Column("client", _client), count("hosts"))),
        ("Brokers", statements.BROKERS, (Column("broker", _broker), count("connections"))),
        ("Connections", statements.CONNECTIONS, (Column("connection", _number), Column("ends", _ends))),
    ):
        if not context.tables.missing(statement):
            parts.append(_talk(context, title, statement, columns))
    return [PARTS.pair(parts[:2]), *parts[2:]]


def _talk(context: Context, title: str, statement: Statement, columns: Sequence[Column]) -> Markup:
    rows = context.tables.rows(statement)
    asked, answered = ("received", "sent") if title == "Brokers" else ("sent", "received")
    whole = (
        *columns,
        count("exchanges"),
        count("with_errors", "with errors", zero=""),
        size("request_bytes", asked),
        size("response_bytes", answered),
        share(rows, "total_bytes"),
    )
    return _ranked(title, statement, rows, whole)


def _ranked(title: str, statement: Statement, rows: Sequence[Row], columns: Sequence[Column]) -> Markup:
    if not rows:
        return block(title, statement, PARTS.nothing("There are none."))
    more = rows[0]["of_all"] - len(rows)
    note = f"The {len(rows)} with the most bytes, of {rows[0]['of_all']:,}." if more > 0 else ""
    return block(title, statement, table(rows, columns), note=note)


def _client(row: Row) -> str:
    return called(row["who"]) or "(empty client ID)"


def _broker(row: Row) -> Markup:
    return PARTS.joined(called(row["who"]), row["called"] or "")


def _number(row: Row) -> str:
    return f"run {row['run']}: {row['connection']}" if row["last_run"] else str(row["connection"])


def _ends(row: Row) -> Markup:
    ends = PARTS.styled("nowrap", f"{row['client']} → {row['broker']}")
    return PARTS.joined(ends, PARTS.styled("dim", called(row["client_id"] or "")))


CLIENTS = Section("Top talkers", "talkers", (statements.CLIENTS,), _talkers)


# ---------------------------------------------------------------- topics
def _topics(context: Context) -> Sequence[Markup]:
    partition = Column("partition", lambda row: str(row["part"]), right=True)
    parts = [
        _flow(context, "Topics", statements.TOPICS, count("partitions")),
        _flow(context, "Partitions", statements.PARTITIONS, partition),
    ]
    return [PARTS.pair(parts)]


def _flow(context: Context, title: str, statement: Statement, second: Column) -> Markup:
    rows = context.tables.rows(statement)
    columns = (
        Column("topic", lambda row: called(row["who"])),
        second,
        size("produced", "produced", zero=""),
        count("records_produced", "records", zero=""),
        size("fetched", "fetched", zero=""),
        count("records_fetched", "records", zero=""),
        size("replicated", "replicated", zero=""),
        share(rows, "total_bytes", "c2"),
    )
    return _ranked(title, statement, rows, columns)


TOPICS = Section("Topics and partitions", "topics", (statements.TOPICS, statements.PARTITIONS), _topics)
