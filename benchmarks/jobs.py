"""The jobs whose work :mod:`benchmarks.work` counts: one for each path that bytes take through kproxy.

A job is prepared for a size: 1, or 2 with twice the traffic. Its input is made before counting starts. Each run starts
from scratch and returns its result, which stays alive while objects are counted. Nothing here depends on the machine:
no clock, no random number without a seed, no other process, and no path except file names in the current folder.
"""

from __future__ import annotations

import asyncio
import io
import os
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks import traffic
from benchmarks.messages import samples
from captures.exchanges import Capture, ExchangeReader, open_capture
from dissectors.conversation import Conversation, Side
from dissectors.records import Batch, Record
from dissectors.records.build import build_batch
from kproxy.proxy.brokers import Brokers, Ports
from kproxy.proxy.plane import Plane
from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.reports import Reports
from kproxy.proxy.session import Session
from kproxy.proxy.settings import Settings
from kproxy.proxy.verdicts import Peers
from tests.batches import batches
from tests.kproxy.frames import request_frame, response_frame

FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS = 1, 3, 10, 18

#: newer versions than in the generated captures: a proxy serves current clients
_VERSIONS = {0: 9, 1: 12, METADATA: 12, 8: 8, FIND_COORDINATOR: 4, 12: 4}
#: the first exchanges of a client's connection
_ASKED_VERSIONS = request_frame(API_VERSIONS, 3, {"client_software_name": "client"})
_OFFERED_VERSIONS = response_frame(
    API_VERSIONS,
    3,
    {
        "api_keys": [
            {"api_key": key, "min_version": 0, "max_version": last} for key, last in _VERSIONS.items()
        ]
    },
)
_PARTITIONS = 50
_READ = 1 << 16
"""Bytes that a socket gives at once, when there are so many."""
_RECORDS = 10_000
_PIECES = 5_000
_PIECE = 40
_SYN = 0x02
_TCP_FLAGS = 14 + 20 + 13
_LOSE = 50
_RANGES = 3


class PreparedJob(NamedTuple):
    """A job that can be run.

    :ivar units: number of the job's units that one run processes
    :ivar run: runs the job and returns its result
    """

    units: int
    run: Callable[[], object]


class Job(NamedTuple):
    """A job whose work is counted.

    :ivar unit: the unit to which figures refer
    :ivar make: prepares the job for a size
    """

    name: str
    unit: str
    make: Callable[[int], PreparedJob]


# ---------------------------------------------------------------- captures
def _mixed(connection: int) -> Iterator[traffic.Ask]:
    """Mix four connections with batches and one with small messages."""
    return traffic.tiny(connection, 30) if connection % 5 == 4 else traffic.steady(connection, 30)


class _Script(NamedTuple):
    """The exchanges of several connections."""

    script: traffic.Script
    connections: int


_SCRIPTS = {
    "steady": _Script(partial(traffic.steady, exchanges=60), 10),
    "tiny": _Script(partial(traffic.tiny, exchanges=60), 10),
    "mixed": _Script(_mixed, 5),
}


def captured(script: str, copies: int) -> str:
    """Make a capture in the current folder, and return its name."""
    unit, path = Path(f"{script}-unit.pcap"), Path(f"{script}-{copies:02}.pcap")
    if not path.exists():
        if not unit.exists():
            traffic.write(unit, *_SCRIPTS[script])
        traffic.repeat(unit, path, copies * unit.stat().st_size)
    return str(path)


def damaged(path: str, lose: int = _LOSE) -> str:
    """Remove the handshakes and some packets of a capture, as if it had started late on a busy machine.

    :param lose: one packet in so many is left out; 0 for none
    """
    name = Path(path).with_stem(f"{Path(path).stem}-lossy")
    data = Path(path).read_bytes()
    with name.open("wb") as file:
        file.write(data[:24])
        at, number = 24, 0
        while at < len(data):
            end = at + 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            number += 1
            if not data[at + 16 + _TCP_FLAGS] & _SYN and (not lose or number % lose):
                file.write(data[at:end])
            at = end
    return str(name)


def whole(path: str) -> Capture:
    """Read a capture to its end."""
    capture = open_capture(path)
    capture.read()
    return capture


def _table(script: str, copies: int, size: int, *, lossy: bool = False) -> PreparedJob:
    path = captured(script, copies * size)
    if lossy:
        path = damaged(path)
    return PreparedJob(len(whole(path).table), partial(whole, path))


# ---------------------------------------------------------------- what is made of captures
def _json(size: int) -> PreparedJob:
    from kproxy.cli.read import ReadRun

    path = captured("mixed", size)

    def run() -> bytes:
        written = io.BytesIO()
        with redirect_stdout(io.TextIOWrapper(written, write_through=True)):
            # work of other processes is not counted
            with suppress(SystemExit):
                ReadRun.command.main(["--json", "--jobs", "1", path], standalone_mode=False)
            sys.stdout.flush()
            return written.getvalue()

    return PreparedJob(len(whole(path).table), run)


def _rows(size: int) -> PreparedJob:
    from captures.tables.exchange_rows import ExchangeTables
    from captures.tables.schema import TABLES
    from captures.tables.whole_rows import WholeTables

    capture = whole(captured("mixed", size))
    names = tuple(TABLES)

    def run() -> object:
        reader = ExchangeReader(capture, annotate=False, summary=False)
        topics = reader.knowledge.topic_name
        rows = ExchangeTables(names, names=topics, run=0)
        all_of_it = WholeTables(capture, topics, names, run=0)
        reader.learn(len(reader))
        made = []
        for exchange in reader.several(range(len(reader))):
            rows.add(exchange)
            all_of_it.add(exchange)
            if rows.full:
                made.append(rows.take())
        return [*made, rows.take(), list(all_of_it.batches())]

    return PreparedJob(len(capture.table), run)


def _diagnosed(size: int) -> PreparedJob:
    from captures.analysis.decision_columns import TAKEN
    from captures.analysis.findings.diagnosis import Diagnosis
    from captures.exchanges.columns import ExchangeColumns

    capture = whole(captured("mixed", size))

    def run() -> object:
        reader = ExchangeReader(capture, annotate=False, summary=False)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
        columns = ExchangeColumns(capture, reader.rows)
        columns.prepare(TAKEN)
        deque(diagnosis.add_all(reader, columns, np.arange(len(reader))), maxlen=0)
        return diagnosis, diagnosis.findings(), diagnosis.blind()

    return PreparedJob(len(capture.table), run)


def _columns(size: int) -> PreparedJob:
    from captures.exchanges.columns import COLUMNS, ExchangeColumns
    from captures.filters import TableColumns, compile_filter
    from captures.filters.filter import context_of

    capture = whole(captured("mixed", 2 * size))
    filters = [
        compile_filter(text)
        for text in (
            "api == Fetch and latency > 20ms",
            "error or topic ~ ^orders-1",
            "group ~ group-1 and not unanswered",
            "records > 3 or throttle > 0ms",
        )
    ]

    def run() -> object:
        messages = ExchangeColumns(capture)
        messages.prepare(COLUMNS)
        reader = ExchangeReader(capture)
        columns_of = TableColumns(
            capture.table, capture.endpoints, start=0, names=capture.names, messages=messages
        )
        return messages, [wanted.mask(columns_of, context_of(reader, wanted)) for wanted in filters]

    return PreparedJob(len(capture.table), run)


def _ranges(size: int) -> PreparedJob:
    from captures.ranges.jobs import Input, read_exchanges, read_here
    from captures.ranges.plan import make_plan

    path = captured("mixed", size)
    part = -(-Path(captured("mixed", 1)).stat().st_size // _RANGES)

    def run() -> object:
        plan = make_plan([path], part)
        # plans have absolute paths, whose length depends on the machine
        for file in plan.files:
            file.path = path
        read = read_here(Input(plan, buckets=2))
        return [
            exchange.number
            for context in read.numbered.contexts
            for exchange in read_exchanges(read.given, context, read.numbered.facts).exchanges()
        ]

    return PreparedJob(len(whole(path).table), run)


# ---------------------------------------------------------------- messages and records
def _messages(size: int) -> PreparedJob:
    work = [(sample.layout.parse, sample.data) for sample in samples()] * (5 * size)
    return PreparedJob(len(work), lambda: [parse(data) for parse, data in work])


def _traced(size: int) -> PreparedJob:
    # from a heartbeat to the metadata of fifty topics: one of each is enough
    work = [(sample.layout.trace, sample.data) for sample in samples()] * size
    return PreparedJob(len(work), lambda: [trace(data) for trace, data in work])


def _batch(count: int) -> bytes:
    rng = Random(0)
    start = 1_700_000_000_000
    return build_batch(
        Record(offset, start + offset, b"key-%06d" % offset, rng.randbytes(100), ())
        for offset in range(count)
    )


def _records(read: Callable[[Batch], object], count: int, size: int) -> PreparedJob:
    data = _batch(count * size)
    return PreparedJob(count * size, lambda: [read(batch) for batch in batches(data)])


def _large_batches(size: int) -> PreparedJob:
    """Read records of large batches. Offset deltas grow from record 8,192 on, so twice the records are two batches."""
    data = _batch(_RECORDS) * size
    return PreparedJob(_RECORDS * size, lambda: [batch.records() for batch in batches(data)])


# ---------------------------------------------------------------- a frame in pieces
def _pieces(size: int) -> list[bytes]:
    """Return a Produce request in small pieces."""
    total = _PIECES * size * _PIECE
    frame = struct.pack(">ihhih", total - 4, 0, 9, 1, -1).ljust(total, b"x")
    return [frame[at : at + _PIECE] for at in range(0, total, _PIECE)]


def _assembled(size: int) -> PreparedJob:
    pieces = _pieces(size)

    def run() -> object:
        conversation = Conversation()
        seen = []
        for piece in pieces:
            conversation.receive(Side.CLIENT, piece)
            seen += conversation.events()
        conversation.finish("the end")
        return seen, list(conversation.events())

    return PreparedJob(len(pieces), run)


def _pieces_captured(size: int) -> PreparedJob:
    """The same request in a capture that begins after the handshake: read, reassembled, and inspected."""
    path, count = Path(f"pieces-{size}.pcap"), _PIECES // 8 * size
    records = _batch(count * _PIECE // 120)

    def script(connection: int) -> Iterator[traffic.Ask]:
        sent = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
        stored = [{"name": "orders", "partition_responses": [{"index": 0}]}]
        request = {"acks": -1, "timeout_ms": 1000, "topic_data": sent}
        for _ in range(2):
            yield traffic.Ask(0, request, {"responses": stored}, 1_000_000)

    with mock.patch.object(traffic, "ETHERNET_SEGMENT", _PIECE):
        traffic.write(path, script, 1)
    lossy = damaged(str(path), lose=0)

    def run() -> object:
        reader = ExchangeReader(whole(lossy))
        return [reader.exchange(index) for index in range(len(reader))]

    return PreparedJob(2 * count, run)


# ---------------------------------------------------------------- the data plane
class Transport:
    """Accepts all written data, like the transport of a peer that keeps up."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int) -> None:
        """Do nothing: this transport never buffers."""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written.append(data)


@contextmanager
def forwarding(*, recorded: bool = False, rewrites: bool = True) -> Iterator[Session]:
    """A connection through a data plane without sockets, which gets bytes as from the event loop."""

    async def made() -> Plane:
        mode = "rewrite" if rewrites else "passthrough"
        tee = RecordingOptions(on=recorded, queue=1 << 23)
        return Plane(Settings(run_folder="run", mode=mode, recorded=tee), Reports(nowhere))

    nowhere = os.open(os.devnull, os.O_WRONLY)
    loop = asyncio.new_event_loop()
    try:
        plane = loop.run_until_complete(made())
        (cluster,) = plane.clusters
        cluster.brokers = Brokers(
            Ports.parse("any", 19092),
            "proxy.test",
            lambda place, _: 19092 + place.node_id,
            lambda place, _: None,
        )
        ends = ("10.0.0.1", 40_000), ("10.0.0.9", 9092)
        session = Session(cluster, Peers(1, *ends))
        session.requests.connection_made(Transport())
        session.responses.connection_made(Transport())
        session.record(plane.recordings.open(*ends, 0))
        session.requests.data_received(_ASKED_VERSIONS)
        session.responses.data_received(_OFFERED_VERSIONS)
        yield session
        tee = plane.recordings.tee
        if tee is not None:
            assert not tee.dropped_bytes
            tee.close()
    finally:
        loop.close()
        os.close(nowhere)


def _fetched(size: int) -> list[tuple[bytes, bytes]]:
    """Return Fetches whose responses have records of many partitions."""
    partitions = [{"partition_index": index, "records": _batch(1)} for index in range(_PARTITIONS)]
    topic = {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": partitions}
    poll = request_frame(FETCH, 17, {"topics": [], "forgotten_topics_data": []})
    return [(poll, response_frame(FETCH, 17, {"responses": [topic]}))] * (100 * size)


def conversation(asks: Iterator[traffic.Ask], count: int) -> list[tuple[bytes, bytes]]:
    """Return requests and responses in the order of the wire."""
    return [
        (
            request_frame(ask.key, _VERSIONS[ask.key], ask.request, number),
            response_frame(ask.key, _VERSIONS[ask.key], ask.response, number),
        )
        for number, ask in enumerate(islice(asks, count))
    ]


def _talk(size: int) -> list[tuple[bytes, bytes]]:
    count = 150 * size
    return [
        pair
        for one, two, three in zip(
            conversation(traffic.tiny(0, count), count),
            conversation(traffic.steady(0, count), count),
            conversation(traffic.steady(1, 4 * count), count),
            strict=True,
        )
        for pair in (one, two, three)
    ]


def cluster(size: int) -> list[tuple[bytes, bytes]]:
    """Return requests whose responses have addresses of brokers."""
    brokers = [{"node_id": node, "host": f"b{node}", "port": 9092, "rack": None} for node in range(3)]
    partitions = [
        {"partition_index": index, "leader_id": index % 3, "replica_nodes": [0, 1, 2], "isr_nodes": [0, 1, 2]}
        for index in range(12)
    ]
    topics = [{"name": f"orders-{number}", "partitions": partitions} for number in range(3)]
    metadata = traffic.Ask(METADATA, {"topics": None}, {"brokers": brokers, "topics": topics}, 0)
    coordinators = [{"key": "group", "node_id": 1, "host": "b1", "port": 9092}]
    found = traffic.Ask(FIND_COORDINATOR, {"coordinator_keys": ["group"]}, {"coordinators": coordinators}, 0)
    return conversation(iter([metadata, found] * (50 * size)), 100 * size)


def _frames(
    talk: Callable[[int], list[tuple[bytes, bytes]]], size: int, *, recorded: bool = False
) -> PreparedJob:
    """One frame per read from the socket, as between a client and a broker that wait for each other."""
    frames = talk(size)

    def run() -> object:
        with forwarding(recorded=recorded) as session:
            ask, answer = session.requests.data_received, session.responses.data_received
            for request, response in frames:
                ask(request)
                answer(response)
            return session.requests.transport, session.responses.transport

    return PreparedJob(len(frames), run)


def _buffers(size: int) -> PreparedJob:
    """A full buffer per read, which starts and ends anywhere, as with many frames in flight."""
    frames = _talk(size)
    asked, answered = (b"".join(side) for side in zip(*frames, strict=True))

    def run() -> object:
        with forwarding(recorded=True) as session:
            for half, data in ((session.requests, asked), (session.responses, answered)):
                for at in range(0, len(data), _READ):
                    half.data_received(data[at : at + _READ])
            return session.requests.transport, session.responses.transport

    return PreparedJob(len(frames), run)


def _collected(size: int) -> PreparedJob:
    """A Metadata response that arrives in small pieces and is collected to be rewritten."""
    count = _PIECES // 4 * size
    topics = [{"name": "orders", "partitions": []}]
    frame = response_frame(METADATA, 12, {"brokers": [], "topics": topics * (2 * count)})
    step = -(-len(frame) // count)
    pieces = [frame[at : at + step] for at in range(0, len(frame), step)]
    request = request_frame(METADATA, 12, {"topics": None})

    def run() -> object:
        with forwarding() as session:
            session.requests.data_received(request)
            for piece in pieces:
                session.responses.data_received(piece)
            return session.responses.transport

    return PreparedJob(len(pieces), run)


JOBS = (
    Job("table of steady traffic", "exchange", partial(_table, "steady", 6)),
    Job("table of tiny messages", "exchange", partial(_table, "tiny", 6)),
    Job("table of a damaged capture", "exchange", partial(_table, "mixed", 2, lossy=True)),
    Job("table by ranges", "exchange", _ranges),
    Job("read --json", "exchange", _json),
    Job("messages", "message", _messages),
    Job("messages traced", "message", _traced),
    Job("records", "record", partial(_records, Batch.records, _RECORDS * 2 // 5)),
    Job("records of large batches", "record", _large_batches),
    Job("frame in pieces", "piece", _assembled),
    Job("frame in pieces, captured", "piece", _pieces_captured),
    Job("proxy", "exchange", partial(_frames, _talk)),
    Job("proxy, many partitions fetched", "exchange", partial(_frames, _fetched)),
    Job("proxy that records", "exchange", partial(_frames, _talk, recorded=True)),
    Job("proxy that records bufferfuls", "exchange", _buffers),
    Job("proxy that rewrites", "exchange", partial(_frames, cluster)),
    Job("proxy that rewrites what comes in pieces", "piece", _collected),
    Job("tables", "exchange", _rows),
    Job("diagnose", "exchange", _diagnosed),
    Job("columns of the list, and filters", "exchange", _columns),
)
