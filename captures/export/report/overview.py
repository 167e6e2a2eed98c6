"""The beginning of a report: what was read, when, what is missing; and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from captures.export.group_html.markup import Markup, tag, together
from captures.export.report import statements
from captures.export.report.database import Row
from captures.export.report.inputs import Run, runs_of
from captures.export.report.scales import amount
from captures.export.report.section import Context, Section, block, evidence, nothing
from captures.meaning import words
from captures.moments import clock, day, span, zone_name

_SEVERITIES = ("high", "medium", "low", "info")
_MOST_INPUTS = 12


# ---------------------------------------------------------------- summary
def _summary(context: Context) -> Sequence[Markup]:
    runs = runs_of(context.tables.folder)
    parts: list[Markup] = []
    if not context.tables.missing(statements.SUMMARY.needs):
        ran = [statements.SUMMARY]
        if not context.tables.missing(statements.LOST.needs):
            ran.append(statements.LOST)
        found = {name: value for each in ran for name, value in context.tables.rows(each)[0].items()}
        parts.append(block("In figures", ran, _figures(context, found)))
    if runs:
        parts.append(tag("figure", tag("h3", "What was read"), _runs(runs)))
    return parts


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
        ("errors", _with_share(row["with_errors"], row["exchanges"], "with an error"), "trouble"),
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
    return (
        f"{count:,} exchanges {what} ({percent:.2g}%)"
        if percent < 10
        else f"{count:,} {what} ({percent:.0f}%)"
    )


def _missing(row: Row) -> str:
    parts = [
        (row["unanswered"], "without an answer"),
        (row["orphans"], "answered without their request"),
        (row["damaged"], "with bytes lost"),
        (row["undecoded"], "not decoded in whole"),
    ]
    bytes_ = [(row.get("lost"), "not captured"), (row.get("cut"), "cut by the snapshot length")]
    told = [f"{count:,} {what}" for count, what in parts if count]
    return words.listed([*told, *[f"{amount(int(count), 'B')} {what}" for count, what in bytes_ if count]])


def _runs(runs: Sequence[Run]) -> Markup:
    return together(*[_run(run) for run in runs])


def _run(run: Run) -> Markup:
    shown = [
        tag("li", tag("code", each.path), f" {each.size}" if each.size else "")
        for each in run.inputs[:_MOST_INPUTS]
    ]
    rest = len(run.inputs) - len(shown)
    if rest > 0:
        shown.append(tag("li", f"and {words.counted(rest, 'more file')}"))
    return together(
        tag(
            "p",
            f"Run {run.number}: ",
            words.counted(len(run.inputs), "file"),
            *[f", {each}" for each in run.told],
        ),
        tag("ul", *shown),
        *[tag("p", each, class_="odd") for each in run.missing],
    )


SUMMARY = Section("Summary", "summary", {}, _summary)


# ---------------------------------------------------------------- findings
def _findings(context: Context) -> Sequence[Markup]:
    rows = context.tables.rows(statements.FINDINGS)
    if not rows:
        return [block("What is wrong", statements.FINDINGS, nothing("Nothing was found wrong."))]
    several = len({row["run"] for row in rows}) > 1 or any(row["run"] for row in rows)
    counts = [
        tag("span", f"{sum(row['severity'] == each for row in rows)} {each}", class_=f"severity {each}")
        for each in _SEVERITIES
        if any(row["severity"] == each for row in rows)
    ]
    more = rows[0]["of_all"] - len(rows)
    return [
        block(
            "What is wrong, the gravest first",
            statements.FINDINGS,
            tag("p", *counts, class_="counts"),
            *[_finding(context, row, several=several) for row in rows],
            *([nothing(f"{more:,} more are not shown.")] if more > 0 else []),
        )
    ]


def _finding(context: Context, row: Row, *, several: bool) -> Markup:
    doubt = "" if row["certainty"] == "observed" else f", {row['certainty']}"
    first, last = context.clock(row["time_ns"]), context.clock(row["last_ns"])
    when = first if first == last else f"{first} to {last}"
    facts = [
        ("when", f"{when}, seen {words.counted(row['seen'], 'time')}"),
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
