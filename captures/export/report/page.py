"""The page: its sections, what is left out and why, and how to query the tables further.

The page needs no network: it has no external script, style or picture, and its content security policy allows none. Its
only script copies SQL. All text off the wire is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import tzinfo
from hashlib import sha256
from pathlib import Path

from captures.export.markup import PARTS, Markup, page, source
from captures.export.report import statements
from captures.export.report.database import ReportError, Tables
from captures.export.report.health import CONNECTIONS, HEALTH
from captures.export.report.overview import FINDINGS, SUMMARY
from captures.export.report.rebalances import REBALANCES
from captures.export.report.scales import Slices, TimeAxis
from captures.export.report.section import Context, Section
from captures.export.report.talkers import CLIENTS, TOPICS
from captures.export.report.traffic import ERRORS, LATENCY, TRAFFIC
from captures.export.report.versions import VERSIONS
from captures.faults import RAISED, Faults
from captures.meaning import words
from captures.time_format import Clock, zone_name

GENERATOR = "kproxy report"
"""Written into the page, so that reports can be recognised."""

_SECTIONS = (
    SUMMARY,
    FINDINGS,
    TRAFFIC,
    LATENCY,
    ERRORS,
    REBALANCES,
    CLIENTS,
    TOPICS,
    VERSIONS,
    CONNECTIONS,
    HEALTH,
)
_OVER_TIME = ("exchanges", "connections", "rebalances")
_LEAST_SPAN = 1_000_000
"""Least time in ns that a picture shows."""


def report(
    folder: Path, *, title: str | None = None, zone: tzinfo | None = None, faults: Faults = RAISED
) -> str:
    """Return a report on a folder of tables as one page.

    :param folder: as ``kproxy tables`` writes it
    :param title: title of the page; None for one that names the folder
    :param zone: time zone of the times; None is the local one
    :param faults: collects sections that could not be made because of a bug; without it, the error is raised
    :raises DuckdbMissing: if DuckDB is not installed
    :raises ReportError: if the folder has no tables, or one cannot be read
    """
    with Tables(folder) as tables:
        context = _context(tables, zone)
        left_out: list[str] = []
        sections: list[tuple[Section, list[Markup]]] = []
        for section in _SECTIONS:
            if missing := tables.missing(*section.statements):
                left_out.append(f"{section.title}: there is no {words.listed(missing)}")
            else:
                sections.append((section, _body(section, context, faults)))
        path = str(tables.folder.resolve())
        duckdb = [f"CREATE VIEW {name} AS {tables.reading(name)};" for name in tables.names]
        spark = [
            f"spark.read.parquet({f'{path}/{name}'!r}).createOrReplaceTempView({name!r})"
            for name in tables.names
        ]
    script = source("copy.js")
    return page(
        "report.html",
        title=title or f"Kafka traffic in {folder.resolve().name or folder}",
        generator=GENERATOR,
        script=Markup(script),  # ours
        script_hash=b64encode(sha256(script.encode()).digest()).decode(),
        zone=zone_name(context.axis.begin, context.axis.zone),
        sections=sections,
        left_out=left_out,
        duckdb="\n".join(duckdb),
        spark="\n".join(spark),
    )


def _body(section: Section, context: Context, faults: Faults) -> list[Markup]:
    """Return the content of a section, or a note that it failed."""
    try:
        return list(section.body(context))
    except ReportError:
        raise
    except Exception as error:
        faults.note(error, f"the section {section.title}")
        return [PARTS.nothing("This could not be made, because of an internal error in kproxy.")]


def _context(tables: Tables, zone: tzinfo | None) -> Context:
    """Return the context of the sections.

    Its time range is that of the tables drawn over time, or of all tables if these are empty.
    """
    first, last = _bounds(tables, [name for name in _OVER_TIME if name in tables.names])
    if first is None or last is None:
        first, last = _bounds(tables, list(tables.names))
    if first is None or last is None:
        first = last = 0
    slices = Slices.of(first, max(last, first + _LEAST_SPAN))
    return Context(tables, slices, TimeAxis(*slices.edges, zone), Clock.of(first, last, zone))


def _bounds(tables: Tables, names: list[str]) -> tuple[int | None, int | None]:
    if not names:
        return None, None
    rows = tables.rows(statements.bounds(names))
    firsts = [row["first_ns"] for row in rows if row["first_ns"] is not None]
    lasts = [row["last_ns"] for row in rows if row["last_ns"] is not None]
    return min(firsts, default=None), max(lasts, default=None)
