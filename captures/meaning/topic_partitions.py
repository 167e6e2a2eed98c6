"""Topics and partitions in messages: their texts (``orders-3``, ``orders 0-2,5``, ``orders-3@120 +4``) and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from captures.meaning import words
from captures.meaning.exchange import Bodies, Body, Names, rows
from dissectors.api_keys import ApiKey
from dissectors.entities import PARTITION_FIELDS, TOPIC_FIELDS
from dissectors.wire import ZERO_UUID

PARTITION_ARRAYS = (
    "partitions",
    "partition_indexes",
    "partition_data",
    "partition_responses",
    "partition_states",
    "results_by_partition",
    "partition_result",
    "partition_errors",
)


class TopicPartition(NamedTuple):
    """A partition; also a task of a streams group, with the subtopology instead of the topic, and a task of a Kafka
    Connect connector, or the connector itself, which is task -1.

    :ivar topic: its name, or its ID if no message has named it
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"connector {self.topic}" if self.partition < 0 else f"{self.topic}-{self.partition}"


def topic(row: Body, names: Names) -> str:
    """Return a topic's name from its struct, or its ID; ``?`` if neither was read."""
    for field in TOPIC_FIELDS:
        name = row.get(field)
        if name:
            return str(name)
    uuid = row.get("topic_id")
    if not uuid or uuid == ZERO_UUID:
        return "?"
    return names(uuid) or words.topic_id(uuid)


def index(row: Body) -> int | None:
    """Return the partition number of a struct."""
    for field in PARTITION_FIELDS:
        found = row.get(field)
        if found is not None and isinstance(found, int):
            return found
    return None


def inside(row: Body) -> Sequence[Any]:
    """Return the elements of a topic's partition array, structs or numbers."""
    for field in PARTITION_ARRAYS:
        found = row.get(field)
        if found and isinstance(found, tuple | list):
            return found
    return ()


def partitions(row: Body) -> list[int]:
    """Return the partition numbers of a topic's struct."""
    found = inside(row)
    if not found:
        return []
    first = found[0]
    if isinstance(first, int):
        return [number for number in found if number is not None]
    # one lookup for the array: all its structs use the same field for the partition
    field = next((name for name in PARTITION_FIELDS if first and name in first), "")
    return [number for struct in found if struct and (number := struct.get(field)) is not None]


def rows_by_partition(
    body: Body, topics: str, names: Names, partitions: str = "partitions"
) -> Iterator[tuple[TopicPartition, Body]]:
    """Yield partition structs with their topic partitions: by the topic's name, or its ID until a message has named it.

    :param topics: the array of topics
    :param partitions: the array of partitions in each of them
    """
    for holder in rows(body, topics):
        name = topic(holder, lambda uuid: names(uuid) or uuid)
        for row in rows(holder, partitions):
            partition = index(row)
            if name != "?" and partition is not None:
                yield TopicPartition(name, partition), row


def each(topics: Iterable[Body], names: Names) -> list[tuple[str, Body]]:
    """Return every partition struct with the name of its topic."""
    out: list[tuple[str, Body]] = []
    for holder in topics:
        name = topic(holder, names)
        out.extend([(name, row) for row in inside(holder) if isinstance(row, dict)])
    return out


def grouped(topics: Iterable[Body], names: Names) -> dict[str, list[int]]:
    """Return partition numbers by topic. The structs are topics with a partition array, or single partitions."""
    out: dict[str, list[int]] = {}
    for row in topics:
        numbers = out.setdefault(topic(row, names), [])
        alone = index(row)
        if alone is None:
            numbers.extend(partitions(row))
        else:
            numbers.append(alone)
    return out


def one(name: str, numbers: Sequence[int]) -> str:
    """Return the text of a topic with its partitions."""
    if not numbers:
        return name
    if len(numbers) == 1:
        return f"{name}-{numbers[0]}"
    return f"{name} {words.ranges(numbers)}"


def groups_text(groups: dict[str, list[int]]) -> str:
    """Return the text of topics with their partitions; many topics are counted."""
    if len(groups) <= words.SHOWN:
        return ", ".join([one(name, numbers) for name, numbers in groups.items()])
    count = sum(map(len, groups.values()))
    if not count:
        return words.some(groups)
    first = next(iter(groups))
    return f"{one(first, groups[first])} +{len(groups) - 1} topics ({words.counted(count, 'partition')})"


def topics_text(topics: Iterable[Body], names: Names) -> str:
    """Return the text of a message's topics with their partitions."""
    return groups_text(grouped(topics, names))


def requested(x: Bodies, field: str = "topics") -> str:
    """Return the text of a request's topics with their partitions."""
    return topics_text(rows(x.request, field), x.names)


def at(pairs: Sequence[tuple[str, Body]], field: str) -> str:
    """Return the first partition with an offset, and the number of further ones: ``orders-3@120 +4``."""
    if not pairs:
        return ""
    name, row = pairs[0]
    number, offset = index(row), row.get(field)
    first = f"{name}-{'?' if number is None else number}@{'?' if offset is None else offset}"
    return first if len(pairs) == 1 else f"{first} +{len(pairs) - 1}"


# ---------------------------------------------------------------- records by partition
CARRIERS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH})
"""APIs whose messages carry records."""


def asked_for(key: int, request: Body) -> Iterator[tuple[str | None, int | None]]:
    """Yield topic (its ID if it has no name) and partition of each request in a Fetch; None if not read."""
    if key in CARRIERS and key != ApiKey.PRODUCE:
        for holder in rows(request, "topics"):
            name = named(holder)
            yield from ((name, number) for number in partitions(holder))


def carried(key: int, request: Body, response: Body) -> Iterator[tuple[str | None, int | None, Any]]:
    """Yield topic, partition, and value of each records field of an exchange."""
    if key == ApiKey.PRODUCE:
        body, outer, inner = request, "topic_data", "partition_data"
    elif key in CARRIERS:
        body, outer, inner = response, "responses", "partitions"
    else:
        return
    for holder in rows(body, outer):
        name = named(holder)
        for partition in rows(holder, inner):
            yield name, index(partition), partition.get("records")


def named(holder: Body) -> str | None:
    """Return the name of a topic's struct, or its ID; None if neither was read."""
    found = topic(holder, lambda uuid: uuid)
    return None if found == "?" else found
