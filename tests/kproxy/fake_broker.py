"""A fake broker on the loopback interface that decodes requests and builds responses with the dissectors.

It handles the requests of a connection one at a time and in order, like Kafka, so clients may pipeline. Its built-in
responses are those of an idle cluster: versions, brokers, topics and coordinators, empty fetches. Tests script the
rest: ``answers`` maps an API key to a callable from request body and version to the response body. It may be a
coroutine function (to delay, or to wait for the test) and may return one of these instead of a body:

* ``None``: no response, as for Produce with acks=0;
* ``bytes``: sent unchanged, either a frame with its size field or invalid data;
* :data:`CLOSE`: the connection is closed, as Kafka does for an unsupported version.

Other APIs get a response with all fields at their defaults, which means no error.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any, NamedTuple, Self

from dissectors.apis import api, version_limits
from dissectors.frames import decode_request
from dissectors.headers import ResponseHeader, response_header_version
from dissectors.wire import uuid_text
from tests.waiting import PATIENCE

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
API_VERSIONS, DESCRIBE_CLUSTER = 18, 60
UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION, UNKNOWN_TOPIC_ID = 3, 35, 100
LATEST = -1

CLOSE = object()
"""Returned by an answer to close the connection."""

Body = dict[str, Any]
Answer = Callable[[Body, int], Any]

_SIZE = struct.Struct(">i")


class AdvertisedBroker(NamedTuple):
    """A broker as listed by Metadata, FindCoordinator and DescribeCluster."""

    node_id: int
    host: str
    port: int


@dataclass(slots=True)
class ReceivedRequest:
    """A received request.

    :ivar connection: number of the connection, from 1
    :ivar frame: the request with its size field
    :ivar body: None if the API or version is unsupported, or the bytes are invalid
    """

    connection: int
    key: int
    version: int
    correlation_id: int
    client_id: str | None
    frame: bytes
    body: Body | None


@dataclass(slots=True)
class Topic:
    """A topic of the cluster. The leader of partition n is broker number n modulo their count.

    :ivar end: end offset of each partition
    """

    topic_id: str
    partitions: int = 1
    end: int = 0


@dataclass
class FakeBroker:
    """One broker. ``async with FakeBroker() as broker`` starts it on a free port and ends it.

    :ivar node_id: its own node ID
    :ivar topics: topics by name; :meth:`topic` adds one
    :ivar answers: API key to answer, overriding the built-in response
    :ivar versions: API key to the lowest and highest supported version; other versions are handled as in Kafka
    :ivar advertised: the brokers of the cluster; None means only this broker, at its listening address
    :ivar coordinator: node ID of all coordinators; None means this broker
    :ivar controller_id: node ID of the controller; None means this broker
    :ivar tls: server context, to use TLS
    :ivar received: requests of all connections, in order of arrival
    :ivar port: listening port, 0 before :meth:`start`
    :ivar connections: number of accepted connections
    """

    node_id: int = 1
    topics: dict[str, Topic] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    versions: Mapping[int, tuple[int, int]] = field(default_factory=version_limits)
    advertised: Sequence[tuple[int, str, int]] | None = None
    coordinator: int | None = None
    controller_id: int | None = None
    cluster_id: str = "fake-cluster-of-a-test"
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    port: int = 0
    received: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> Self:
        """Listen, on :attr:`port` if it is not 0, so that a broker can return to its former port."""
        self._server = await asyncio.start_server(self._accepted, self.host, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Stop listening and close all connections; returns once everything is cleaned up."""
        if self._server is not None:
            self._server.close()
        self.drop_connections()
        await asyncio.gather(*self._serving, *self._ending)
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    def drop_connections(self) -> None:
        """Close the current connections; new ones are accepted."""
        for handler in self._serving:
            handler.cancel()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def topic(self, name: str, partitions: int = 1, end: int = 0) -> Topic:
        """Create a topic; its ID follows from its name and the cluster's."""
        named = f"{self.cluster_id}/{name}".encode()
        made = self.topics[name] = Topic(
            uuid_text(md5(named, usedforsecurity=False).digest()), partitions, end
        )
        return made

    @property
    def brokers(self) -> list[AdvertisedBroker]:
        """The brokers of the cluster as advertised."""
        if self.advertised is None:
            return [AdvertisedBroker(self.node_id, self.host, self.port)]
        return [AdvertisedBroker(*each) for each in self.advertised]

    def of(self, key: int) -> list[ReceivedRequest]:
        """Return the received requests of one API."""
        return [request for request in self.received if request.key == key]

    # ------------------------------------------------------------ connections
    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        # the client disconnects, or the test closes the connection
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await self._serve(self.connections, reader, writer)
        self._serving.discard(task)
        self._ending.add(task)
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()
        self._ending.discard(task)

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = await reader.readexactly(4)
            payload = await reader.readexactly(_SIZE.unpack(size)[0])
            request = _received(number, size + payload)
            self.received.append(request)
            answer = self._refusal(request) or await self._answer(request)
            if answer is CLOSE:
                return
            if answer is not None:
                writer.write(answer if isinstance(answer, bytes) else response_frame(request, answer))
                await writer.drain()

    def _refusal(self, request: ReceivedRequest) -> Any:
        """Return Kafka's response to an unsupported version; None if the version is supported."""
        lowest, highest = self.versions.get(request.key, (0, -1))
        if lowest <= request.version <= highest and request.body is not None:
            return None
        if request.key != API_VERSIONS:
            return CLOSE
        known = {"api_key": API_VERSIONS, "min_version": lowest, "max_version": highest}
        return response_frame(request, {"error_code": UNSUPPORTED_VERSION, "api_keys": [known]}, version=0)

    async def _answer(self, request: ReceivedRequest) -> Any:
        assert request.body is not None
        answer = self.answers.get(request.key) or self._own.get(request.key)
        if answer is None:
            return {}
        said = answer(request.body, request.version)
        return await said if inspect.isawaitable(said) else said

    # ------------------------------------------------------------ built-in responses
    @property
    def _own(self) -> dict[int, Answer]:
        return {
            PRODUCE: self.produce,
            FETCH: self.fetch,
            LIST_OFFSETS: self.list_offsets,
            METADATA: self.metadata,
            FIND_COORDINATOR: self.find_coordinator,
            API_VERSIONS: self.api_versions,
            DESCRIBE_CLUSTER: self.describe_cluster,
        }

    def api_versions(self, body: Body, version: int) -> Body:
        """Return :attr:`versions`."""
        keys = [
            {"api_key": key, "min_version": low, "max_version": high}
            for key, (low, high) in self.versions.items()
        ]
        return {"api_keys": keys}

    def metadata(self, body: Body, version: int) -> Body:
        """Return brokers and topics; missing topics are not created."""
        wanted = body["topics"]
        if wanted is None or (version == 0 and not wanted):
            wanted = [{"name": name} for name in self.topics]
        return {
            "brokers": [each._asdict() for each in self.brokers],
            "cluster_id": self.cluster_id,
            "controller_id": self.node_id if self.controller_id is None else self.controller_id,
            "topics": [self._topic_metadata(each) for each in wanted],
        }

    def _topic_metadata(self, wanted: Body) -> Body:
        name = self._name_of(wanted)
        if name not in self.topics:
            error = UNKNOWN_TOPIC_OR_PARTITION if wanted.get("name") else UNKNOWN_TOPIC_ID
            return {
                "error_code": error,
                "name": wanted.get("name"),
                "topic_id": wanted.get("topic_id", _NO_ID),
            }
        topic = self.topics[name]
        nodes = [each.node_id for each in self.brokers]
        partitions = [
            {
                "partition_index": index,
                "leader_id": nodes[index % len(nodes)],
                "leader_epoch": 0,
                "replica_nodes": nodes,
                "isr_nodes": nodes,
            }
            for index in range(topic.partitions)
        ]
        return {"name": name, "topic_id": topic.topic_id, "partitions": partitions}

    def describe_cluster(self, body: Body, version: int) -> Body:
        """Return the brokers."""
        brokers = [{"broker_id": node, "host": host, "port": port} for node, host, port in self.brokers]
        return {
            "endpoint_type": body.get("endpoint_type", 1),
            "cluster_id": self.cluster_id,
            "controller_id": self.node_id if self.controller_id is None else self.controller_id,
            "brokers": brokers,
        }

    def find_coordinator(self, body: Body, version: int) -> Body:
        """Return :attr:`coordinator` for every key."""
        node = self.node_id if self.coordinator is None else self.coordinator
        found = next(each for each in self.brokers if each.node_id == node)._asdict()
        return found | {"coordinators": [{"key": key, **found} for key in body.get("coordinator_keys", ())]}

    def list_offsets(self, body: Body, version: int) -> Body:
        """Return 0 or the end offset, as requested; any timestamp is before the first record."""

        def partition(topic: Topic | None, asked: Body) -> Body:
            index = asked["partition_index"]
            if topic is None or index >= topic.partitions:
                return {"partition_index": index, "error_code": UNKNOWN_TOPIC_OR_PARTITION}
            offset = topic.end if asked["timestamp"] == LATEST else 0
            return {
                "partition_index": index,
                "offset": offset,
                "old_style_offsets": [offset],
                "leader_epoch": 0,
            }

        return {"topics": self._by_partition(body["topics"], "partitions", partition)}

    def fetch(self, body: Body, version: int) -> Body:
        """Return no records; fetch sessions are not supported."""

        def partition(topic: Topic | None, asked: Body) -> Body:
            found: Body = {"partition_index": asked["partition"], "high_watermark": -1, "records": None}
            if topic is None:
                return found | {"error_code": UNKNOWN_TOPIC_OR_PARTITION}
            return found | {
                "high_watermark": topic.end,
                "last_stable_offset": topic.end,
                "log_start_offset": 0,
            }

        return {"responses": self._by_partition(body["topics"], "partitions", partition)}

    def produce(self, body: Body, version: int) -> Body | None:
        """Accept all records, counting one per partition; none are stored."""

        def partition(topic: Topic | None, asked: Body) -> Body:
            index = asked["index"]
            if topic is None:
                return {"index": index, "error_code": UNKNOWN_TOPIC_OR_PARTITION, "base_offset": -1}
            topic.end += 1
            return {"index": index, "base_offset": topic.end - 1}

        told = self._by_partition(body["topic_data"], "partition_data", partition, "partition_responses")
        return {"responses": told} if body["acks"] else None

    def _by_partition(
        self,
        topics: Sequence[Body],
        holder: str,
        partition: Callable[[Topic | None, Body], Body],
        told: str = "partitions",
    ) -> list[Body]:
        return [
            {
                **{name: asked[name] for name in ("name", "topic", "topic_id") if name in asked},
                told: [
                    partition(self.topics.get(self._name_of(asked) or ""), each) for each in asked[holder]
                ],
            }
            for asked in topics
        ]

    def _name_of(self, asked: Body) -> str | None:
        name = asked.get("name") or asked.get("topic")
        if name:
            return str(name)
        ids = {topic.topic_id: known for known, topic in self.topics.items()}
        return ids.get(asked.get("topic_id", _NO_ID))


_NO_ID = uuid_text(bytes(16))


def _received(connection: int, frame: bytes) -> ReceivedRequest:
    decoded = decode_request(frame[4:])
    exact = not decoded.problems and decoded.version == decoded.asked
    return ReceivedRequest(
        connection,
        decoded.key,
        decoded.asked,
        decoded.header.get("correlation_id", 0),
        decoded.header.get("client_id"),
        frame,
        decoded.value if exact else None,
    )


def response_frame(request: ReceivedRequest, body: Body, *, version: int | None = None) -> bytes:
    """Return a response with its size field.

    :param version: version of the response, by default that of the request
    """
    known = api(request.key)
    assert known is not None
    built = request.version if version is None else version
    header = ResponseHeader[response_header_version(known.response, built)]
    payload: bytes = header.build({"correlation_id": request.correlation_id})
    payload += known.response[built].build(body)
    return _SIZE.pack(len(payload)) + payload


async def cluster(*brokers: FakeBroker) -> list[FakeBroker]:
    """Start brokers as one cluster: each advertises all, they share topics, and the first is the controller."""
    for broker in brokers:
        await broker.start()
    first = brokers[0]
    for broker in brokers:
        broker.topics = first.topics
        broker.cluster_id = first.cluster_id
        broker.advertised = [(each.node_id, each.host, each.port) for each in brokers]
        broker.controller_id = first.node_id
    return list(brokers)


@contextmanager
def running_in_thread() -> Iterator[FakeBroker]:
    """Run a broker in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    fake = FakeBroker()
    asyncio.run_coroutine_threadsafe(fake.start(), loop).result(PATIENCE)
    yield fake
    asyncio.run_coroutine_threadsafe(fake.stop(), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()
