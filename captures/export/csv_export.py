"""Exchanges as CSV (RFC 4180): a header line, then a line per exchange.

Times are RFC 3339 in UTC with nanoseconds, lists are joined by spaces, what is not there is empty.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, TextIO

from captures.exchanges import Exchange, rfc3339
from captures.export.columns import PLAIN, Column, choose


def write_csv(exchanges: Iterable[Exchange], file: TextIO, columns: Iterable[Column] = choose(PLAIN)) -> int:
    """Write exchanges; return how many.

    :param file: opened with ``newline=""``
    """
    chosen = tuple(columns)
    lines = csv.writer(file)
    lines.writerow([column.name for column in chosen])
    count = 0
    for exchange in exchanges:
        lines.writerow([_cell(column, exchange) for column in chosen])
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
