"""Record data by partition: records carried by Produce requests and Fetch responses, and partitions that a Fetch
requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from captures.meaning.exchange import Body, rows
from captures.meaning.topic_partitions import index, partitions, topic
from dissectors.api_keys import ApiKey

CARRIERS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH})


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
