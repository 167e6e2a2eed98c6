"""The start of a report: what was read, when, and what is missing; then the findings."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.groups.facts import Fact, Tone
from captures.export.markup import PARTS, Markup
from captures.export.report import statements
from captures.export.report.database import Row
from captures.export.report.inputs import inputs
from captures.export.report.scales import amount
from captures.export.report.section import Context, Section, block, evidence
from captures.meaning import words
from captures.time_format import clock, day, span, zone_name

_SEVERITIES = ("high", "medium", "low", "info")
_SHOWN = 10
"""Findings that are shown unfolded; the others are folded away if there are many more."""
_FEW = 3


# ---------------------------------------------------------------- summary
def _summary(context: Context) -> Sequence[Markup]:
    parts: list[Markup] = []
    if not context.tables.missing(statements.SUMMARY):
        ran = [statements.SUMMARY]
        if not context.tables.missing(statements.LOST):
            ran.append(statements.LOST)
        found = {name: value for each in ran for name, value in context.tables.rows(each)[0].items()}
        parts.append(block("In figures", ran, _figures(context, found)))
    return [*parts, *inputs(context.tables.folder)]


def _figures(context: Context, row: Row) -> Markup:
    if not row["exchanges"]:
        return PARTS.nothing("The table of exchanges is empty.")
    first, last = row["first_ns"], row["last_ns"]
    zone = context.axis.zone
    took = max(last - first, 1)
    rate = amount(row["exchanges"] / took * 1e9)
    when = f"{day(first, zone)} {clock(first, zone)} to {day(last, zone)} {clock(last, zone)}"
    ids, brokers = words.counted(row["client_ids"], "client ID"), words.counted(row["brokers"], "broker")
    facts = [
        Fact("time", f"{when} {zone_name(first, zone)}, {span(took)}"),
        Fact("exchanges", f"{row['exchanges']:,}, {rate} a second, of {words.counted(row['apis'], 'API')}"),
        Fact("frames", f"{amount(int(row['bytes']), 'B')} of requests and responses"),
        Fact("records", "" if row["records"] is None else f"{int(row['records']):,}"),
        Fact("between", f"{ids} and {brokers}, on {words.counted(row['connections'], 'connection')}"),
        Fact(
            "errors",
            _with_share(row["with_errors"], row["exchanges"], "exchanges with an error"),
            Tone.TROUBLE,
        ),
        Fact("missing", _missing(row), Tone.ODD),
    ]
    return PARTS.facts(facts)


def _with_share(count: int, of_all: int, what: str) -> str:
    if not count:
        return ""
    percent = 100 * count / of_all
    return f"{count:,} {what} ({f'{percent:.2g}' if percent < 10 else f'{percent:.0f}'}%)"


def _missing(row: Row) -> str:
    parts = [
        (row["unanswered"], "without an answer"),
        (row["orphans"], "answered without their request"),
        (row["undecoded"], "not decoded in whole"),
    ]
    bytes_ = [(row.get("lost"), "not captured"), (row.get("cut"), "cut by the snapshot length")]
    texts = [f"{count:,} {what}" for count, what in parts if count]
    return words.listed([*texts, *[f"{amount(int(count), 'B')} {what}" for count, what in bytes_ if count]])


SUMMARY = Section("Summary", "summary", (), _summary)


# ---------------------------------------------------------------- findings
def _findings(context: Context) -> Sequence[Markup]:
    rows = context.tables.rows(statements.FINDINGS)
    if not rows:
        return [block("What is wrong", statements.FINDINGS, PARTS.nothing("Nothing was found wrong."))]
    several = any(row["run"] for row in rows)
    items = [_finding(context, row, several=several) for row in rows]
    few = _SHOWN if len(items) > _SHOWN + _FEW else len(items)
    shown = PARTS.findings(items[:few], items[few:], _counts(rows), _counts(rows[few:]))
    return [block("What is wrong, the gravest first", statements.FINDINGS, shown, PARTS.not_shown(rows))]


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    return {each: sum(row["severity"] == each for row in rows) for each in _SEVERITIES}


def _finding(context: Context, row: Row, *, several: bool) -> Markup:
    doubt = "" if row["certainty"] == "observed" else f", {row['certainty']}"
    first, last = context.clock(row["time_ns"]), context.clock(row["last_ns"])
    when = first if first == last else f"{first} to {last}"
    facts = [
        ("when", when if row["seen"] == 1 else f"{when}, seen {words.counted(row['seen'], 'time')}"),
        ("advice", row["advice"]),
        ("evidence", evidence(row, several=several)),
    ]
    return PARTS.finding(row, doubt, facts)


FINDINGS = Section("Findings", "findings", (statements.FINDINGS,), _findings)
