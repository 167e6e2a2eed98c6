"""Time of filters on the columns of a million exchanges: ``python -m benchmarks.filters``.

``first`` uses new :class:`~captures.filters.TableColumns`; ``again`` uses those of an earlier evaluation, as when a
user changes a filter while typing. Filters on message fields are measured on columns that are filled already
(:mod:`captures.exchanges.columns`); ``python -m benchmarks.columns`` measures the filling.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np

from benchmarks.outcome import Aim, for_programs
from captures.exchanges import ExchangeTable, Flag
from captures.exchanges.columns import NO_VALUE, Column, ExchangeColumns, RaggedArray
from captures.filters import Context, Filter, GroupInference, TableColumns, compile_filter

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

ON_MESSAGES = (
    "~s",
    "waited and latency > 100ms",
    "error",
    "error.any",
    "error == NOT_LEADER_OR_FOLLOWER",
    "error ~ LEADER",
    "topic ~ ^orders-1",
    "partition in {3..5}",
    "topic_partition == orders-17-3",
    "group ~ billing",
    "group.inferred",
    "member ~ ^app-1",
    "throttle > 100ms",
    "records > 500",
    "records.size > 64KiB and api == Produce",
    "api == Fetch and (error or excess > 100ms) and topic ~ ^orders-1",
)


def million() -> ExchangeTable:
    """Return a table of a million exchanges like those of a busy cluster."""
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


class Messages(ExchangeColumns):
    """Synthetic columns for the messages of :func:`million`, as full as those of a busy cluster."""

    def __init__(self, table: ExchangeTable) -> None:
        random = np.random.default_rng(8)
        latency = table.column("response_first") - table.column("request_last")
        wait = np.where(random.random(ROWS) < 0.1, np.minimum(latency, 10**8), 0)
        topics = _ragged(random, random.integers(0, 3, ROWS), 500)
        pairs = _ragged(random, random.integers(0, 6, ROWS), 500)
        self._table = table
        self._made: dict[str, Column] = {
            "wait": wait,
            "excess": np.where(latency < 0, NO_VALUE, latency - wait),
            "error_codes": _ragged(random, random.random(ROWS) < 0.02, 120, np.int16),
            "expected_error_codes": _ragged(random, random.random(ROWS) < 0.005, 120, np.int16),
            "throttle_time_ms": random.choice([NO_VALUE, 0, 0, 0, 150], ROWS),
            "topics": topics,
            "partition_topics": pairs,
            "partitions": RaggedArray(
                random.integers(0, 24, len(pairs.values)).astype(np.int32), pairs.offsets
            ),
            "groups": _ragged(random, random.random(ROWS) < 0.2, 60),
            "members": _ragged(random, random.random(ROWS) < 0.2, 20_000),
            "replica_id": np.full(ROWS, NO_VALUE),
            "records": random.integers(0, 1000, ROWS),
            "batches": random.integers(0, 10, ROWS),
            "record_bytes": random.integers(0, 200_000, ROWS),
        }
        self._texts = {
            "topics": [f"orders-{number}" for number in range(500)],
            "groups": [f"{('billing', 'audit')[number % 2]}-{number}" for number in range(60)],
            "members": [f"app-{number}-0d6c7e9e" for number in range(20_000)],
        }

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, name: str) -> Column:
        return self._made[name] if name in self._made else self._table.column(name)

    def texts(self, name: str) -> list[str | None]:
        return self._texts[name]  # type: ignore[return-value]  # never None here

    def prepare(self, names: object) -> None:
        """Do nothing: all columns are filled."""


def _ragged(
    random: np.random.Generator, counts: np.ndarray, values: int, dtype: type[np.generic] = np.int32
) -> RaggedArray:
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return RaggedArray(random.integers(0, values, int(offsets[-1])).astype(dtype), offsets)


def endpoints(connection: int) -> tuple[str, str]:
    """Return the endpoints of a synthetic connection."""
    return f"10.1.{connection >> 8}.{connection & 255}:{40000 + connection}", f"10.0.0.{connection % 9}:9092"


def inference() -> GroupInference:
    """Return the inferred groups: half of the clients have one."""
    known = GroupInference(lambda _: None)
    for connection in range(0, CONNECTIONS, 2):
        known._by_connection[connection] = {f"billing-{connection % 40}"}
    return known


def timed(wanted: Filter, context: Context, columns: Callable[[], TableColumns], rounds: int) -> float:
    """Return the median time of several evaluations, in ms."""
    times = []
    for _ in range(rounds):
        begin = perf_counter_ns()
        wanted.mask(columns(), context)
        times.append((perf_counter_ns() - begin) / 1e6)
    return median(times)


def measured(rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each filter: ms with new and with used columns, and the number of rows it decides."""
    table = million()
    start = 1_795_254_658_000_000_000
    context = Context(groups=inference(), start=start)
    filled = Messages(table)
    for filters, messages in ((FILTERS, None), (ON_MESSAGES, filled)):
        make = partial(TableColumns, table, endpoints, start=start, messages=messages)
        for text in filters:
            wanted = compile_filter(text)
            columns = make()
            matches, undecided = wanted.mask(columns, context)
            yield {
                "filter": text,
                "first_ms": timed(wanted, context, make, rounds),
                "again_ms": timed(wanted, context, lambda used=columns: used, rounds),
                "rows": int(matches.sum()),
                "bodies": int(undecided.sum()),
            }


def aims(rows: list[dict[str, Any]]) -> list[Aim]:
    """Return the aims, which the slowest filter has to reach."""
    slowest = max(row["first_ms"] for row in rows)
    return [Aim("ms for the slowest filter, new columns", slowest, LIMIT_MS, at_most=True)]


def main() -> None:
    """Print a line for each filter."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"evaluations of each filter (default {ROUNDS})"
    )
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(f"{'first':>7} {'again':>7} {'rows':>8} {'bodies':>8}  filter   (ms, {ROWS:,} exchanges)")
    for row in measured(options.rounds):
        rows.append(row)
        if not options.json:
            late = "  SLOW" if row["first_ms"] > LIMIT_MS else ""
            times = f"{row['first_ms']:7.1f} {row['again_ms']:7.1f}"
            print(f"{times} {row['rows']:8} {row['bodies']:8}  {row['filter']}{late}")
    if options.json:
        print(for_programs({"exchanges": ROWS, "filters": rows}, aims(rows)))


if __name__ == "__main__":
    main()
