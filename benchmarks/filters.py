"""How long filters take on the columns of a million exchanges: ``python -m benchmarks.filters``.

``first`` is with a new :class:`~captures.filters.TableColumns`, which has to copy the columns out of the table;
``again`` is with one that has been used, as when a filter is changed while typing.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns

import numpy as np

from captures.exchanges import ExchangeTable, Flag
from captures.filters import Filter, TableColumns, compile_filter

ROWS = 1_000_000
CONNECTIONS = 2_000
ROUNDS = 9
LIMIT_MS = 50

FILTERS = (
    "api == Fetch",
    "api == Fetch and latency > 100ms",
    "latency > 100ms and not unanswered",
    'client_id ~ "^app-1"',
    "client.port == 40007 or broker == 10.0.0.1:9092",
    'api in {Produce, Fetch} and latency > 50ms and size > 1kB and client_id ~ "-7"',
    "time > 10s and time < 20s and version >= 12",
    "client == 10.0.0.0/8 and (unanswered or response.size > 64KiB or latency > 1s)",
    "~s",
    "request.topics.partitions.partition == 3",
)


def million() -> ExchangeTable:
    """Return a table of a million exchanges as a busy cluster has them."""
    random = np.random.default_rng(7)
    table = ExchangeTable()
    for number in range(500):
        table.client_number(f"app-{number}".encode())
    rows = table.append(ROWS)
    start = 1_795_254_658_000_000_000
    begin = start + np.sort(random.integers(0, 60 * 10**9, ROWS))
    latency = random.exponential(20e6, ROWS).astype(np.int64)
    answered = random.random(ROWS) > 0.001
    table.set(
        rows,
        connection=random.integers(0, CONNECTIONS, ROWS),
        client_id=random.integers(0, 500, ROWS),
        api_key=random.choice([0, 1, 3, 8, 12, 18], ROWS),
        version=random.integers(0, 18, ROWS),
        correlation_id=np.arange(ROWS),
        request_size=random.integers(30, 4000, ROWS),
        response_size=np.where(answered, random.integers(20, 100_000, ROWS), 0),
        request_first=begin,
        request_last=begin + 1000,
        response_first=np.where(answered, begin + 1000 + latency, -1),
        response_last=np.where(answered, begin + 2000 + latency, -1),
    )
    table.mark(np.flatnonzero(~answered), Flag.UNANSWERED)
    return table


def endpoints(connection: int) -> tuple[str, str]:
    """Name the ends of a made-up connection."""
    return f"10.1.{connection >> 8}.{connection & 255}:{40000 + connection}", f"10.0.0.{connection % 9}:9092"


def timed(wanted: Filter, table: ExchangeTable, columns: TableColumns | None) -> float:
    """Return the median of some evaluations, in ms."""
    times = []
    for _ in range(ROUNDS):
        begin = perf_counter_ns()
        wanted.mask(columns or TableColumns(table, endpoints, start=1_795_254_658_000_000_000))
        times.append((perf_counter_ns() - begin) / 1e6)
    return median(times)


def main() -> None:
    """Print a line for each filter."""
    table = million()
    print(f"{'first':>7} {'again':>7} {'rows':>8} {'bodies':>8}  filter   (ms, {ROWS:,} exchanges)")
    for text in FILTERS:
        wanted = compile_filter(text)
        columns = TableColumns(table, endpoints)
        matches, undecided = wanted.mask(columns)
        first, again = timed(wanted, table, None), timed(wanted, table, columns)
        late = "  SLOW" if first > LIMIT_MS else ""
        print(f"{first:7.1f} {again:7.1f} {matches.sum():8} {undecided.sum():8}  {text}{late}")


if __name__ == "__main__":
    main()
