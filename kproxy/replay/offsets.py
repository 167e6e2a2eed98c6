"""Recorded offsets to live ones.

If recorded and live responses report the same thing (where a partition begins, what a group has committed, where
records were written), the two offsets correspond. An offset between such points is shifted like the nearest point below
it, or, if there is none, like the lowest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from captures.meaning import Names
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition
from dissectors.api_keys import ApiKey
from dissectors.records import record_set


class Offsets:
    """Pairs of corresponding recorded and live offsets, by partition."""

    def __init__(self) -> None:
        self._points: dict[TopicPartition, tuple[list[int], list[int]]] = {}

    def learn(self, tp: TopicPartition, recorded: int, live: int) -> None:
        """Record that a recorded offset corresponds to a live one; negative values are not offsets and are ignored."""
        if recorded < 0 or live < 0 or self._known(tp, recorded) == live:
            return
        before, after = self._points.setdefault(tp, ([], []))
        index = bisect_left(before, recorded)
        if index < len(before) and before[index] == recorded:
            after[index] = live
        else:
            before.insert(index, recorded)
            after.insert(index, live)

    def live(self, tp: TopicPartition, recorded: int) -> int:
        """Return the live offset for a recorded one; `recorded` itself if negative or if the partition is unknown."""
        found = self._known(tp, recorded)
        return recorded if found is None or recorded < 0 else found

    def _known(self, tp: TopicPartition, recorded: int) -> int | None:
        if tp not in self._points:
            return None
        before, after = self._points[tp]
        index = max(bisect_right(before, recorded) - 1, 0)
        return max(after[index] + recorded - before[index], 0)


def reported_offsets(
    key: int, response: Mapping[str, Any], names: Names
) -> Iterator[tuple[TopicPartition, tuple[int, int]]]:
    """Yield the position that a response gives to a reader or writer: partition, and the first and the next offset.

    :param names: returns the name of a topic ID
    """
    if key == ApiKey.PRODUCE:
        for tp, row in _valid_rows(response, "responses", names, "partition_responses"):
            yield tp, (row["base_offset"], row["base_offset"])
    elif key == ApiKey.LIST_OFFSETS:
        for tp, row in _valid_rows(response, "topics", names):
            offset = row["offset"] if "offset" in row else next(iter(row["old_style_offsets"]), -1)
            yield tp, (offset, offset)
    elif key == ApiKey.OFFSET_FETCH:
        for group in response.get("groups") or (response,):
            for tp, row in _valid_rows(group, "topics", names):
                yield tp, (row["committed_offset"], row["committed_offset"])
    elif key == ApiKey.FETCH:
        for tp, row in _valid_rows(response, "responses", names):
            batches = record_set(row["records"] or b"").batches
            if batches:
                yield tp, (batches[0].base_offset, batches[-1].last_offset + 1)


def _valid_rows(
    response: Mapping[str, Any], topics: str, names: Names, partitions: str = "partitions"
) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
    for tp, row in rows_by_partition(response, topics, names, partitions):
        if not row.get("error_code"):
            yield tp, row
