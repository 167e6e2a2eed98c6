"""The page: sections one after another, what is left out and why, and how to continue with the tables.

It needs no network: no script, style or picture from elsewhere, and its content policy allows none. Its one script
copies SQL. Whatever came off the wire is escaped.
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
from captures.faults import Faults, RaisedFaults
from captures.meaning import words
from captures.time_format import Clock, zone_name

GENERATOR = "kproxy report"
"""Written into the page, so that a report can be recognised."""

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
"""ns that a picture shows at least."""


def report(
    folder: Path, *, title: str | None = None, zone: tzinfo | None = None, faults: Faults | None = None
) -> str:
    """Return a report on a folder of tables as one page.

    :param folder: as ``kproxy tables`` writes it
    :param title: of the page; None for one that names the folder
    :param zone: of the times; None is the local one
    :param faults: where to note sections that cannot be made by a fault of ours; without it, that is raised
    :raises DuckdbMissing: if there is no DuckDB
    :raises ReportError: if there is no table in it, or one cannot be read
    """
    with Tables(folder) as tables:
        context = _context(tables, zone)
        left_out: list[str] = []
        sections: list[tuple[Section, list[Markup]]] = []
        for section in _SECTIONS:
            if missing := tables.missing(section.needs):
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


def _body(section: Section, context: Context, faults: Faults | None) -> list[Markup]:
    """Return what a section says; if that fails, that it does."""
    try:
        return list(section.body(context))
    except ReportError:
        raise
    except Exception as error:
        (RaisedFaults() if faults is None else faults).note(error, f"the section {section.title}")
        return [PARTS.nothing("This could not be made, by a fault of kproxy.")]


def _context(tables: Tables, zone: tzinfo | None) -> Context:
    """Return what sections need; time is that of what is drawn over time, or of all tables where that is empty."""
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
