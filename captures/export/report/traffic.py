"""Traffic over time by API, the latency of brokers, and errors over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from captures.export.markup import PARTS, Markup
from captures.export.report import statements
from captures.export.report.database import Row, Statement
from captures.export.report.plots import HEATS, Series, heat, lines, shade_from, stacked, whole
from captures.export.report.scales import amount
from captures.export.report.section import (
    Column,
    Context,
    Section,
    block,
    coloured,
    count,
    duration,
    share,
    table,
)
from dissectors.units import SECOND

_RATES = ((1, "second", "s"), (60, "minute", "min"), (3600, "hour", "h"), (86_400, "day", "d"))
_MOST_STEPS = 40
_LATENCY_NOTE = (
    "From the last byte of a request to the first byte of its response, less what Kafka waits by design. Exchanges "
    "that only waited are left out. Percentiles are at most 2.4% too long."
)


def series_of(
    rows: Sequence[Row],
    name: str,
    value: str,
    colours: Mapping[str, str],
    rate: Callable[[Row], float] | None = None,
) -> list[Series]:
    """Return series for a picture from rows by slice and name.

    :param rate: returns the factor of a row's amount
    """
    made: dict[str, dict[int, float]] = {each: {} for each in colours}
    for row in rows:
        factor = 1.0 if rate is None else rate(row)
        made.setdefault(row[name], {})[row["slice_ns"]] = int(row[value]) * factor
    return [Series(each, colours.get(each, "rest"), values) for each, values in made.items() if values]


def keys_of(series: Sequence[Series]) -> list[tuple[str, str]]:
    """Return the keys of a legend, the topmost series first."""
    return [(one.colour, one.name) for one in reversed(series)]


# ---------------------------------------------------------------- by API
def _traffic(context: Context) -> Sequence[Markup]:
    statement = statements.traffic(context.slices.width)
    rows = context.tables.rows(statement)
    if not rows:
        return [PARTS.nothing("There are no exchanges.")]
    colours = coloured(rows, "api_name", "exchanges")
    return [
        _stacked(context, "Exchanges", "", statement, rows, "exchanges", colours),
        _stacked(context, "Bytes", "B", statement, rows, "bytes", colours),
    ]


def _stacked(
    context: Context,
    what: str,
    unit: str,
    statement: Statement,
    rows: Sequence[Row],
    value: str,
    colours: Mapping[str, str],
) -> Markup:
    """Return amounts by API, per the shortest unit of time in which the highest rate is at least 1.

    :param unit: unit of the amounts
    """

    def rate(row: Row) -> float:
        low, high = context.slices.covered(row["slice_ns"])
        return SECOND / (high - low)

    most = max(int(row[value]) * rate(row) for row in rows)
    seconds, time, short = next((each for each in _RATES if most * each[0] >= 1), _RATES[-1])
    found = series_of(rows, "api_name", value, colours, lambda row: seconds * rate(row))
    title = f"{what} a {time} by API"
    drawn = stacked(context.axis, context.slices, found, partial(amount, unit=f"{unit}/{short}"), about=title)
    return block(
        title, statement, drawn, PARTS.legend(keys_of(found)), note=f"In slices of {context.slices.words}."
    )


TRAFFIC = Section("Traffic", "traffic", (statements.traffic(1),), _traffic)


# ---------------------------------------------------------------- latency
def _latency(context: Context) -> Sequence[Markup]:
    statement = statements.latency(context.slices.width)
    rows = context.tables.rows(statement)
    if not rows:
        return [PARTS.nothing("No exchange was answered, apart from those that only waited by design.")]
    series = [
        Series(title, colour, {row["slice_ns"]: float(row[name]) for row in rows})
        for title, colour, name in (
            ("longest", "c6", "longest_ns"),
            ("99%", "c1", "p99_ns"),
            ("95%", "c3", "p95_ns"),
            ("median", "c0", "p50_ns"),
        )
    ]
    title = "How long brokers took to answer"
    drawn = lines(context.axis, context.slices, series, about=f"{title}: percentiles over time")
    keys = [(each.colour, each.name) for each in series]
    note = f"{_LATENCY_NOTE} In slices of {context.slices.words}; logarithmic."
    return [
        block(title, statement, drawn, PARTS.legend(keys), note=note),
        _heat_map(context, min(row["shortest_ns"] for row in rows), max(row["longest_ns"] for row in rows)),
        _by_api(context),
    ]


def _heat_map(context: Context, least: int, most: int) -> Markup:
    powers = len(str(max(most, 1))) - len(str(max(least, 1))) + 1
    steps = min(max(_MOST_STEPS // powers, 2), 10)
    statement = statements.heat(context.slices.width, steps)
    cells = {(row["slice_ns"], row["step"]): row["exchanges"] for row in context.tables.rows(statement)}

    def bounds(step: int) -> tuple[float, float]:
        return 10 ** (step / steps), 10 ** ((step + 1) / steps)

    title = "Heat map of the same"
    drawn = heat(
        context.axis, context.slices, cells, bounds, about="How many exchanges took how long, over time"
    )
    highest = max(cells.values())
    from_ = {at: shade_from(at, highest) for at in range(HEATS)}
    keys = [
        (f"heat{at}", f"{count:,}{'+' if at == HEATS - 1 and count < highest else ''}")
        for at, count in from_.items()
        if at == HEATS - 1 or count < from_[at + 1]
    ]
    note = "Each cell is a slice of time and a range of latency; its shade is how many exchanges are in it, at least."
    return block(title, statement, drawn, PARTS.legend(keys), note=note)


def _by_api(context: Context) -> Markup:
    statement = statements.latency_by_api()
    rows = context.tables.rows(statement)
    columns = (
        Column("API", lambda row: row["api"]),
        count("exchanges"),
        duration("p50_ns", "median"),
        duration("p95_ns", "95%"),
        duration("p99_ns", "99%"),
        duration("longest_ns", "longest"),
        duration("spent_ns", "in all"),
        share(rows, "spent_ns"),
    )
    return block("The same by API", statement, table(rows, columns), PARTS.not_shown(rows))


_LATENCIES = statements.latency(1), statements.heat(1, 1), statements.latency_by_api()
LATENCY = Section("Latency", "latency", _LATENCIES, _latency)


# ---------------------------------------------------------------- errors
def _errors(context: Context) -> Sequence[Markup]:
    statement = statements.errors(context.slices.width)
    rows = context.tables.rows(statement)
    if not rows:
        return [
            block(
                "Errors over time",
                statement,
                PARTS.nothing("No error, apart from those of a normal conversation."),
            )
        ]
    colours = coloured(rows, "error_name", "exchanges")
    series = series_of(rows, "error_name", "exchanges", colours)
    drawn = stacked(context.axis, context.slices, series, whole, about="Exchanges with errors over time")
    note = (
        f"Exchanges in {context.slices.words} with an error that does not belong to a normal conversation. One with "
        "several errors counts for each."
    )
    return [
        block("Errors over time", statement, drawn, PARTS.legend(keys_of(series)), note=note),
        _error_table(context),
    ]


def _error_table(context: Context) -> Markup:
    rows = context.tables.rows(statements.ERROR_TABLE)
    several = any(row["run"] for row in rows)
    columns = (
        Column("error", lambda row: row["error"]),
        Column("API", lambda row: row["api"]),
        count("exchanges"),
        share(rows, "exchanges", "c1"),
        count("clients"),
        Column("first", lambda row: context.clock(row["first_ns"])),
        Column("last", lambda row: context.clock(row["last_ns"])),
        Column("first seen in", lambda row: f"run {row['run']}: " * several + f"#{row['number']}"),
    )
    return block("Errors by API", statements.ERROR_TABLE, table(rows, columns), PARTS.not_shown(rows))


ERRORS = Section("Errors", "errors", (statements.errors(1), statements.ERROR_TABLE), _errors)
