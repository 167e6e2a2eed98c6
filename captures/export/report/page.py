"""The page: sections one after another, what is left out and why, and how to go on with the tables.

It needs no network: no script, style or picture from elsewhere, and its content policy allows none. Its one script
copies SQL. Whatever came off the wire is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from datetime import tzinfo
from hashlib import sha256
from pathlib import Path

from captures.export.group_html.markup import Markup, document, tag, together
from captures.export.report import statements
from captures.export.report.database import ReportError, Tables
from captures.export.report.health import CONNECTIONS, HEALTH
from captures.export.report.overview import FINDINGS, SUMMARY
from captures.export.report.rebalances import REBALANCES
from captures.export.report.scales import Slices, TimeAxis
from captures.export.report.section import Context, Section, nothing, shown_sql
from captures.export.report.style import STYLE
from captures.export.report.talkers import CLIENTS, TOPICS
from captures.export.report.traffic import ERRORS, LATENCY, TRAFFIC
from captures.export.report.versions import VERSIONS
from captures.faults import Faults, RaisedFaults
from captures.meaning import words
from captures.moments import Clock, zone_name

GENERATOR = "kproxy report"
"""Told in the page, so that a report can be told from other files."""

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

_SCRIPT = """
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
"""


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
        parts: list[Markup] = []
        left_out: list[str] = []
        there: list[Section] = []
        for section in _SECTIONS:
            if missing := tables.missing(section.needs):
                left_out.append(f"{section.title}: there is no {words.listed(missing)}")
                continue
            there.append(section)
            parts += [tag("h2", section.title, id=section.anchor), *_body(section, context, faults)]
        going_on = _going_on(tables)
    said = title or f"Kafka traffic in {folder.resolve().name or folder}"
    body = together(
        tag("h1", said),
        _about(context),
        _contents(there),
        *([_left_out(left_out)] if left_out else []),
        *parts,
        *going_on,
        tag("script", Markup(_SCRIPT)),
    )
    return document(said, body, STYLE, more=_policy())


def _body(section: Section, context: Context, faults: Faults | None) -> list[Markup]:
    """Return what a section says; if that fails, that it does."""
    try:
        return list(section.body(context))
    except ReportError:
        raise
    except Exception as error:
        (RaisedFaults() if faults is None else faults).note(error, f"the section {section.title}")
        return [nothing("This could not be made, by a fault of kproxy.")]


def _policy() -> Sequence[Markup]:
    script = b64encode(sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'"
    return (
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="generator", content=GENERATOR),
    )


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


def _about(context: Context) -> Markup:
    axis = context.axis
    return tag(
        "p",
        f"Times are in {zone_name(axis.begin, axis.zone)}. Numbers with # are exchanges: ",
        tag("code", "kproxy read --exchange N"),
        " with the captures of the run shows one.",
        class_="dim",
    )


def _contents(sections: Sequence[Section]) -> Markup:
    links = [tag("a", section.title, href=f"#{section.anchor}") for section in sections]
    return tag("nav", *links, tag("a", "Going on", href="#going-on"))


def _left_out(left_out: Sequence[str]) -> Markup:
    return tag(
        "div",
        tag("p", "Left out, since the folder does not have what they need:", class_="odd"),
        tag("ul", *[tag("li", each) for each in left_out]),
    )


def _going_on(tables: Tables) -> list[Markup]:
    """Return how to ask more: the views that the statements on the page read."""
    path = str(tables.folder.resolve())
    duckdb = "\n".join(f"CREATE VIEW {name} AS {tables.reading(name)};" for name in tables.names)
    spark = "\n".join(
        f"spark.read.parquet({f'{path}/{name}'!r}).createOrReplaceTempView({name!r})" for name in tables.names
    )
    return [
        tag("h2", "Going on", id="going-on"),
        nothing(
            "Every picture and table of this page was made by the SQL below it. DuckDB and Spark SQL take it as it is, "
            "once the tables are views; docs/tables.md says what is in them."
        ),
        tag("h3", "DuckDB"),
        shown_sql(duckdb, "the views"),
        tag("h3", "Spark (Python)"),
        shown_sql(spark, "the views"),
    ]
