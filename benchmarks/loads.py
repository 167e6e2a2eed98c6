"""The loads that proxies are measured with: one request that is repeated, and its response.

Client and server are C programs (``benchmarks/load``), compiled on first use, because they must be faster than the
measured proxies. The frames are real Kafka messages made by the dissectors, so a proxy that reads responses or rewrites
addresses in them does so here too. Proxies that do not know Kafka forward the same bytes.
"""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import time_ns
from typing import Any, NamedTuple

from dissectors.apis import Api, api
from dissectors.frames import decode_response
from dissectors.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from dissectors.records import Record
from dissectors.records.build import build_batch
from dissectors.wire import UNKNOWN_TAGS
from tests.lanes.tools import CannotRun, free_ports, listens, need, run, wait_for

_SOURCES = Path(__file__).parent / "load"
_SIZE = struct.Struct(">i")
_SMALL = 200
_BATCH = 100
_PARTITIONS = (1, 50, 200)
_FETCH_SESSION = 0x1A2B3C4D
_LARGE = 1_000_000
_CLIENT_ID = "%02d benchmark"
"""It begins with the number of the load, by which the server finds the answer."""

PRODUCE, FETCH, METADATA, HEARTBEAT, API_VERSIONS = 0, 1, 3, 12, 18
_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # some topic ID, as text

_PATIENCE_S = 60


class Topic(NamedTuple):
    """A topic whose partition 0 a load produces to or fetches from."""

    name: str = "benchmark"
    topic_id: str = _ID


class Ask(NamedTuple):
    """A message in one version."""

    key: int
    version: int
    body: dict[str, Any]


@dataclass(frozen=True)
class Load:
    """A load: the request, the number of clients, and the figure that counts.

    :ivar asked: makes the request
    :ivar answer: the response of our own server; None if a real broker responds
    :ivar connections: number of busy connections
    :ivar window: requests in flight on each of them
    :ivar idle: number of idle connections, which sent one request
    :ivar processes: number of client processes, each with these connections
    :ivar bulk: whether bytes per second count, not requests per second
    """

    name: str
    about: str
    asked: Callable[[Topic], Ask]
    answer: Ask | None = None
    connections: int = 1
    window: int = 1
    idle: int = 0
    processes: int = 1
    bulk: bool = False


class Result(NamedTuple):
    """The measurements of a client.

    :ivar rate: requests per second
    :ivar mb_s: MB per second, in the direction with more of them
    :ivar p50: microseconds, like p99; of several processes, those of the slowest
    """

    requests: int
    rate: float
    mb_s: float
    p50: float
    p99: float


# ---------------------------------------------------------------- frames
def _known(key: int) -> Api:
    known = api(key)
    assert known is not None
    return known


def request_frame(ask: Ask, client_id: str = _CLIENT_ID % 99) -> bytes:
    """Return a request with its header."""
    header = {
        "request_api_key": ask.key,
        "request_api_version": ask.version,
        "correlation_id": 0,
        "client_id": client_id,
    }
    message = _known(ask.key).request
    built = RequestHeader[request_header_version(message, ask.version)].build(header)
    return _framed(built + message[ask.version].build(ask.body))


def response_frame(answer: Ask) -> bytes:
    """Return a response with its header."""
    message = _known(answer.key).response
    built = ResponseHeader[response_header_version(message, answer.version)].build({"correlation_id": 0})
    return _framed(built + message[answer.version].build(answer.body))


def _framed(payload: bytes) -> bytes:
    return _SIZE.pack(len(payload)) + payload


def _padded(make: Callable[[int], bytes], size: int) -> int:
    """Return the padding that gives a frame a size."""
    padding = size - len(make(0))
    return padding - (len(make(padding)) - size)


# ---------------------------------------------------------------- loads
def _heartbeat(_: Topic) -> Ask:
    def ask(padding: int) -> Ask:
        group = "g" * padding
        return Ask(
            HEARTBEAT, 4, {"group_id": group, "generation_id": 1, "member_id": "m", "group_instance_id": None}
        )

    return ask(_padded(lambda padding: request_frame(ask(padding)), _SMALL))


def _still_a_member() -> Ask:
    """Return the response, with an unknown tagged field that makes it as long as the request."""

    def answer(padding: int) -> Ask:
        body = {"throttle_time_ms": 0, "error_code": 0, UNKNOWN_TAGS: {100: bytes(padding)}}
        return Ask(HEARTBEAT, 4, body)

    return answer(_padded(lambda padding: response_frame(answer(padding)), _SMALL))


_HELLO = Ask(API_VERSIONS, 3, {"client_software_name": "benchmark", "client_software_version": "1"})
"""What every connection begins with, as those of clients do."""


@cache
def _records(size: int) -> bytes:
    now = time_ns() // 1_000_000  # a broker deletes old records
    values = [bytes(1000)] * (size // 1000) or [bytes(size)]
    return build_batch([Record(index, now, None, value) for index, value in enumerate(values)])


def _produced(size: int) -> Callable[[Topic], Ask]:
    return lambda to: produced(to, _records(size))


def produced(to: Topic, records: bytes, acks: int = -1, partitions: int = 1) -> Ask:
    """Return a Produce request with a batch for each of the first partitions of a topic."""
    data = [{"index": index, "records": records} for index in range(partitions)]
    topic = {"name": to.name, "partition_data": data}
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 30_000, "topic_data": [topic]}
    return Ask(PRODUCE, 11, body)


def acknowledged(to: Topic = Topic(), partitions: int = 1) -> Ask:  # noqa: B008  # it is immutable
    """Return the successful response to a Produce."""
    taken = [
        {
            "index": index,
            "error_code": 0,
            "base_offset": 0,
            "log_append_time_ms": -1,
            "log_start_offset": 0,
            "record_errors": [],
            "error_message": None,
        }
        for index in range(partitions)
    ]
    responses = [{"name": to.name, "partition_responses": taken}]
    return Ask(PRODUCE, 11, {"responses": responses, "throttle_time_ms": 0})


def fetched(topic: Topic) -> Ask:
    """Return a Fetch request for partition 0 of a topic."""
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _LARGE,
    }
    return _fetch(0, -1, [{"topic_id": topic.topic_id, "partitions": [partition]}])


def _polled(_: Topic) -> Ask:
    """Return a Fetch request of an incremental session without changes (KIP-227)."""
    return _fetch(_FETCH_SESSION, 1, [])


def _fetch(session_id: int, epoch: int, topics: list[dict[str, Any]]) -> Ask:
    body = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": _LARGE,
        "isolation_level": 0,
        "session_id": session_id,
        "session_epoch": epoch,
        "topics": topics,
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return Ask(FETCH, 17, body)


def records_fetched(records: bytes, partitions: int = 1) -> Ask:
    """Return the Fetch response with a batch of each partition; it is empty for no partitions."""
    fetched = [
        {
            "partition_index": index,
            "error_code": 0,
            "high_watermark": 1000,
            "last_stable_offset": 1000,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "preferred_read_replica": -1,
            "records": records,
        }
        for index in range(partitions)
    ]
    responses = [{"topic_id": _ID, "partitions": fetched}] if fetched else []
    session_id = 0 if partitions == 1 else _FETCH_SESSION
    return Ask(
        FETCH,
        17,
        {"throttle_time_ms": 0, "error_code": 0, "session_id": session_id, "responses": responses},
    )


def _fetch_load(partitions: int) -> Load:
    return Load(
        f"fetch-{partitions}",
        f"Fetch responses with {partitions} partitions of {_BATCH} bytes, one connection, one at a time",
        _polled,
        records_fetched(_records(_BATCH), partitions),
    )


def _produce_load(partitions: int) -> Load:
    return Load(
        f"produce-{partitions}",
        f"Produce requests to {partitions} partitions, {_BATCH} bytes to each, one connection, one at a time",
        lambda to: produced(to, _records(_BATCH), partitions=partitions),
        acknowledged(partitions=partitions),
    )


def metadata(port: int) -> dict[str, Any]:
    """Return a Metadata response, version 12: one broker on a port of the loopback interface, no topics."""
    return {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": 0, "host": "127.0.0.1", "port": port, "rack": None}],
        "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg",
        "controller_id": 0,
        "topics": [],
    }


def _all_topics(_: Topic) -> Ask:
    return Ask(
        METADATA,
        12,
        {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False},
    )


def _cluster() -> Ask:
    """Return the metadata of ten topics with six partitions each, on three brokers."""
    brokers = [
        {"node_id": node, "host": f"broker-{node}.example.com", "port": 9092, "rack": None}
        for node in range(3)
    ]
    partitions = [
        {
            "error_code": 0,
            "partition_index": index,
            "leader_id": index % 3,
            "leader_epoch": 0,
            "replica_nodes": [0, 1, 2],
            "isr_nodes": [0, 1, 2],
            "offline_replicas": [],
        }
        for index in range(6)
    ]
    topics = [
        {
            "error_code": 0,
            "name": f"orders-{number}",
            "topic_id": _ID,
            "is_internal": False,
            "partitions": partitions,
        }
        for number in range(10)
    ]
    return Ask(METADATA, 12, metadata(0) | {"brokers": brokers, "topics": topics})


LOADS = (
    Load(
        "pingpong",
        "200 bytes each way (Heartbeat), one connection, one at a time",
        _heartbeat,
        _still_a_member(),
    ),
    Load(
        "many",
        "the same on 200 connections at once, beside 1,000 idle ones",
        _heartbeat,
        _still_a_member(),
        connections=200,
        idle=1000,
    ),
    Load(
        "processes",
        "200 bytes each way on 200 connections of four processes",
        _heartbeat,
        _still_a_member(),
        connections=50,
        processes=4,
    ),
    Load("fetch-empty", "empty polls, one connection, one at a time", _polled, records_fetched(b"", 0)),
    *map(_fetch_load, _PARTITIONS),
    Load(
        "fetch-many",
        "Fetch responses with 50 partitions on 200 connections of two processes",
        _polled,
        records_fetched(_records(_BATCH), 50),
        connections=100,
        processes=2,
    ),
    *map(_produce_load, _PARTITIONS),
    Load(
        "metadata",
        "Metadata of 10 topics with 6 partitions, one connection, one at a time",
        _all_topics,
        _cluster(),
    ),
    Load(
        "fetch",
        "Fetch responses of 1 MB on one connection",
        fetched,
        records_fetched(_records(_LARGE)),
        window=2,
        bulk=True,
    ),
    Load(
        "produce",
        "Produce requests of 1 MB on one connection",
        _produced(_LARGE),
        acknowledged(),
        window=2,
        bulk=True,
    ),
    Load("broker-produce", "real broker: 200 bytes produced with acks=all, one at a time", _produced(_SMALL)),
    Load(
        "broker-bulk-produce",
        "real broker: 1 MB produced at a time",
        _produced(_LARGE),
        window=2,
        bulk=True,
    ),
    Load("broker-bulk-fetch", "real broker: 1 MB fetched at a time", fetched, window=2, bulk=True),
)


# ---------------------------------------------------------------- the programs
@cache
def _program(name: str) -> Path:
    """Compile a program of ``benchmarks/load`` if that was not done before.

    :raises CannotRun: without a compiler
    """
    sources = [_SOURCES / f"{name}.c", _SOURCES / "wire.h"]
    code = sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / "kproxy-benchmarks"
    folder.mkdir(exist_ok=True)
    program = folder / f"{name}-{code}"
    if not program.exists():
        need("gcc")
        run(["gcc", "-O2", "-o", program, sources[0]])
    return program


def _written(folder: Path, name: str, frame: bytes) -> Path:
    path = folder / name
    path.write_bytes(frame)
    return path


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """Run a server with the responses to all loads, as one broker of a cluster; yields its port."""
    [port] = free_ports(1)
    answers = {
        f"{load.answer.key}/{number:02}": load.answer
        for number, load in enumerate(LOADS)
        if load.answer is not None
    }
    answers[f"{API_VERSIONS}"] = Ask(API_VERSIONS, 3, api_versions(_OFFERED))
    answers[f"{METADATA}"] = Ask(METADATA, 12, metadata(port))
    files = {
        which: _written(folder, f"answer-{which.replace('/', '-')}", response_frame(each))
        for which, each in answers.items()
    }
    arguments = [f"{which}:{file}" for which, file in files.items()]
    process = subprocess.Popen([_program("server"), str(port), *arguments])
    try:
        wait_for("the server", lambda: listens(port))
        yield port
    finally:
        process.terminate()
        process.wait()


_OFFERED = {PRODUCE: 11, FETCH: 17, METADATA: 12, HEARTBEAT: 4, API_VERSIONS: 3}


def api_versions(offered: Mapping[int, int]) -> dict[str, Any]:
    """Return an ApiVersions response, version 3, that offers one version of each API."""
    keys = [
        {"api_key": key, "min_version": 0 if key == API_VERSIONS else most, "max_version": most}
        for key, most in offered.items()
    ]
    return {"error_code": 0, "api_keys": keys, "throttle_time_ms": 0}


def measure(
    load: Load,
    port: int,
    folder: Path,
    seconds: float,
    *,
    topic: Topic = Topic(),  # noqa: B008  # it is immutable
    rate: float = 0,
    begun: Callable[[], None] = lambda: None,
    done: Callable[[], None] = lambda: None,
) -> Result:
    """Run a client against a port.

    :param rate: most requests per second, 0 for no limit
    :param begun: called when all connections are open and measuring starts
    :param done: called at the end, while they are still open
    :raises CannotRun: if connections break, responses do not match requests, or a broker responds with an error
    """
    ask = load.asked(topic)
    client_id = _CLIENT_ID % LOADS.index(load)
    hello = _written(folder, "hello", request_frame(_HELLO, client_id))
    file = _written(folder, f"{load.name}-request", request_frame(ask, client_id))
    numbers = [load.connections, load.window, seconds, load.idle, rate / load.processes]
    command = [str(_program("client")), str(port), str(hello), str(file), *map(str, numbers)]
    with ExitStack() as stack:
        clients = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(load.processes)
        ]
        if all(_lines(clients)):
            begun()
        lines = _lines(clients)
        if all(lines):
            done()
        for client in clients:
            assert client.stdin is not None
            client.stdin.close()
        codes = [client.wait(_PATIENCE_S) for client in clients]
        if any(codes) or not all(lines):
            raise CannotRun(f"{load.name} did not get through")
    told = [json.loads(line) for line in lines]
    _check(ask, bytes.fromhex(told[0]["last"]))
    seconds = max(each["seconds"] for each in told)
    requests = sum(each["requests"] for each in told)
    size = max(sum(each[side] for each in told) for side in ("sent", "received"))
    slowest = max(told, key=lambda each: each["p50"])
    return Result(requests, requests / seconds, size / seconds / 1e6, slowest["p50"], slowest["p99"])


def _lines(clients: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Return the next line of each client."""
    return [client.stdout.readline() for client in clients if client.stdout is not None]


def _check(ask: Ask, start: bytes) -> None:
    """Check the response: a broker reports in it what was wrong with the request."""
    body = decode_response(start[_SIZE.size :], ask.key, ask.version, complete=False).value
    for error in _errors(body):
        raise CannotRun(f"the broker answered with error {error}")


def _errors(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        if value.get("error_code"):
            yield value["error_code"]
        for each in value.values():
            yield from _errors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _errors(each)
