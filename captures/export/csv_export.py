"""Exchanges as CSV (RFC 4180): a header line, then a line per exchange.

Times are RFC 3339 in UTC with nanoseconds, lists are joined by spaces, what is not there is empty.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, TextIO

from captures.exchanges import Exchange, rfc3339
from captures.export.columns import PLAIN, Column, choose
from captures.faults import Faults, Uncontained


def write_csv(
    exchanges: Iterable[Exchange],
    file: TextIO,
    columns: Iterable[Column] = choose(PLAIN),
    faults: Faults | None = None,
) -> int:
    """Write exchanges; return how many.

    :param file: opened with ``newline=""``
    :param faults: where to note what cannot be written by a fault of ours; without it, that is raised
    """
    faults = Uncontained() if faults is None else faults
    chosen = tuple(columns)
    lines = csv.writer(file)
    lines.writerow([column.name for column in chosen])
    count = 0
    for exchange in exchanges:
        try:
            row = [_cell(column, exchange) for column in chosen]
        except Exception as error:
            faults.note(error, "writing it as CSV", exchange.number)
            continue
        lines.writerow(row)
        count += 1
    return count


def _cell(column: Column, exchange: Exchange) -> Any:
    value = column.value(exchange)
    if value is None:
        return ""
    match column.kind:
        case "time":
            return rfc3339(value)
        case "bool":
            return "true" if value else "false"
        case "texts":
            return " ".join(value)
        case _:
            return value
