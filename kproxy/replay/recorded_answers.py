"""Recorded responses, found by the content of requests: what :mod:`.server` answers with.

The n-th request with some content gets the response to the n-th recorded one, and later requests the last. Content is
compared with topics by name and lists in any order. If no recorded request is the same, fields are left out that differ
between runs of one client (:data:`_CHOSEN`), and then what depends on timing (:data:`_TIMED`); finally groups and
transactions may have other names. The client finds its own identifiers in the response.

How a client spreads records over batches, and partitions over requests, depends on timing. So Produce is answered
record by record, and Fetch partition by partition. A Fetch never gets a session (KIP-227), so that each names all
partitions. Responses about partitions and Metadata of topics that were not requested together are composed.

Which records a member of a share group acquires, and when it acknowledges them, depends on timing, too: ShareFetch gets
the recorded responses with records in order, ShareAcknowledge always succeeds.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from captures.exchanges import Exchange, ExchangeReader
from captures.meaning import topic_partitions
from captures.meaning.payload import headers
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.budget import message_budget
from dissectors.embedded import sasl
from dissectors.embedded.model import Hints
from dissectors.frames import Body
from dissectors.headers import SIZE_BYTES, framed, response_frame
from dissectors.message_version import MessageVersion
from dissectors.records import record_set
from dissectors.visitor import Holders, replaced
from kproxy.proxy.rules.answers import rebuilt
from kproxy.replay.fetch_sessions import FetchSessions
from kproxy.replay.response_comparison import EXPECTED_TO_DIFFER, comparable

T = TypeVar("T")

_CHOSEN = frozenset({"member_id", "client_software_name", "client_software_version", "reason", "timeout_ms"})
"""Request fields that a client may fill differently in each run."""
_TIMED = frozenset(EXPECTED_TO_DIFFER) | {
    *("generation_id_or_member_epoch", "share_session_epoch"),
    *("committed_offset", "committed_metadata", "metadata", "assignment"),
}
"""Request fields whose values depend on the broker's earlier responses and on timing."""
_NAMED = ("groupId", "transactionalId")
SASL_MECHANISMS = ("PLAIN", "OAUTHBEARER")
"""Mechanisms that a server can accept without knowing any secret."""
_SUCCESSES: Mapping[ApiKey, Mapping[str, Any]] = {
    ApiKey.SASL_HANDSHAKE: {"mechanisms": SASL_MECHANISMS},
    ApiKey.SASL_AUTHENTICATE: {"error_message": None, "auth_bytes": b""},
}
"""Responses to the SASL requests of clients, whatever SASL the recorded ones used."""
_COORDINATOR_KEYS = ("key", "coordinator_keys")


class _PartitionFields(NamedTuple):
    """Where a request and its response have topics and partitions."""

    requested_topics: str = "topics"
    requested_partitions: str = "partitions"
    topics: str = "topics"
    partitions: str = "partitions"


_FIELDS = {
    ApiKey.FETCH: _PartitionFields(topics="responses"),
    ApiKey.PRODUCE: _PartitionFields("topic_data", "partition_data", "responses", "partition_responses"),
    ApiKey.LIST_OFFSETS: _PartitionFields(),
    ApiKey.OFFSET_COMMIT: _PartitionFields(),
    ApiKey.OFFSET_FETCH: _PartitionFields(requested_partitions="partition_indexes"),
    ApiKey.ADD_PARTITIONS_TO_TXN: _PartitionFields(
        "v3_and_below_topics", "partitions", "results_by_topic_v3_and_below", "results_by_partition"
    ),
    ApiKey.TXN_OFFSET_COMMIT: _PartitionFields(),
    ApiKey.SHARE_FETCH: _PartitionFields(topics="responses"),
    ApiKey.SHARE_ACKNOWLEDGE: _PartitionFields(topics="responses"),
}
_GROUPED = "groups"
"""The array that has the topics of OffsetFetch from version 8 on."""


class _Sequences(Generic[T]):
    """Sequences of recorded values by key.

    After the last value of a key, the last one without an error is repeated: an error that ended once would never end
    for a client that tries again until it does.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, list[T]] = defaultdict(list)
        self._used: dict[Hashable, int] = defaultdict(int)
        self._repeated: dict[Hashable, T] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def add(self, key: Hashable, value: T, *, failed: bool = False) -> None:
        self._values[key].append(value)
        if not failed:
            self._repeated[key] = value

    def next(self, key: Hashable, *, repeat_errors: bool = True) -> T | None:
        """Return the next value of a key, None if it has none.

        :param repeat_errors: whether the last error is repeated if all values are errors
        """
        values = self._values.get(key)
        if values is None:  # clients may ask for any number of keys: nothing is kept of these
            return None
        used = self._used[key]
        if used < len(values):
            self._used[key] = used + 1
            return values[used]
        return self._repeated.get(key, values[-1] if repeat_errors else None)


class RecordedAnswers:
    """The responses of a capture.

    :param reader: reads the capture without annotations
    :param nodes: from :func:`~kproxy.replay.plan.recorded_nodes`
    """

    def __init__(self, reader: ExchangeReader, nodes: Mapping[str, int]) -> None:
        self._reader = reader
        self._names = reader.knowledge.topic_name
        self._nodes = nodes
        self._sessions = FetchSessions()
        self._exchanges: _Sequences[int] = _Sequences()
        self._metadata: dict[int, dict[str, Any]] = {}
        self._topics: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._fetches: _Sequences[int] = _Sequences()
        self._batches: dict[TopicPartition, list[tuple[int, int, int]]] = defaultdict(list)
        self._ends: dict[TopicPartition, dict[str, Any]] = {}
        self._records: _Sequences[dict[str, Any]] = _Sequences()
        self._rows: _Sequences[Mapping[str, Any]] = _Sequences()
        self._acquired: dict[tuple[int, str | None], deque[int]] = defaultdict(deque)
        self._versions: dict[int, set[int]] = defaultdict(set)

    def __bool__(self) -> bool:
        return bool(self._versions)

    def add(self, index: int, exchange: Exchange) -> None:
        """Add an exchange, unless a part of it is missing or kproxy made its response.

        :param index: for :meth:`~captures.exchanges.ExchangeReader.exchange`
        """
        request, response = exchange.request, exchange.response
        if request is None or response is None or exchange.problems:
            return
        if request.value is None or response.value is None or exchange.interventions.has_injected_errors:
            return
        self._versions[request.key].add(request.asked)
        if request.key == ApiKey.FETCH:
            self._add_fetch(index, request, response.value)
        elif request.key == ApiKey.PRODUCE:
            self._add_produce(request.value, response.value)
        elif request.key == ApiKey.SHARE_FETCH:
            if any(row["records"] for _, row in self._response_rows(request, response.value)):
                self._acquired[request.asked, request.value["group_id"]].append(index)
        elif not _is_single_use(request):
            addresses = (exchange.broker, *exchange.broker_names)
            node = next((self._nodes[each] for each in addresses if each in self._nodes), None)
            for content in self._contents(request):
                for key in {(node, content), (None, content)}:
                    self._exchanges.add(key, index, failed=bool(exchange.errors))
            if request.key in _FIELDS:
                self._add_rows(request, response.value)
            if request.key == ApiKey.METADATA:
                self._metadata[request.asked] = response.value
                for topic in response.value["topics"]:
                    self._topics[request.asked][self._topic(topic)] = topic

    def response(self, request: Body, node: int | None = None) -> bytes | None:
        """Return the recorded response to a request, with its size field and the request's correlation ID.

        :param node: node ID of the broker that the client sent it to, None if it may be any
        :returns: None if the request was not recorded
        """
        if request.value is None or request.problems or request.version != request.asked:
            return None
        if request.key == ApiKey.FETCH:
            return self._by_partition(request, self._fetched)
        if request.key == ApiKey.PRODUCE:
            return self._by_partition(request, self._produced)
        if request.key == ApiKey.SHARE_FETCH:
            return self._acquiring(request)
        if request.key == ApiKey.SHARE_ACKNOWLEDGE:
            return self._by_partition(request, lambda tp, _: _succeeded(tp))
        for content in self._contents(request):
            for key in ((node, content), (None, content)):
                if key not in self._exchanges:
                    continue
                index = self._exchanges.next(key, repeat_errors=request.key != ApiKey.HEARTBEAT)
                if index is None:
                    return built(request, {})
                return self._adapted(self._reader.exchange(index), request)
        if request.key == ApiKey.METADATA:
            return self._composed_metadata(request)
        if request.key == ApiKey.API_VERSIONS:
            return built(request, {"api_keys": self._offered()})
        if request.key in _SUCCESSES:
            return built(request, _SUCCESSES[ApiKey(request.key)])
        return self._by_partition(request, self._recorded_row(request)) if request.key in _FIELDS else None

    # ------------------------------------------------------------ by content
    def _contents(self, request: Body) -> Iterable[bytes]:
        """Return the content of a request, then with fields left out, the best match first."""
        layout = request.message(response=False)
        assert layout is not None
        assert request.value is not None
        value = comparable(layout.struct, layout.struct, request.value, self._names)
        named = _identifier_fields(layout)
        levels = [frozenset[str](), _CHOSEN, _CHOSEN | _TIMED, _CHOSEN | named, _CHOSEN | _TIMED | named]
        if request.key == ApiKey.API_VERSIONS:  # other software would choose versions that were not recorded
            levels = levels[:1]
        contents = ((request.key, request.asked, _reduced(value, left_out)) for left_out in levels)
        return dict.fromkeys(map(msgspec.msgpack.encode, contents))

    def _adapted(self, recorded: Exchange, request: Body) -> bytes:
        """Return a recorded response with the correlation ID and identifiers of another request."""
        response = recorded.response
        assert response is not None
        assert recorded.request is not None
        before, after = _identifiers(recorded.request), _identifiers(request)
        # identifiers in both keep their answers: lists may have another order
        removed = (each for each in before if each not in after)
        added = (each for each in after if each not in before)
        changed = dict(zip(removed, added, strict=False))
        frame = framed(response.raw)
        if changed:
            own = _with_identifiers(response, lambda value: _translated(value, changed), response=True)
            frame = rebuilt(frame, response, own, response=True)
        correlation_id: bytes = request.header["correlation_id"].to_bytes(4, signed=True)
        return b"".join((frame[:SIZE_BYTES], correlation_id, frame[SIZE_BYTES + 4 :]))

    def _composed_metadata(self, request: Body) -> bytes | None:
        """Return a response with the last recorded state of each topic; None if one was not recorded."""
        assert request.value is not None
        known, requested = self._topics[request.asked], request.value["topics"]
        asks_all = requested is None or (request.asked == 0 and not requested)
        topics = [known.get(name) for name in (known if asks_all else map(self._topic, requested))]
        if request.asked not in self._metadata or None in topics:
            return None
        return built(request, {**self._metadata[request.asked], "topics": topics})

    def _offered(self) -> list[dict[str, int]]:
        """Return the recorded versions, for software that was not recorded: the last recorded ones in a row."""
        offered = []
        for key, versions in sorted(self._versions.items()):
            first = last = max(versions)
            while first - 1 in versions:
                first -= 1
            offered.append({"api_key": key, "min_version": first, "max_version": last})
        return offered

    def _topic(self, struct: Mapping[str, Any]) -> str:
        return topic_partitions.topic(struct, self._names)

    # ------------------------------------------------------------ by partition
    def _by_partition(
        self, request: Body, answer: Callable[[TopicPartition, Mapping[str, Any]], Mapping[str, Any] | None]
    ) -> bytes | None:
        """Return a response made of the answers for each partition; None if one was not recorded."""
        fields = _FIELDS[ApiKey(request.key)]
        assert request.value is not None
        group = _with_topics(request.value)
        if group is None or group.get(fields.requested_topics) is None:
            return None
        topics = []
        for topic in group[fields.requested_topics]:
            requested = _numbered({"topics": [topic]}, "topics", fields.requested_partitions)
            rows = [answer(*each) for each in self._partitions(requested, fields.requested_partitions)]
            if None in rows:
                return None
            topics.append({**topic, fields.partitions: rows})
        value = {fields.topics: topics}
        return built(request, value if group is request.value else {_GROUPED: [{**group, **value}]})

    def _partitions(
        self, body: Mapping[str, Any], partitions: str, topics: str = "topics"
    ) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
        return rows_by_partition(body, topics, self._names, partitions)

    def _response_rows(
        self, request: Body, response: Mapping[str, Any]
    ) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
        fields = _FIELDS[ApiKey(request.key)]
        return self._partitions(_with_topics(response) or {}, fields.partitions, fields.topics)

    def _add_rows(self, request: Body, response: Mapping[str, Any]) -> None:
        """Add the answer for each partition."""
        fields = _FIELDS[ApiKey(request.key)]
        assert request.value is not None
        answered = dict(self._response_rows(request, response))
        group = _with_topics(request.value) or {}
        if group.get(fields.requested_topics) is None:  # all partitions
            return
        requested = _numbered(group, fields.requested_topics, fields.requested_partitions)
        for tp, row in self._partitions(requested, fields.requested_partitions, fields.requested_topics):
            if tp in answered:
                code = answered[tp].get("error_code") or answered[tp].get("partition_error_code")
                for key in self._row_keys(request, tp, row):
                    self._rows.add(key, answered[tp], failed=bool(code))

    @staticmethod
    def _row_keys(request: Body, tp: TopicPartition, row: Mapping[str, Any]) -> Iterator[Hashable]:
        """Yield the keys of a partition in a request; transactions write to other partitions in each run."""
        content = msgspec.msgpack.encode(_reduced(row, _TIMED))
        yield request.key, request.asked, tp, content
        if request.key == ApiKey.ADD_PARTITIONS_TO_TXN:
            yield request.key, request.asked, tp.topic

    def _recorded_row(
        self, request: Body
    ) -> Callable[[TopicPartition, Mapping[str, Any]], Mapping[str, Any] | None]:
        def answer(tp: TopicPartition, requested: Mapping[str, Any]) -> Mapping[str, Any] | None:
            rows = (self._rows.next(key) for key in self._row_keys(request, tp, requested))
            found = next((row for row in rows if row is not None), None)
            return None if found is None else {**found, "partition_index": tp.partition}

        return answer

    def _acquiring(self, request: Body) -> bytes | None:
        """Return the next recorded response of a share group with records, then empty ones.

        A group that was not recorded gets those of the first one.
        """
        assert request.value is not None
        groups = [group for version, group in self._acquired if version == request.asked]
        own = request.value["group_id"]
        waiting = self._acquired[request.asked, own if own in groups else groups[0]] if groups else ()
        if not waiting or request.value["share_session_epoch"] < 0:
            return self._by_partition(request, lambda tp, _: _succeeded(tp))
        return self._adapted(self._reader.exchange(waiting.popleft()), request)

    def _add_fetch(self, index: int, request: Body, response: Mapping[str, Any]) -> None:
        fields = _FIELDS[ApiKey.FETCH]
        assert request.value is not None
        whole, session = self._sessions.request(request.asked, request.value)
        self._sessions.recorded(session, response)
        offsets = {
            tp: row["fetch_offset"]
            for tp, row in self._partitions(whole, fields.requested_partitions, fields.requested_topics)
        }
        for tp, row in self._partitions(response, fields.partitions, fields.topics):
            if tp in offsets:
                self._fetches.add((tp, offsets[tp]), index)
                if not row["error_code"]:  # errors come without the high watermark
                    self._ends[tp] = {**row, "records": b""}
                self._batches[tp] += [
                    (batch.base_offset, batch.last_offset, index) for batch in headers(row["records"] or b"")
                ]

    def _fetched(self, tp: TopicPartition, requested: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the answer for a partition: recorded at this offset, with a batch of it, or that there is no more."""
        offset = requested["fetch_offset"]
        index = self._fetches.next((tp, offset))
        if index is None:
            batches = self._batches.get(tp, ())
            index = next((index for first, last, index in batches if first <= offset <= last), None)
        if index is None:
            end = self._ends.get(tp)
            return end if end is not None and offset == end["high_watermark"] else None
        fields = _FIELDS[ApiKey.FETCH]
        recorded = self._partitions(
            self._reader.exchange(index).response_body, fields.partitions, fields.topics
        )
        return next(row for found, row in recorded if found == tp)

    def _add_produce(self, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
        fields = _FIELDS[ApiKey.PRODUCE]
        answered = dict(self._partitions(response, fields.partitions, fields.topics))
        for tp, row in self._partitions(request, fields.requested_partitions, fields.requested_topics):
            if tp not in answered:
                continue
            for number, record in enumerate(_record_contents(row["records"])):
                offset = answered[tp]["base_offset"]
                own = {"base_offset": offset + number} if offset >= 0 else {}
                for key in ((tp, record), (tp.topic, record)):
                    self._records.add(key, {**answered[tp], **own}, failed=bool(answered[tp]["error_code"]))

    def _produced(self, tp: TopicPartition, requested: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the answer for a partition: that of its first record, if all of them were recorded.

        A record without a key may have been sent to another partition.
        """
        answers = [
            self._records.next((tp, record)) or self._records.next((tp.topic, record))
            for record in _record_contents(requested["records"])
        ]
        first = answers[0] if answers and None not in answers else None
        return None if first is None else {**first, "index": tp.partition}


def built(request: Body, value: Mapping[str, Any]) -> bytes:
    """Return the response to a request, with its size field."""
    known = api(request.key)
    assert known is not None
    layout = known.response[request.asked]
    return response_frame(layout, request.header["correlation_id"], layout.build(value))


def _is_single_use(request: Body) -> bool:
    """Return whether a request is SaslAuthenticate of a mechanism whose tokens do not work twice."""
    if request.key != ApiKey.SASL_AUTHENTICATE or request.value is None:
        return False
    token = sasl.decode(request.value["auth_bytes"], Hints()).value
    return token is None or token["mechanism"] not in SASL_MECHANISMS


def _with_topics(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the struct that has a message's topics; None if there are several."""
    groups = value.get(_GROUPED)
    if not groups:
        return value
    return groups[0] if len(groups) == 1 else None


def _numbered(body: Mapping[str, Any], topics: str, partitions: str) -> Mapping[str, Any]:
    """Return topics whose partitions are structs, also if they were numbers."""
    return {
        topics: [
            {
                **topic,
                partitions: [
                    {"partition_index": each} if isinstance(each, int) else each for each in topic[partitions]
                ],
            }
            for topic in body[topics]
        ]
    }


def _succeeded(tp: TopicPartition) -> dict[str, Any]:
    return {"partition_index": tp.partition}


@cache
def _identifier_fields(layout: MessageVersion) -> frozenset[str]:
    """Return the names of fields that name groups or transactions."""
    coordinator = _COORDINATOR_KEYS if layout.message.key == ApiKey.FIND_COORDINATOR else ()
    return frozenset(
        member.name
        for _, struct in wire.structs_of(layout.struct)
        for member in struct.all_members
        if member.field.type.entity in _NAMED or member.name in coordinator
    )


def _identifiers(request: Body) -> list[str]:
    """Return the names of groups and transactions, and the member IDs, in a request, in order."""
    found: list[str] = []

    def collect(value: Any) -> None:
        found.extend(value if isinstance(value, list) else [value])

    _with_identifiers(request, collect, response=False)
    return found


def _with_identifiers(body: Body, replace: Callable[[Any], Any], *, response: bool) -> dict[str, Any]:
    """Return a decoded body with the values of the fields with identifiers replaced."""
    layout = body.message(response=response)
    assert layout is not None
    assert body.value is not None
    fields = _identifier_fields(layout) | {"member_id"}

    def own(member: wire.Member, value: Any, _holders: Holders) -> Any:
        return replace(value) if member.name in fields else value

    return replaced(layout.struct, body.value, own)


def _translated(value: Any, names: Mapping[str, str]) -> Any:
    return [names.get(each, each) for each in value] if isinstance(value, list) else names.get(value, value)


def _reduced(value: Any, left_out: frozenset[str]) -> Any:
    """Return a value without some fields, and with its lists in one order."""
    if isinstance(value, dict):
        return {name: _reduced(each, left_out) for name, each in value.items() if name not in left_out}
    if isinstance(value, list | tuple):
        return sorted((_reduced(each, left_out) for each in value), key=msgspec.msgpack.encode)
    return value


def _record_contents(data: bytes | None) -> Iterator[bytes]:
    """Yield keys, values and headers of records, encoded."""
    budget = message_budget()
    for batch in record_set(data or b"").batches:
        for record in batch.read(budget).records:
            yield msgspec.msgpack.encode((record.key, record.value, record.headers))
