"""A capture read in one go and in ranges: comparison of all results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.json_objects import to_json
from captures.packets.tls import KeyLog
from captures.ranges import range_reader
from captures.ranges.jobs import Input, MergeResult, read_exchanges, read_here
from captures.ranges.plan import make_plan
from captures.ranges.whole import WholeCapture, whole_of

EVERYTHING = "KPROXY_TEST_ALL_RANGES" in os.environ
"""Whether to cut all captures in many sizes and make much traffic; by default, only a selection."""

_encoder = msgspec.json.Encoder()

_OF_CONNECTIONS = (
    "generation",
    "client_known",
    "first_number",
    "first_time",
    "last_time",
    "syn_time",
    "handshake",
)
_OF_STREAMS = (
    "packets",
    "end",
    "syn_seen",
    "fin_time",
    "fin_position",
    "reset_time",
    "retransmitted",
    "reordered",
    "lost",
    "cut",
    "conflicting",
    "outside",
    "zero_windows",
    "isn",
    "ack",
    "next_seq",
)


class Outcome(NamedTuple):
    """The result of reading a capture.

    :ivar exchanges: as ``read --json`` writes them
    :ivar connections: endpoints, client and broker, and all columns
    :ivar skipped: bytes that belong to no frame
    :ivar foreign: protocols other than Kafka, by connection
    :ivar ended_by_kproxy: connections that kproxy closed, reset or silenced
    :ivar samples: their kernel samples, in order
    :ivar upstreams: their brokers, as known by the proxy
    :ivar counted: packets by kind, and damage by place
    """

    exchanges: list[bytes]
    connections: list[dict[str, Any]]
    skipped: list[tuple[Any, ...]]
    foreign: dict[int, str]
    ended_by_kproxy: list[int]
    samples: list[Any]
    upstreams: dict[int, Any]
    counted: dict[str, Any]


def one_reading(paths: Sequence[str | Path], keylog: bytes = b"") -> Outcome:
    """Read files as one capture, in one go; context from other exchanges is collected first."""
    capture = open_capture([str(path) for path in paths], keylog=_secrets(keylog))
    capture.read()
    reader = ExchangeReader(capture)
    reader.learn(len(reader))
    exchanges = [
        _encoder.encode(to_json(each)) for each in ExchangeReader(capture, knowledge=reader.knowledge)
    ]
    return _outcome(exchanges, capture)


def in_ranges(
    paths: Sequence[str | Path], size: int, *, buckets: int = 3, keylog: bytes = b"", block: int | None = None
) -> tuple[Outcome, MergeResult]:
    """Read files in ranges, and join them.

    :param block: bytes per block; connections can be confirmed after the first one
    """
    given = Input(make_plan([str(path) for path in paths], size), keylog, buckets)
    first, most = (
        (range_reader._FIRST_BLOCK, range_reader.BLOCK_SIZE) if block is None else (block, 4 * block)
    )
    with (
        mock.patch.object(range_reader, "_FIRST_BLOCK", first),
        mock.patch.object(range_reader, "BLOCK_SIZE", most),
    ):
        read = read_here(given)
        parts = [
            read_exchanges(read.given, context, read.numbered.facts) for context in read.numbered.contexts
        ]
        exchanges = [_encoder.encode(to_json(each)) for part in parts for each in part.exchanges()]
    whole = WholeCapture(
        read.given.plan.source(), whole_of(read.numbered, [each.mark for each in read.marked])
    )
    for part in parts:
        whole.take(part.capture.table, part.rows, part.connections)
    assert len(whole.table) == read.numbered.exchanges == len(exchanges)
    return _outcome(exchanges, whole), read


def compare(expected: Outcome, found: Outcome, what: str = "") -> None:
    """Fail with the first differences between two readings.

    :raises AssertionError: if there are any
    """
    told = [*_exchanges(expected.exchanges, found.exchanges), *_connections(expected, found)]
    for name in ("skipped", "foreign", "ended_by_kproxy", "samples", "upstreams", "counted"):
        one, other = getattr(expected, name), getattr(found, name)
        if one != other:
            told.append(f"{name}: {one!r:.1000} in one reading, {other!r:.1000} in ranges")
    assert not told, "\n".join([what, *told])


def same(
    paths: Sequence[str | Path],
    *sizes: int,
    keylog: bytes = b"",
    expected: Outcome | None = None,
    **options: Any,
) -> MergeResult:
    """Check that ranges of several sizes give the same as one reading; return the last reading."""
    expected = one_reading(paths, keylog) if expected is None else expected
    for size in sizes:
        found, read = in_ranges(paths, size, keylog=keylog, **options)
        compare(
            expected, found, f"{[Path(path).name for path in paths]} in ranges of {size:,} bytes {options}"
        )
    return read


def _secrets(keylog: bytes) -> KeyLog:
    secrets = KeyLog()
    if keylog:
        secrets.add(keylog)
    return secrets


def _outcome(exchanges: list[bytes], capture: Capture | WholeCapture) -> Outcome:
    counted = capture.statistics
    return Outcome(
        exchanges,
        [_connection(capture, number) for number in range(len(capture.connections))],
        sorted((each.stream, each.position, each.size, each.reason, each.at_end) for each in capture.skipped),
        dict(sorted(capture.foreign.items())),
        sorted(capture.notes.ended_connections),
        list(capture.samples),
        capture.samples.upstreams,
        {
            "packets": counted.packets,
            "tcp": counted.tcp,
            "not TCP": dict(counted.not_tcp),
            "fragments": counted.fragments_waiting,
            "damage": [(each.offset, each.skipped) for each in counted.damage],
            "latest": capture.latest,
        },
    )


def _connection(capture: Capture | WholeCapture, number: int) -> dict[str, Any]:
    columns, streams = capture.connections, capture.connections.streams
    made: dict[str, Any] = {"ends": capture.endpoints(number), "by side": capture.client_stream(number) & 1}
    made |= {name: getattr(columns, name)[number].item() for name in _OF_CONNECTIONS}
    for side in (0, 1):
        made |= {f"{name} {side}": getattr(streams, name)[2 * number + side].item() for name in _OF_STREAMS}
    tls = capture.decryption.tls.get(number)
    made["tls"] = tls and tls.info.summary()
    return made


def _exchanges(expected: list[bytes], found: list[bytes]) -> list[str]:
    if expected == found:
        return []
    told = [f"{len(expected)} exchanges in one reading, {len(found)} in ranges"]
    for one, other in zip(expected, found, strict=False):
        if one != other and len(told) < 4:
            told.append(_difference(msgspec.json.decode(one), msgspec.json.decode(other)))
    return told


def _connections(expected: Outcome, found: Outcome) -> list[str]:
    told = []
    if len(expected.connections) != len(found.connections):
        told.append(
            f"{len(expected.connections)} connections in one reading, {len(found.connections)} in ranges"
        )
    for one, other in zip(expected.connections, found.connections, strict=False):
        if one != other and len(told) < 4:
            told.append(_difference(one, other))
    return told


def _difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    which = f"exchange {one['number']}" if "number" in one else f"connection {one['ends']}"
    differ = [
        f"{name} {one.get(name)!r:.300} -> {other.get(name)!r:.300}"
        for name in dict.fromkeys((*one, *other))
        if one.get(name) != other.get(name)
    ]
    return f"{which}: {'; '.join(differ)}"
