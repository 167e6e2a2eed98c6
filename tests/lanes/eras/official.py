"""Compares every message of a recording, as decoded by kproxy, with the classes of Apache Kafka.

The classes are those of the recorded release, from 3.9 on; older ones use 3.9.2, the last to support all older
versions: its field names are today's. The comparison is that of ``tests/captures/oracle.py``.
"""

from __future__ import annotations

import functools
import json
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.json_objects import to_json
from dissectors.frames import Body
from dissectors.sides import SIDES
from tests.captures.oracle import Ours, Side, differences, record_parts
from tests.lanes.broker import JVM, kafka_class_path, number
from tests.lanes.eras.sweep import CLIENT_ID as SWEEPER
from tests.lanes.tools import CannotRun, cache, need, run

_PROGRAMS = Path(__file__).parent.parent / "clients" / "eras"
_LAST_OF_THE_OLD = "3.9.2"
_READS_ITSELF = (3, 9)
_FRAME = struct.Struct(">chhi")
_MOST_FAULTS = 20


@dataclass
class CheckResult:
    """The result of checking the messages of a recording.

    :ivar messages: number of messages
    :ivar faults: descriptions of the errors
    :ivar seen: API key and version of correctly decoded requests and responses of clients
    :ivar swept: the same for the requests of the sweep
    :ivar answered_otherwise: number of requests answered in another version than requested, and read so by both
    """

    messages: int = 0
    faults: list[str] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)
    swept: set[tuple[int, int]] = field(default_factory=set)
    answered_otherwise: int = 0

    def __str__(self) -> str:
        if self.faults:
            more = len(self.faults) - _MOST_FAULTS
            rest = [f"and {more} more"] if more > 0 else []
            return "\n      ".join([f"{len(self.faults)} faults:", *self.faults[:_MOST_FAULTS], *rest])
        otherwise = f", {self.answered_otherwise} answered in an older version" * bool(
            self.answered_otherwise
        )
        return f"{self.messages:,} messages of {2 * len(self.seen | self.swept)} layouts{otherwise}"


def checked(recording: Path, release: str, *, beginnings: bool = True) -> CheckResult:
    """Compare all messages in a recording of a release.

    :param beginnings: whether the recording has the beginning of each connection, so that every response has a request
    :raises CannotRun: without Java, or if the jars cannot be resolved
    """
    capture = open_capture(str(recording))
    capture.read()
    found = CheckResult()
    messages: list[Ours] = []
    for exchange in ExchangeReader(capture, show_secrets=True):
        found.faults += _frame_faults(exchange, beginnings=beginnings)
        if exchange.api != "SaslToken":
            shape = msgspec.json.decode(msgspec.json.encode(to_json(exchange)))
            messages += [Ours(side, exchange, shape) for side in SIDES if _whole(exchange, side)]
    wrong = set()
    for ours, theirs in zip(messages, _read(messages, release), strict=True):
        found.messages += 1
        faults = [f"{_place(ours)}: {fault}" for fault in _faults(ours, theirs)]
        found.faults += faults
        if faults:
            wrong.add(ours.exchange.number)
        found.answered_otherwise += "decodedAs" in theirs
    for ours in messages:
        place = spoken(ours.exchange)
        if place is not None and ours.exchange.number not in wrong:
            (found.swept if ours.exchange.client_id == SWEEPER else found.seen).add(place)
    return found


def spoken(exchange: Exchange) -> tuple[int, int] | None:
    """Return API key and version of an exchange, if the request was answered in its own version."""
    request, response = exchange.request, exchange.response
    if request is None or response is None or request.version is None or request.version != response.version:
        return None
    if not (_whole(exchange, "request") and _whole(exchange, "response")):
        return None
    return request.key, request.version


def _place(ours: Ours) -> str:
    exchange = ours.exchange
    return f"exchange {exchange.number}, {exchange.api} v{exchange.version} {ours.side}"


def _whole(exchange: Exchange, side: Side) -> bool:
    """Return whether a side has a complete frame."""
    if side == "request":
        return exchange.request is not None and Flag.REQUEST_DAMAGED not in exchange.flag
    return exchange.response is not None and not exchange.flag & (Flag.RESPONSE_DAMAGED | Flag.ORPHAN)


def _frame_faults(exchange: Exchange, *, beginnings: bool) -> Iterator[str]:
    """Yield errors found before decoding; if a client leaves, its last response may be cut short."""
    if Flag.REQUEST_DAMAGED in exchange.flag and beginnings:
        yield f"exchange {exchange.number}: the request lacks bytes"
    if Flag.ORPHAN in exchange.flag and beginnings:
        yield f"exchange {exchange.number}: a response without its request"


def _faults(ours: Ours, theirs: dict[str, Any]) -> Iterator[str]:
    yield from ours.frame_problems
    yield from ours.content_problems
    body = ours.body
    assert body is not None
    if "error" in theirs:
        yield f"unreadable for Kafka's classes: {theirs['error']}"
        return
    if theirs["left"]:
        yield f"Kafka's classes leave {theirs['left']} bytes"
    version = theirs.get("decodedAs", theirs["v"])
    if body.version != version or bool(body.guess) != (version != body.asked):
        yield f"read as version {body.version} ({body.guess or 'no guess'}), not {version}"
    if ours.exchange.correlation_id != theirs["header"]["correlationId"]:
        yield f"correlation ID {ours.exchange.correlation_id}, not {theirs['header']['correlationId']}"
    yield from differences(ours, theirs["body"])
    if "parts" in theirs and ours.value is not None and record_parts(ours) != theirs["parts"]:
        yield "other records"


def _read(messages: list[Ours], release: str) -> list[dict[str, Any]]:
    """Read messages with the classes of a release, or with an older release if these fail.

    Kafka 4 announces Produce from version 0 on, but cannot read versions before 3 (KAFKA-18659).
    """
    reader = release if number(release) >= _READS_ITSELF else _LAST_OF_THE_OLD
    lines = _lines(messages, reader)
    unread = [index for index, line in enumerate(lines) if "error" in line]
    if unread and reader != _LAST_OF_THE_OLD:
        again = _lines([messages[index] for index in unread], _LAST_OF_THE_OLD)
        for index, line in zip(unread, again, strict=True):
            lines[index] = line
    return lines


def _lines(messages: list[Ours], reader: str) -> list[dict[str, Any]]:
    frames = bytearray()
    for ours in messages:
        body = _body(ours)
        kind = b"Q" if ours.side == "request" else b"R"
        frames += _FRAME.pack(kind, body.key, body.asked, len(body.raw)) + body.raw
    done = subprocess.run(_program(reader), input=frames, capture_output=True, check=False)
    if done.returncode:
        raise CannotRun(f"Kafka's classes cannot read: {done.stderr.decode(errors='replace')[-1000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _body(ours: Ours) -> Body:
    assert ours.body is not None
    return ours.body


@functools.cache
def _program(release: str) -> list[str]:
    need("java", "javac")
    path = kafka_class_path(release)
    classes = cache() / f"official-{release}"
    run(["javac", "-nowarn", "-d", classes, "-cp", path, *_PROGRAMS.glob("*.java")])
    return ["java", "-Xmx400m", *JVM, "-cp", f"{classes}:{path}", "Official"]
