"""Writes the reference pages that come from the code, and the tables in others that do.

Run: ``python -m docs.generate``; a test holds them to it. A table stands between ``<!-- name: ... -->`` and
``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path

from captures.exchanges import columns
from captures.filters import reference
from kproxy.tui.manual import key_sections, markdown, settings_section

DOCS = Path(__file__).parent

FILTERS = """# The filter language

`-Y/--filter` of every command that reads captures. Made by `python -m docs.generate`."""

COLUMNS = """# The columns of exchanges

`captures.exchanges.columns.ExchangeColumns`: what the messages of a capture say, as numpy arrays, one element for each
exchange. Made by `python -m docs.generate`.

```python
from captures.exchanges import open_capture
from captures.exchanges.columns import ExchangeColumns

capture = open_capture("kafka.pcap")
capture.read()
columns = ExchangeColumns(capture)
columns.prepare(["topics", "records"])    # both in one pass over the capture
topics = columns.ragged("topics")         # values and offsets
names = columns.texts("topics")           # what its values are codes of
```

A ragged column has several values for each exchange: those of number `i` are `values[offsets[i]:offsets[i + 1]]`, which
`pyarrow.LargeListArray.from_arrays(offsets, values)` takes without a copy. Where there is no value, a column of int64
has the smallest int64, and one of codes -1. The columns of the exchange table are there by name too."""


def with_tables(page: str, tables: dict[str, str]) -> str:
    """Return the text of a page with its tables as they are now.

    :param tables: by the names at their places
    :raises ValueError: if a table has no place, or a place no table
    """
    text = (DOCS / page).read_text()
    places = [found[1] for found in re.finditer(r"^<!-- (\w+): ", text, re.MULTILINE)]
    if sorted(places) != sorted(tables):
        raise ValueError(f"{page} has places for {places}, and there are tables for {list(tables)}")

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{tables[found[2]].strip()}\n\n{found[3]}"

    return re.sub(r"(^<!-- (\w+): [^\n]*)\n.*?(^<!-- end -->)", table, text, flags=re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Return the text of each page that is generated, or has tables that are, by file name."""
    return {
        "columns.md": f"{COLUMNS}\n\n{columns.reference()}\n",
        "filters.md": f"{FILTERS}\n\n{reference().rstrip()}\n",
        "ui.md": with_tables(
            "ui.md",
            {"settings": markdown([settings_section()]), "keys": markdown(key_sections([], {}))},
        ),
    }


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    main()
