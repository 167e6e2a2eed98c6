"""Requests as command lines of kcat (1.7), the producer and consumer based on librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from captures.exchanges import Exchange
from dissectors.api_keys import ApiKey
from kproxy.copy_as.record_lines import Partition, RecordRun, producing
from kproxy.copy_as.request import Makers, RequestToCopy, commands_of, unnamed
from kproxy.copy_as.shell import Command

TLS = "the connection was encrypted: add -X security.protocol=ssl, or sasl_ssl, and what belongs to it"

_ISOLATION = {0: "read_uncommitted", 1: "read_committed"}

# values that librdkafka accepts (CONFIGURATION.md)
_FETCH_PROPERTIES = (
    ("max_wait_ms", "fetch.wait.max.ms", range(300_001)),
    ("min_bytes", "fetch.min.bytes", range(1, 100_000_001)),
)
_MOST_PARTITION_BYTES = 1_000_000_000


def commands(exchange: Exchange) -> list[Command]:
    """Return kcat commands that send the same request, none if kcat has no such command."""
    return commands_of(exchange, _MAKERS)


def _kcat(request: RequestToCopy, mode: str) -> list[str]:
    return ["kcat", mode, "-b", request.broker]


def _metadata(request: RequestToCopy) -> Iterator[Command]:
    topics = list(request.topics())
    words = _kcat(request, "-L")
    if not topics:
        none = request.value["topics"] is not None and (request.exchange.version or 0) > 0
        yield Command(words, notes=["the request asked for brokers alone, without topics"] if none else ())
    for name, topic, _ in topics:
        if name is None:
            yield Command((), notes=[unnamed(topic)])
        else:
            yield Command([*words, "-t", name])


def _fetch(request: RequestToCopy) -> Iterator[Command]:
    value = request.value
    properties = [
        f"{name}={value[field]}" for field, name, allowed in _FETCH_PROPERTIES if value.get(field) in allowed
    ]
    if value.get("isolation_level") in _ISOLATION:
        properties.append(f"isolation.level={_ISOLATION[value['isolation_level']]}")
    if value.get("rack_id"):
        properties.append(f"client.rack={value['rack_id']}")
    notes = _session_notes(request)
    for name, topic, _ in request.topics():
        if name is None:
            yield Command((), notes=[unnamed(topic)])
            continue
        for partition in topic["partitions"]:
            place = ["-t", name, "-p", str(partition["partition"]), "-o", str(partition["fetch_offset"])]
            own = list(properties)
            if 0 < partition["partition_max_bytes"] <= _MOST_PARTITION_BYTES:
                own.append(f"fetch.message.max.bytes={partition['partition_max_bytes']}")
            yield Command([*_kcat(request, "-C"), *place, "-e", *_with_x(own)], notes=notes)
            notes = []


def _session_notes(request: RequestToCopy) -> list[str]:
    value = request.value
    notes = []
    if value.get("session_epoch", -1) > 0:
        notes.append("in a fetch session only what changed is named; partitions named earlier are left out")
    if value.get("replica_id", -1) >= 0 or value.get("replica_state", {}).get("replica_id", -1) >= 0:
        notes.append("a follower asked, which may read beyond the high watermark; kcat asks as a consumer")
    return notes


def _with_x(properties: Iterable[str]) -> list[str]:
    return [word for each in properties for word in ("-X", each)]


def _produce(request: RequestToCopy) -> Iterator[Command]:
    notes = ["timestamps, producer ID and sequence numbers are those of the new producer"]
    if request.value.get("transactional_id"):
        notes.append("the records were written in a transaction; kcat writes them outside of one")
    yield from producing(request, notes, _producer)


def _producer(
    request: RequestToCopy, partition: Partition, run: RecordRun, notes: list[str]
) -> Command | None:
    delimiters = run.delimiters()
    if not run.keyed and any(not value for _, value in run.records):
        notes.append(f"left out: {len(run.records):,} records, of which some have neither key nor value")
        return None
    if delimiters is None:
        notes.append(f"left out: {len(run.records):,} records that use every delimiter there is")
        return None
    between, behind_keys = delimiters
    words = [*_kcat(request, "-P"), "-t", partition.topic, "-p", str(partition.number)]
    if between != "\n":
        words += ["-D", _delimiter(between)]
    if run.keyed:
        words += ["-K", _delimiter(behind_keys)]
    if run.null:
        words.append("-Z")
    for header in run.headers:
        words += ["-H", f"{header.name}={header.value}"]
    properties = [f"acks={request.value['acks']}"]
    if partition.codec != "none":
        properties.append(f"compression.codec={partition.codec}")
    # a final delimiter preserves an empty last record
    text = f"{run.text(between, behind_keys)}{between}"
    return Command([*words, *_with_x(properties)], input=text, notes=list(notes))


def _delimiter(character: str) -> str:
    return character if character.isprintable() else f"\\x{ord(character):02x}"


def _list_offsets(request: RequestToCopy) -> Iterator[Command]:
    places = [
        word
        for name, topic, _ in request.topics()
        for partition in topic["partitions"]
        for word in ("-t", f"{name}:{partition['partition_index']}:{partition['timestamp']}")
    ]
    if places:
        yield Command([*_kcat(request, "-Q"), *places])


def _join_group(request: RequestToCopy) -> Iterator[Command]:
    topics = subscribed(request)
    if topics:
        notes = ["joins the group as another member: its partitions are assigned anew"]
        yield Command(["kcat", "-b", request.broker, "-G", request.value["group_id"], *topics], notes=notes)


def subscribed(request: RequestToCopy) -> list[str]:
    """Return the topics that a JoinGroup of a consumer subscribes to."""
    for index, _ in enumerate(request.value["protocols"]):
        metadata = request.exchange.annotations.decoded.get(f"request.protocols[{index}].metadata")
        if isinstance(metadata, dict) and metadata.get("topics"):
            return [str(topic) for topic in metadata["topics"]]
    return []


_MAKERS: Makers = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.JOIN_GROUP: _join_group,
}
