"""Client libraries, the API versions they use, and the versions that brokers offer."""

from __future__ import annotations

from collections.abc import Sequence

from captures.export.markup import PARTS, Markup, tag
from captures.export.report import statements
from captures.export.report.database import Row
from captures.export.report.plots import HEATS, LABEL, LEFT, picture, shade
from captures.export.report.section import Column, Context, Section, block, called, count, table
from captures.meaning import words

_CELL = 30.0
_LANE = 20.0
_TOP = 22.0
_MOST_APIS = 95
_MOST_COLUMNS = 26


def _versions(context: Context) -> Sequence[Markup]:
    used = context.tables.rows(statements.VERSIONS)
    if not used:
        return [block("Versions in use", statements.VERSIONS, PARTS.nothing("No version in use was seen."))]
    return [_matrix(used), _libraries(context), *_warnings(context)]


def _matrix(rows: Sequence[Row]) -> Markup:
    """Return the picture: a lane per API, a cell per version."""
    apis: dict[str, list[Row]] = {}
    for row in rows:
        apis.setdefault(row["api"], []).append(row)
    shown = dict(list(apis.items())[:_MOST_APIS])
    most = max(int(row["exchanges"]) for row in rows)
    last = min(
        max(max(row["version"], row["offered_max"] or 0) for cells in shown.values() for row in cells),
        _MOST_COLUMNS - 1,
    )
    parts = [
        tag("text", str(version), x=LEFT + version * _CELL + _CELL / 2, y=_TOP - 8, class_="time")
        for version in range(last + 1)
    ]
    for at, (api, cells) in enumerate(shown.items()):
        parts += _lane(api, cells, _TOP + at * _LANE, most)
    drawn = picture(parts, _TOP + len(shown) * _LANE + 8, "API versions in use and offered")
    keys = [
        ("offer", "offered by brokers, not used"),
        ("heat1", "seldom used"),
        (f"heat{HEATS - 1}", "often used"),
    ]
    note = (
        "One lane for each API, one cell for each version; the number in a cell is how many clients use it."
    )
    undrawn = [words.counted(len(apis) - len(shown), "API")] if len(apis) > len(shown) else []
    if beyond := sum(not 0 <= row["version"] < _MOST_COLUMNS for row in rows):
        undrawn.append(f"{words.counted(beyond, 'version')} outside of 0 to {_MOST_COLUMNS - 1}")
    if undrawn:
        note += f" Not drawn: {words.listed(undrawn)}."
    return block("Versions in use", statements.VERSIONS, drawn, PARTS.legend(keys), note=note)


def _lane(api: str, rows: Sequence[Row], top: float, most: int) -> list[Markup]:
    parts = [tag("text", words.clipped(api, LABEL), x=LEFT - 8, y=top + _LANE / 2 + 4, class_="label")]
    low = min((row["offered_min"] for row in rows if row["offered_min"] is not None), default=None)
    high = max((row["offered_max"] for row in rows if row["offered_max"] is not None), default=None)
    if low is not None and high is not None:
        parts += [
            _cell(version, top, "offer", f"{api} v{version}: offered")
            for version in range(max(low, 0), min(high, _MOST_COLUMNS - 1) + 1)
        ]
    for row in rows:
        if 0 <= row["version"] < _MOST_COLUMNS:
            count = int(row["exchanges"])
            at = shade(max(count, 1), most)
            clients = words.counted(row["clients"], "client")
            title = f"{api} v{row['version']}: {words.counted(count, 'exchange')}, {clients}"
            parts.append(_cell(row["version"], top, f"heat{at}", title))
            x = LEFT + row["version"] * _CELL + _CELL / 2
            text = f"{row['clients']:,}" if row["clients"] < 1000 else "999+"
            parts.append(tag("text", text, x=x, y=top + _LANE / 2 + 3.5, class_=f"on on{at}"))
    return parts


def _cell(version: int, top: float, colour: str, title: str) -> Markup:
    return tag(
        "rect",
        tag("title", title),
        x=LEFT + version * _CELL + 1,
        y=top + 1,
        width=_CELL - 2,
        height=_LANE - 2,
        rx=2.0,
        class_=colour,
    )


def _libraries(context: Context) -> Markup:
    rows = context.tables.rows(statements.LIBRARIES)
    columns = (
        Column("library", lambda row: called(row["library_name"]) + " (a broker)" * bool(row["is_broker"])),
        Column("release", lambda row: called(row["release_name"])),
        count("clients"),
        count("exchanges"),
        Column("for example", lambda row: called(row["client_example"])),
    )
    return block("Client libraries", statements.LIBRARIES, table(rows, columns), PARTS.not_shown(rows))


def _warnings(context: Context) -> Sequence[Markup]:
    rows = context.tables.rows(statements.WARNINGS)
    if not rows:
        return []
    columns = (
        Column("what will not go well", lambda row: words.line(row["warning"])),
        count("clients"),
        count("exchanges"),
        Column("for example", lambda row: f"{called(row['client_example'])}, {row['api_example']}"),
    )
    return [block("Warnings", statements.WARNINGS, table(rows, columns), PARTS.not_shown(rows))]


_STATEMENTS = statements.VERSIONS, statements.LIBRARIES, statements.WARNINGS
VERSIONS = Section("Versions", "versions", _STATEMENTS, _versions)
