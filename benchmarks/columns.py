"""Decoding chosen fields beside decoding everything: ``python -m benchmarks.columns [CAPTURE...]``.

First single messages: the time of a projection as a share of the full decoder's, for Produce and Fetch with few and
with many partitions. Then the columns of messages in the given captures, or in a generated one (``--mb``): microseconds
per exchange to fill each column alone and all together, beside a full decode with the same result.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks import traffic
from benchmarks.captures import MB, made
from benchmarks.outcome import for_programs
from benchmarks.timing import interleaved
from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.exchanges.columns import COLUMNS, ExchangeColumns
from captures.meaning import groups_in, members_in, topics_in
from captures.meaning.payload import record_fields, tally
from dissectors.apis import api
from dissectors.message_version import MessageVersion
from dissectors.projection import Projection

ROUNDS = 15
FILLS = 3
BATCH = bytes(1000)

ERRORS = ("error_code", "responses.partitions.error_code", "responses.partition_responses.error_code")
TOPICS = (
    "responses.topic", "responses.topic_id", "responses.name", "topics.topic", "topics.topic_id", "topic_data.name",
    "responses.partitions.partition_index", "responses.partition_responses.index", "topics.partitions.partition",
    "topic_data.partition_data.index",
)  # fmt: skip


def _message(key: int, side: str, version: int) -> MessageVersion:
    known = api(key)
    assert known is not None
    layout: MessageVersion = getattr(known, side)[version]
    return layout


def messages(topics: int, partitions: int) -> Iterable[tuple[str, MessageVersion, bytes]]:
    """Return Produce and Fetch with the given numbers of topics and partitions, with a kilobyte of records in each."""
    names = [f"orders-{number}" for number in range(topics)]
    indexes = range(partitions)
    produced = [{"index": index, "records": BATCH} for index in indexes]
    acknowledged = [{"index": index, "base_offset": 120} for index in indexes]
    asked = [{"partition": index, "fetch_offset": 120} for index in indexes]
    fetched = [{"partition_index": index, "high_watermark": 120, "records": BATCH} for index in indexes]
    bodies: list[tuple[str, int, str, int, dict[str, object]]] = [
        ("Produce request", 0, "request", 9,
         {"acks": -1, "topic_data": [{"name": name, "partition_data": produced} for name in names]}),
        ("Produce response", 0, "response", 9,
         {"responses": [{"name": name, "partition_responses": acknowledged} for name in names]}),
        ("Fetch request", 1, "request", 12, {"topics": [{"topic": name, "partitions": asked} for name in names]}),
        ("Fetch response", 1, "response", 12,
         {"responses": [{"topic": name, "partitions": fetched} for name in names]}),
    ]  # fmt: skip
    for name, key, side, version, body in bodies:
        layout = _message(key, side, version)
        yield f"{name} v{version}, {topics}x{partitions}", layout, layout.build(body)


def decoding() -> Iterator[dict[str, Any]]:
    """Yield the figures of projections beside the full decoder."""
    for topics, partitions in ((1, 1), (3, 10), (20, 20)):
        for name, layout, data in messages(topics, partitions):
            for what, paths in (("error codes", ERRORS), ("topics and partitions", TOPICS)):
                projection = Projection(layout, paths)
                if not projection.wanted:
                    continue
                times = interleaved(
                    {
                        "full": partial(layout.parse, data),
                        "first": partial(projection.parse, data),
                        "whole": partial(projection.exactly, data),
                    },
                    ROUNDS,
                )
                yield {
                    "what": f"{what} of {name}",
                    "full_us": times.us("full"),
                    "first_us": times.us("first"),
                    "whole_us": times.us("whole"),
                    "times_first": times.ratio("full", "first"),
                    "times_whole": times.ratio("full", "whole"),
                }


def _full_decode(capture: Capture) -> None:
    """Decode everything, and extract the values of the columns."""
    reader = ExchangeReader(capture, annotate=False, summary=False)
    names = reader.knowledge.topic_name
    for exchange in reader:
        for side in ("request", "response"):
            body = exchange.request if side == "request" else exchange.response
            if exchange.api_key is not None and body is not None and body.version is not None:
                key, version, value = exchange.api_key, body.version, body.value
                topics_in(key, version, value, names, side)
                groups_in(key, version, value, side)
                members_in(key, version, value, side)
                tally(record_fields(key, version, value, side))


def columns(path: str) -> dict[str, Any]:
    """Return the processor time of a capture's columns in microseconds per exchange."""
    capture = open_capture(path)
    capture.read()
    count = len(capture.table)
    messages_only = [
        name for name in COLUMNS if name not in ("time", "latency", "client", "broker", "client_id")
    ]
    groups: list[tuple[str, ...]] = [
        ("throttle_time_ms",), ("error_codes", "expected_error_codes"), ("wait", "excess"), ("topics", "partitions"),
        ("groups", "members"), ("records", "batches", "record_bytes"), ("software_name", "software_version"),
        tuple(messages_only),
    ]  # fmt: skip
    found = {}
    for names in groups:
        label = "all of these in one pass" if len(names) > 3 else " ".join(names)
        found[label] = _each_us(count, lambda names=names: ExchangeColumns(capture).prepare(names))
    found["the full decode, and the same taken from it"] = _each_us(count, lambda: _full_decode(capture))
    return {"file": Path(path).name, "exchanges": count, "us": found}


def _each_us(count: int, action: Callable[[], None]) -> float:
    return min(_seconds(action) for _ in range(FILLS)) / count * 1e6


def _seconds(action: Callable[[], None]) -> float:
    # processor time, which a busy machine disturbs less
    begin = process_time()
    action()
    return process_time() - begin


def print_messages(rows: Iterable[dict[str, Any]]) -> None:
    """Print the figures of projections beside the full decoder."""
    print(f"{'full':>8} {'first':>14} {'to the end':>14}   (us a message; times as fast as the full decoder)")
    for row in rows:
        cells = [f"{row[f'{one}_us']:8.2f} {row[f'times_{one}']:4.1f}x" for one in ("first", "whole")]
        print(f"{row['full_us']:8.2f} {' '.join(cells)}   {row['what']}")


def print_columns(found: dict[str, Any]) -> None:
    """Print the processor time of a capture's columns."""
    print(f"\n{found['exchanges']:,} exchanges in {found['file']}")
    print(f"{'us each':>8} {'a second':>10}")
    for label, each in found["us"].items():
        print(f"{each:8.2f} {1e6 / each:10,.0f}   {label}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("captures", nargs="*", metavar="CAPTURE", help="captures to fill columns of")
    parser.add_argument("--mb", type=float, default=0, help="make one of steady traffic, of this size")
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    options = parser.parse_args()
    paths = list(options.captures)
    if options.mb:
        paths.append(str(made("steady", int(options.mb * MB), traffic.GENERATED["steady"])))
    if options.json:
        figures = {"messages": list(decoding()), "captures": [columns(path) for path in paths]}
        print(for_programs(figures))
        return
    print_messages(decoding())
    for path in paths:
        print_columns(columns(path))


if __name__ == "__main__":
    main()
