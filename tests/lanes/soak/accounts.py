"""Compares the journals of both ends with the recording: every byte is recorded, or reported as left out.

The peers' journal entries for a connection are a :class:`ConnectionAccount`. :func:`compare` reads the capture packet
by packet, with scapy, and compares each byte with the one sent (:mod:`tests.lanes.soak.talk`); :func:`read_exchanges`
reads it as kproxy does, and requires every exchange that is complete.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scapy.utils import RawPcapNgReader

from captures.exchanges import Capture, ExchangeReader, Flag, open_capture
from captures.live.recording import open_recording
from dissectors.sides import ENDS
from tests.lanes.soak import talk
from tests.lanes.soak.talk import Habit
from tests.lanes.tools import Wrong

_TCP = struct.Struct(">HHIIBB")
_SYN, _FIN, _RST = 2, 1, 4
_MASK = 0xFFFFFFFF
_ETHERNET, _RAW_IP = 1, 101
_IP_PROTOCOL, _ETHERNET_HEADER = 9, 14
_INCOMPLETE = Flag.UNANSWERED | Flag.ORPHAN | Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED
_INCOMPLETE_NAMES = frozenset(_INCOMPLETE.names)
_GRACE_S = 3.0  # before and after the broker's absence


# ---------------------------------------------------------------- the journals
@dataclass
class ConnectionAccount:
    """A connection as seen by both ends.

    :ivar sent: number of bytes sent, by side
    :ivar received: number of bytes received, by sending side
    :ivar ends: how it ended, by side; empty while it is open
    :ivar at: time of its end, in seconds since boot
    """

    number: int
    port: int = 0
    sent: list[int] = field(default_factory=lambda: [0, 0])
    received: list[int] = field(default_factory=lambda: [0, 0])
    ends: list[str] = field(default_factory=lambda: ["", ""])
    at: list[float] = field(default_factory=lambda: [0.0, 0.0])
    answered: int = 0


def told(client: Path, broker: Path) -> dict[int, ConnectionAccount]:
    """Read both journals; return connections by number."""
    all_told: dict[int, ConnectionAccount] = {}
    for side, path in enumerate((client, broker)):
        for facts in _lines(path):
            one = all_told.setdefault(facts["connection"], ConnectionAccount(facts["connection"]))
            one.port = facts.get("port", one.port)
            one.sent[side] = facts.get("sent", 0)
            one.received[1 - side] = facts.get("received", 0)
            one.ends[side] = facts["end"]
            one.at[side] = facts["at"]
            one.answered = facts.get("answered", one.answered)
    return all_told


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        for line in file:
            yield json.loads(line)


def judge(all_told: Iterable[ConnectionAccount], away: Sequence[tuple[float, float]]) -> dict[str, int]:
    """Check that connections ended as intended; return the number of connections of each kind.

    :param away: periods of the broker's absence, in which connections end differently
    :raises Wrong: if a connection ended differently, or received bytes that were not sent
    """
    counts: dict[str, int] = {}
    wrong = []
    for one in all_told:
        client, broker = one.ends
        altered = [end for end in one.ends if end.startswith("wrong")]
        # a client that pauses notices later than the broker
        excused = any(start - _GRACE_S < at < end + _GRACE_S for start, end in away for at in one.at)
        if altered or (not excused and not _as_meant(one)):
            wrong.append(f"connection {one.number} ({talk.habit(one.number).name}): {client} / {broker}")
        kind = "cut off while the broker was away" if excused else talk.habit(one.number).name.lower()
        counts[kind] = counts.get(kind, 0) + 1
        if one.received[0] > one.sent[0] or one.received[1] > one.sent[1]:
            wrong.append(f"connection {one.number}: more bytes came than were sent")
    if wrong:
        raise Wrong(f"{len(wrong)} connections: {'; '.join(wrong[:5])}")
    return counts


def _as_meant(one: ConnectionAccount) -> bool:
    client = one.ends[0]
    match talk.habit(one.number):
        case Habit.CLIENT_RESETS:
            return client == "reset" or (client == "fin" and one.answered < talk.length(one.number) // 2)
        case Habit.BROKER_RESETS:
            return client.startswith("broken") or client == "fin"
        case _:
            return client == "fin"


# ---------------------------------------------------------------- the capture, byte by byte
class Stream:
    """One side of a connection, as recorded.

    :ivar seen: number of bytes in the capture
    :ivar end: known length
    :ivar again: number of repeated bytes
    :ivar whole: numbers of the exchanges whose frame is complete
    """

    def __init__(self, connection: int, side: int) -> None:
        self.seen = self.end = self.again = 0
        self.whole: set[int] = set()
        self._about = f"connection {connection}, {ENDS[side]}"
        self._frames = talk.frames(connection, side)
        self._number, self._frame = next(self._frames)
        self._at = 0  # position in the frame
        self._torn = False  # whether bytes of the frame are missing

    def data(self, position: int, data: bytes) -> None:
        """Add recorded bytes.

        :raises Wrong: if they differ from those sent
        """
        if position < self.end:
            again = min(self.end - position, len(data))
            self.again += again
            data = data[again:]
        elif position > self.end:
            self.reaches(position)
        self._go_on(len(data), data)
        self.seen += len(data)

    def reaches(self, position: int) -> None:
        """Extend the known length: unseen bytes before it are missing."""
        if position > self.end:
            self._go_on(position - self.end, None)

    def _go_on(self, count: int, data: bytes | None) -> None:
        self.end += count
        at = 0
        while at < count:
            step = min(count - at, len(self._frame) - self._at)
            if data is None:
                self._torn = True
            elif data[at : at + step] != self._frame[self._at : self._at + step]:
                raise Wrong(f"{self._about}: other bytes were recorded in exchange {self._number}")
            at += step
            self._at += step
            if self._at == len(self._frame):
                if not self._torn:
                    self.whole.add(self._number)
                self._number, self._frame = next(self._frames)
                self._at, self._torn = 0, False


@dataclass
class RecordedConnection:
    """A connection in the capture.

    :ivar streams: by side
    :ivar bases: sequence numbers of their first bytes
    :ivar finished: whether they have ended with FIN
    """

    number: int
    streams: tuple[Stream, Stream]
    bases: list[int | None] = field(default_factory=lambda: [None, None])
    finished: list[bool] = field(default_factory=lambda: [False, False])


def packets(files: Iterable[Path]) -> Iterator[tuple[int, int, int, int, bytes]]:
    """Yield the TCP segments of capture files: both ports, sequence number, flags, payload.

    :raises Wrong: if the files contain anything else
    """
    for path in files:
        with RawPcapNgReader(str(path)) as reader:
            for packet, metadata in reader:
                if metadata.linktype not in (_ETHERNET, _RAW_IP):
                    raise Wrong(f"{path.name} has link type {metadata.linktype}")
                at = _ETHERNET_HEADER if metadata.linktype == _ETHERNET else 0
                if packet[at] >> 4 != 4:
                    raise Wrong(f"{path.name} has a packet that is not of IPv4")
                total = int.from_bytes(packet[at + 2 : at + 4])
                tcp = at + (packet[at] & 15) * 4
                source, destination, sequence, _, offset, flags = _TCP.unpack_from(packet, tcp)
                payload = packet[tcp + (offset >> 4) * 4 : at + total if total else None]
                yield source, destination, sequence, flags, payload


def compare(
    files: Sequence[Path], broker_port: int, all_told: dict[int, ConnectionAccount]
) -> dict[int, RecordedConnection]:
    """Compare each byte of a capture with the one sent; return the recorded part of each connection.

    :raises Wrong: if a byte differs, or belongs to nothing that was sent
    """
    by_port = {one.port: one.number for one in all_told.values()}
    recorded: dict[int, RecordedConnection] = {}
    for source, destination, sequence, flags, payload in packets(files):
        side = 0 if destination == broker_port else 1
        number = by_port.get(source if side == 0 else destination)
        if number is None:
            continue  # a check whether kproxy listens
        one = recorded.get(number)
        if one is None:
            one = recorded[number] = RecordedConnection(number, (Stream(number, 0), Stream(number, 1)))
        if flags & _SYN:
            one.bases[side] = sequence + 1 & _MASK
            continue
        base = one.bases[side]
        if base is None:
            raise Wrong(f"connection {number} was recorded without its beginning")
        position = sequence - base & _MASK
        stream = one.streams[side]
        if payload:
            stream.data(position, payload)
        elif position < _MASK >> 1 and not one.finished[side]:  # a FIN counts as a byte
            stream.reaches(position)
        one.finished[side] |= bool(flags & _FIN)
    return recorded


@dataclass
class MissingBytes:
    """The bytes missing from a capture.

    :ivar at_least: bytes that certainly passed the proxy and are missing
    :ivar at_most: bytes that were sent and are missing; in connections that were reset, some never passed the proxy
    """

    at_least: int = 0
    at_most: int = 0
    connections: int = 0
    again: int = 0
    seen: int = 0


def missing(all_told: dict[int, ConnectionAccount], recorded: dict[int, RecordedConnection]) -> MissingBytes:
    """Count the bytes missing from the capture.

    :raises Wrong: if it has more bytes of a connection than were sent
    """
    lack = MissingBytes()
    for one in all_told.values():
        there = recorded.get(one.number)
        lost = False
        for side in (0, 1):
            seen = there.streams[side].seen if there else 0
            end = there.streams[side].end if there else 0
            if end > one.sent[side]:
                raise Wrong(f"connection {one.number}: {end} bytes were recorded of {one.sent[side]}")
            through = max(end, one.received[side])
            lack.at_least += through - seen
            lack.at_most += one.sent[side] - seen
            lack.seen += seen
            lack.again += there.streams[side].again if there else 0
            lost = lost or through > seen
        lack.connections += lost
    return lack


# ---------------------------------------------------------------- the capture, as kproxy reads it
@dataclass
class CaptureReading:
    """The exchanges that kproxy reads from a capture.

    :ivar wanted: number of exchanges whose bytes are all in the capture
    :ivar found: number of these that kproxy reads
    :ivar resuming: number of those not read because they follow a gap in their connection
    :ivar problems: number of exchanges with decoding problems
    """

    wanted: int = 0
    found: int = 0
    resuming: int = 0
    decoded: int = 0
    problems: int = 0


def read_exchanges(
    pattern: str, all_told: dict[int, ConnectionAccount], recorded: dict[int, RecordedConnection]
) -> CaptureReading:
    """Read a capture as kproxy does.

    :raises Wrong: if it misses an exchange of a connection that is complete
    """
    by_port = {one.port: one.number for one in all_told.values()}
    # files of a series are in the order of their names, not of their times, after a clock is set back
    capture = Capture(open_recording(pattern))
    capture.read()
    table = capture.table
    columns = [table.column(name).tolist() for name in ("connection", "correlation_id", "flags")]
    ports: dict[int, int] = {}
    found: dict[int, set[int]] = {}
    for connection, correlation_id, flags in zip(*columns, strict=True):
        if connection not in ports:
            ports[connection] = int(capture.endpoints(connection)[0].rpartition(":")[2])
        number = by_port.get(ports[connection], -1)
        if not flags & _INCOMPLETE:
            found.setdefault(number, set()).add(correlation_id)
    reading = CaptureReading()
    for number, one in recorded.items():
        requests, responses = (stream.whole for stream in one.streams)
        wanted = {n for n in requests if n in responses or not talk.is_answered(number, n)}
        lacking = wanted - found.get(number, set())
        reading.wanted += len(wanted)
        reading.found += len(wanted) - len(lacking)
        if lacking and all(stream.seen == stream.end for stream in one.streams):
            raise Wrong(f"connection {number}: {len(lacking)} exchanges were not read: {sorted(lacking)[:5]}")
        reading.resuming += len(lacking)
    reading.decoded, reading.problems = _decoded(capture)
    return reading


def decode(path: str) -> tuple[int, int]:
    """Decode every exchange of a capture; return the number of exchanges, and of complete ones with problems."""
    capture = open_capture(path)
    capture.read()
    return _decoded(capture)


def _decoded(capture: Capture) -> tuple[int, int]:
    count = problems = 0
    for exchange in ExchangeReader(capture):
        count += 1
        if not _INCOMPLETE_NAMES.intersection(exchange.flags):
            answer = exchange.response
            problems += bool(exchange.request.problems or (answer is not None and answer.problems))
    return count, problems
