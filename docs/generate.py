"""Writes the reference pages that come from the code. Run: ``python -m docs.generate``; a test holds them to it."""

from __future__ import annotations

from pathlib import Path

from captures.exchanges import columns
from captures.filters import reference

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


def pages() -> dict[str, str]:
    """Return the text of each generated page by file name."""
    return {
        "columns.md": f"{COLUMNS}\n\n{columns.reference()}\n",
        "filters.md": f"{FILTERS}\n\n{reference().rstrip()}\n",
    }


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    main()
