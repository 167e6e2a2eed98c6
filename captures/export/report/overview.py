"""The beginning of a report: what was read, when, what is missing; and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from captures.export.group_html.markup import Markup, tag
from captures.export.report import statements
from captures.export.report.database import Row
from captures.export.report.inputs import inputs
from captures.export.report.scales import amount
from captures.export.report.section import Context, Section, block, evidence, not_shown, nothing
from captures.meaning import words
from captures.moments import clock, day, span, zone_name

_SEVERITIES = ("high", "medium", "low", "info")
_SHOWN = 10
"""Findings that are told at once; the others are folded away where they are more than a few."""
_FEW = 3


# ---------------------------------------------------------------- summary
def _summary(context: Context) -> Sequence[Markup]:
    parts: list[Markup] = []
    if not context.tables.missing(statements.SUMMARY.needs):
        ran = [statements.SUMMARY]
        if not context.tables.missing(statements.LOST.needs):
            ran.append(statements.LOST)
        found = {name: value for each in ran for name, value in context.tables.rows(each)[0].items()}
        parts.append(block("In figures", ran, _figures(context, found)))
    return [*parts, *inputs(context.tables.folder)]


def _figures(context: Context, row: Row) -> Markup:
    if not row["exchanges"]:
        return nothing("The table of exchanges is empty.")
    first, last = row["first_ns"], row["last_ns"]
    zone = context.axis.zone
    took = max(last - first, 1)
    rate = amount(row["exchanges"] / took * 1e9)
    when = f"{day(first, zone)} {clock(first, zone)} to {day(last, zone)} {clock(last, zone)}"
    ids, brokers = words.counted(row["client_ids"], "client ID"), words.counted(row["brokers"], "broker")
    facts: list[tuple[str, str, str]] = [
        ("time", f"{when} {zone_name(first, zone)}, {span(took)}", ""),
        ("exchanges", f"{row['exchanges']:,}, {rate} a second, of {words.counted(row['apis'], 'API')}", ""),
        ("frames", f"{amount(int(row['bytes']), 'B')} of requests and responses", ""),
        ("records", "" if row["records"] is None else f"{int(row['records']):,}", ""),
        ("between", f"{ids} and {brokers}, on {words.counted(row['connections'], 'connection')}", ""),
        ("errors", _with_share(row["with_errors"], row["exchanges"], "exchanges with an error"), "trouble"),
        ("missing", _missing(row), "odd"),
    ]
    return tag(
        "dl",
        *[
            part
            for title, text, tone in facts
            if text
            for part in (tag("dt", title), tag("dd", text, class_=tone or None))
        ],
    )


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
    told = [f"{count:,} {what}" for count, what in parts if count]
    return words.listed([*told, *[f"{amount(int(count), 'B')} {what}" for count, what in bytes_ if count]])


SUMMARY = Section("Summary", "summary", {}, _summary)


# ---------------------------------------------------------------- findings
def _findings(context: Context) -> Sequence[Markup]:
    rows = context.tables.rows(statements.FINDINGS)
    if not rows:
        return [block("What is wrong", statements.FINDINGS, nothing("Nothing was found wrong."))]
    several = any(row["run"] for row in rows)
    told = [_finding(context, row, several=several) for row in rows]
    if len(told) > _SHOWN + _FEW:
        summary = tag("summary", f"{len(told) - _SHOWN:,} more: ", *_counts(rows[_SHOWN:]), class_="counts")
        told = [*told[:_SHOWN], tag("details", summary, *told[_SHOWN:])]
    return [
        block(
            "What is wrong, the gravest first",
            statements.FINDINGS,
            tag("p", *_counts(rows), class_="counts"),
            *told,
            *not_shown(rows),
        )
    ]


def _counts(rows: Sequence[Row]) -> list[Markup]:
    counts = {each: sum(row["severity"] == each for row in rows) for each in _SEVERITIES}
    return [
        tag("span", f"{count} {each}", class_=f"severity {each}") for each, count in counts.items() if count
    ]


def _finding(context: Context, row: Row, *, several: bool) -> Markup:
    doubt = "" if row["certainty"] == "observed" else f", {row['certainty']}"
    first, last = context.clock(row["time_ns"]), context.clock(row["last_ns"])
    when = first if first == last else f"{first} to {last}"
    facts = [
        ("when", when if row["seen"] == 1 else f"{when}, seen {words.counted(row['seen'], 'time')}"),
        ("advice", row["advice"]),
        ("evidence", evidence(row, several=several)),
    ]
    filtered = [tag("dt", "filter"), tag("dd", tag("code", row["filter_text"]))] if row["filter_text"] else []
    return tag(
        "article",
        tag(
            "h4",
            tag("span", row["severity"], class_=f"severity {row['severity']}"),
            f" {row['subject']} ",
            tag("span", f"{row['rule']}{doubt}", class_="dim"),
        ),
        tag("p", row["sentence"]),
        tag(
            "dl",
            *[part for title, text in facts if text for part in (tag("dt", title), tag("dd", text))],
            *filtered,
        ),
        class_=f"finding {row['severity']}",
    )


FINDINGS = Section("Findings", "findings", statements.FINDINGS.needs, _findings)
