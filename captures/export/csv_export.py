"""Exchanges as CSV (RFC 4180): a header line, then a line per exchange.

Times are RFC 3339 in UTC with nanoseconds, lists are joined by spaces, missing values are empty. Texts come from the
wire: their control characters are replaced. Text that a spreadsheet would take for a formula gets a leading apostrophe,
so that it stays text (https://owasp.org/www-community/attacks/CSV_Injection).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from io import StringIO
from typing import Any, TextIO

from captures.exchanges import Exchange, rfc3339
from captures.exchanges.exchange_block import ExchangeBlock
from captures.export.columns import COLUMNS, PLAIN, Column, Kind, choose
from captures.faults import RAISED, Faults
from dissectors.printable import printable, printable_json

_SHORT = 256
"""Characters of the longest text whose rendering is cached."""
_LONG = 1 << 20
"""Characters from which on a cell is written in pieces."""
# The start of a formula, after what spreadsheets strip; tabs and line ends may start another cell.
_FORMULA = re.compile("[\\s\"'\0]*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r]")


def write_csv(
    exchanges: Iterable[Exchange | ExchangeBlock],
    file: TextIO,
    columns: Iterable[Column] = choose(PLAIN, COLUMNS),
    faults: Faults = RAISED,
) -> int:
    """Write exchanges; return how many.

    :param file: opened with ``newline=""``
    :param faults: collects exchanges that could not be written because of a bug; without it, the error is raised
    """
    chosen = tuple(columns)
    file.write(csv_header(chosen))
    count = 0
    for text, rows in csv_pieces(exchanges, chosen, faults):
        file.write(text)
        count += rows
    return count


def csv_header(columns: Iterable[Column]) -> str:
    """Return the header line."""
    line = StringIO(newline="")
    csv.writer(line).writerow([column.name for column in columns])
    return line.getvalue()


def csv_pieces(
    exchanges: Iterable[Exchange | ExchangeBlock], columns: Iterable[Column], faults: Faults = RAISED
) -> Iterator[tuple[str, int]]:
    """Yield CSV text and the number of exchanges that it completes: several lines at a time, or a part of a long one.

    :param faults: as for :func:`write_csv`
    """
    chosen = tuple(columns)
    bodies = [index for index, column in enumerate(chosen) if column.kind == "json"]
    cells = [(column, _SHOWN.get(column.kind)) for column in chosen]
    text = StringIO(newline="")
    lines = csv.writer(text)
    count = 0
    for exchange in exchanges:
        if isinstance(exchange, ExchangeBlock):
            try:
                values = [column.values(exchange, shown) for column, shown in cells]
            except Exception:  # one by one, so that only the exchange that fails is left out
                yield from csv_pieces(exchange.exchanges(), chosen, faults)
                continue
            block = StringIO(newline="")
            csv.writer(block).writerows(zip(*values, strict=True))
            yield block.getvalue(), len(exchange)
            continue
        try:
            row = [
                column.value(exchange) if shown is None else shown(column.value(exchange))
                for column, shown in cells
            ]
        except Exception as error:
            faults.note(error, "writing it as CSV", exchange.number)
            continue
        count += 1
        if any(len(row[index]) > _LONG for index in bodies):
            yield text.getvalue(), count - 1
            for part in _long_row(row):
                yield part, 0
            text, count = StringIO(newline=""), 1
            lines = csv.writer(text)
        else:
            lines.writerow(row)
        del row  # a body may have hundreds of megabytes, and would be kept while the next one is decoded
        if text.tell() >= _LONG:
            yield text.getvalue(), count
            text, count = StringIO(newline=""), 0
            lines = csv.writer(text)
    yield text.getvalue(), count


def _long_row(row: Iterable[Any]) -> Iterator[str]:
    """Yield a row with long cells piece by piece: for whole rows the csv module takes four bytes per character."""
    for number, cell in enumerate(row):
        if number:
            yield ","
        if not isinstance(cell, str) or len(cell) <= _LONG:
            alone = StringIO(newline="")
            csv.writer(alone, lineterminator="").writerow([cell])
            yield alone.getvalue()
            continue
        yield '"'
        for begin in range(0, len(cell), _LONG):
            yield cell[begin : begin + _LONG].replace('"', '""')
        yield '"'
    yield "\r\n"


def _text(text: str | None) -> str:
    """Return the text on one line and escaped, so that no spreadsheet takes it for a formula; empty for None."""
    if not text:
        return ""
    return _known_text(text) if len(text) <= _SHORT else _one_line(text)


def _one_line(text: str) -> str:
    shown = " ".join(map(printable, text.split("\n")))
    return f"'{shown}" if _FORMULA.match(text) else shown


_known_text = lru_cache(4096)(_one_line)
"""Cached, because addresses, names and flags repeat."""

_SHOWN: dict[Kind, Callable[[Any], str]] = {
    "time": rfc3339,
    "bool": lambda value: "true" if value else "false",
    "texts": lambda value: _text(" ".join(value)) if value else "",
    "text": _text,
    "json": lambda value: "" if value is None else printable_json(value),
}
"""How values are rendered, for the kinds that are not written as they are."""
