"""Generates the reference pages from the code, and the generated tables in other pages.

Run: ``python -m docs.generate``; a test checks that the pages are up to date. A generated table is between
``<!-- name: ... -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path

from captures.analysis.findings.reference import reference as rules_reference
from captures.exchanges import columns
from captures.filters import reference
from captures.tables.schema import reference as tables_reference
from dissectors.budget import reference as limits_reference
from docs.tools import commands, json_schemas, man, messages, performance, reactions, security, versions_seen
from docs.tools.markdown import linked
from kproxy.proxy import modes
from kproxy.proxy.rules import completion
from kproxy.tui.manual import key_sections, markdown, settings_section

DOCS = Path(__file__).parent

FILTERS = """# The filter language

`-Y/--filter` of every command that reads captures. Made by `python -m docs.generate`."""

COLUMNS = """# The columns of exchanges

`captures.exchanges.columns.ExchangeColumns`: fields of a capture's messages as numpy arrays, one element per exchange.
Made by `python -m docs.generate`.

```python
from captures.exchanges import open_capture
from captures.exchanges.columns import ExchangeColumns

capture = open_capture("kafka.pcap")
capture.read()
columns = ExchangeColumns(capture)
columns.prepare(["topics", "records"])    # both in one pass over the capture
topics = columns.ragged("topics")         # values and offsets
names = columns.texts("topics")           # the texts that its codes stand for
```

A ragged column has several values per exchange: those of row `i` are `values[offsets[i]:offsets[i + 1]]`.
`pyarrow.LargeListArray.from_arrays(offsets, values)` takes them without a copy. A missing value is the smallest int64
in an int64 column, and -1 in a column of codes. The columns of the exchange table are available by name too."""

FINDINGS = """# What `kproxy diagnose` finds

```sh
kproxy diagnose kafka.pcap                          # what is wrong, since when, what to do, and a command that shows it
kproxy diagnose --least medium --markdown kafka.pcap    # for a ticket
kproxy diagnose --fail-on high --json kafka.pcap    # for programs: docs/json-diagnose.md
kproxy diagnose --threshold heartbeat_gaps.share=90 --skip small_batches kafka.pcap
kproxy diagnose --follow /var/tmp/ring              # as problems appear, in files that are still being written
sudo kproxy sniff -w - tcp port 9092 | kproxy diagnose --follow -
sudo kproxy sniff -q --diagnose tcp port 9092       # the same in one command
kproxy proxy -b kafka1:9092 -q --diagnose           # beside the proxy; in the UI it is a view (docs/ui.md)
```

A finding says what is wrong and for whom, how severe it is, since when and how often it was seen, and what to do. It
names exchanges that show it (`kproxy read --exchange N`; with `--follow`, those of `kproxy read --follow`), and a
filter that shows all of them. If no message says so, the finding is marked: `inferred` means that it follows from the
traffic, `possible` that something else would look the same.

Rules make the findings. `--only RULE` and `--skip RULE` choose among them, `--threshold RULE.NAME=VALUE` sets a
threshold, and `--list` prints the list below. Severities:

- **high**: data is lost, duplicated or unavailable, or a client cannot work.
- **medium**: something does not work as it should, and users may notice.
- **low**: it costs resources, or may do so later.
- **info**: good to know; nothing is wrong.

The list shows the severity of most findings of a rule; single findings may differ. Write thresholds that are times as
`500ms`, `5s` or `2min`, sizes as `64KiB` or in bytes, shares in percent. A diagnosis ends with the rules that could not
judge, and what the capture lacks for them. The shape of `--json` is in [json-diagnose.md](json-diagnose.md). Made by
`python -m docs.generate`."""

TABLES = """# Tables

```sh
kproxy tables kafka.pcap -o tables                  # a capture, or many and large ones, as Parquet
duckdb -c "SELECT api, count(*) FROM read_parquet('tables/exchanges/**/*.parquet') GROUP BY ALL"
```

A folder of tables is written by `kproxy tables`, by one process or by Spark on many machines; the rows are the same.
Columns are named like the keys of [`read --json`](json.md), [`groups --json`](json-groups.md), [`diagnose
--json`](json-diagnose.md), [`stats --json`](json-stats.md) and [`api-versions --json`](api-versions.md) if they mean
the same. The schema is stable: columns are added at the end of a table, never renamed or removed, within a version of
the schema. Made by `python -m docs.generate`.

## The folder

| path | what it is |
|---|---|
| `TABLE/date=2026-11-22/hour=7/part-00000-00003.parquet` | rows with a `time` in that hour (UTC): run 0, task 3 |
| `_kproxy/run-00000.json` | the manifest of run 0 |
| `.staging-ID/` | what a run is writing; its files are moved to their places when it is done |

`date` and `hour` are columns for programs that read folders with `name=value` in their paths: Spark by default, DuckDB
with `hive_partitioning = true`, pyarrow with `partitioning="hive"`. A table without rows has one empty file. Names that
begin with `_` or `.` are skipped.

A run that fails leaves no data that is read. A run that is killed leaves its hidden folder, or files without a manifest
if it is killed while moving them. The next run removes these, so only one run may write to a folder at a time.
`--append` adds a run and skips files that an earlier run has read: it recognises them by their size and first 64 KiB,
even if they have moved; standard input is never recognised. A file that has changed since is reported and not read
again. `--overwrite` replaces all tables and manifests when the run is done.

A manifest has `run`, `schema` (version of the schema), `kproxy` (version of the program), `written` (RFC 3339, UTC),
`inputs` (`path`, `size`, `mtime_ns`, and `head`, the SHA-256 of the first 64 KiB), `tables` (by name: `rows`, and
`files` with `path`, `rows`, `bytes`), and `summary`: what the run read, lost and left out, and why.

## What holds for all tables

- `run` comes first: exchanges and connections are counted anew in each run, so that tables are joined by `run` and
  `number`, or `run` and `connection`.
- Every table has `time`, the beginning of what the row describes, and is split by it.
- A moment is a timestamp in microseconds, as Spark has it, with the nanoseconds since the epoch beside it: `time` and
  `time_ns`. Timestamps are cut off, not rounded.
- Types are written as Spark SQL does. There are no unsigned integers and no dictionaries. A column that may be null
  says so; a list is empty rather than null, unless it says so.
- `group`, `limit` and `offset` are words of SQL: with the name of the table before them (`rebalances.group`) they need
  no quotes.
- Columns of `exchanges` that need bodies take most of the time. If only others are chosen (`--columns`), nothing is
  decoded."""


LIMITS = """# Limits: what untrusted bytes may cost

Captures come from anywhere, clients and brokers send whatever they like, and a few bytes can expand to millions of
records. So the cost of a file, a connection or a message is bounded by bytes, records and objects, never by time: the
same bytes always give the same result. Work that would exceed a limit is left undecided, names the limit, and stops
nothing else: the exchange has a problem, its other fields and the headers of its batches are shown, and
[the exit code](exit-codes.md) is 3. If a filter cannot be decided for this reason, the exchange does not pass, and
kproxy reports this on standard error.

```sh
kproxy --limit message_records=5M read --json kafka.pcap    # before the command; repeatable
```

The environment variable `KPROXY_LIMITS` does the same for all commands, and for programs that use kproxy as a
library: `message_records=5M,message_bytes=1GiB`. Values are numbers, with K, M or G for powers of 1000, and KiB, MiB
or GiB for powers of 1024. Processes that kproxy starts use the same limits: the proxy's, those that read in
parallel, and Spark's. To read what was undecided, raise the limit, if there is enough memory: about 500 bytes per
record, and 100 per field. Made by `python -m docs.generate`."""


COMMANDS = """# The commands

Every command with its options, as `--help` prints them; `-h` works too. The [how-to guides](README.md#how-to-guides)
show which command solves which task; [exit-codes.md](exit-codes.md) explains the exit codes. Made by
`python -m docs.generate`."""

ERROR_CODES = """# The error codes of Kafka

The error codes in brokers' responses, and what they mean in practice. `retriable` errors are those that the Java client
considers temporary and retries by itself. `since` is the first release of Kafka that has the code. Filters use the
names: `error == NOT_LEADER_OR_FOLLOWER` ([filters.md](filters.md)). Made by `python -m docs.generate`."""


def with_tables(page: str, tables: dict[str, str]) -> str:
    """Return the text of a page with its generated tables replaced.

    :param tables: tables by the names of their markers in the page
    :raises ValueError: if a table has no marker, or a marker has no table
    """
    text = (DOCS / page).read_text()
    places = [found[1] for found in re.finditer(r"^<!-- (\w+): ", text, re.MULTILINE)]
    if sorted(places) != sorted(tables):
        raise ValueError(f"{page} has places for {places}, and there are tables for {list(tables)}")

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{tables[found[2]].strip()}\n\n{found[3]}"

    return re.sub(r"(^<!-- (\w+): [^\n]*)\n.*?(^<!-- end -->)", table, text, flags=re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Return the text of each generated page, and of each page with generated tables, by its path below ``docs``."""
    return {
        "commands.md": f"{COMMANDS}\n\n{commands.reference()}\n",
        "error-codes.md": f"{ERROR_CODES}\n\n{messages.error_codes()}\n",
        "columns.md": f"{COLUMNS}\n\n{columns.reference()}\n",
        "findings.md": f"{FINDINGS}\n\n{rules_reference()}\n",
        "tables.md": f"{TABLES}\n\n{linked(tables_reference())}\n",
        "limits.md": f"{LIMITS}\n\n{limits_reference()}\n",
        "filters.md": f"{FILTERS}\n\n{reference().rstrip()}\n",
        "ui.md": with_tables(
            "ui.md",
            {"settings": markdown([settings_section()]), "keys": markdown(key_sections([], {}))},
        ),
        "proxy.md": with_tables("proxy.md", {"modes": modes.reference()}),
        "faults.md": with_tables("faults.md", completion.reference()),
        "versions-seen.md": versions_seen.page(versions_seen.load()),
        reactions.PAGE: reactions.page(),
        json_schemas.PAGE: with_tables(json_schemas.PAGE, {"schemas": json_schemas.overview()}),
        **json_schemas.pages(),
        security.PAGE: with_tables(security.PAGE, security.tables(security.load())),
        **performance.pages(),
        **messages.pages(),
        **man.pages(),
    }


def main() -> None:
    """Write the pages, and remove generated pages whose API or command no longer exists."""
    made = pages()
    for name, text in made.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text)
    for page in [*DOCS.glob("apis/*.md"), *DOCS.glob("man/*.1"), *DOCS.glob("schemas/*.json")]:
        if page.relative_to(DOCS).as_posix() not in made:
            page.unlink()


if __name__ == "__main__":
    main()
