"""OffsetCommits of a whole capture, read from columns, for accumulators that follow them among other exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.decision_columns import DecisionColumns, PartitionOffsets
from captures.analysis.record_traffic import CommittedPartition
from captures.arrays import Bools, distinct_values
from captures.exchanges import Exchange
from captures.meaning.exchange import text
from captures.meaning.topic_partitions import TopicPartition

_BLOCK = 4096
"""Commits that are converted at once: the result takes several times the memory of the columns."""


class StoredCommit(NamedTuple):
    """A commit that was stored, or the part of it that was.

    :ivar time: time of the request
    :ivar end: time of the response
    :ivar client: client ID, or address without one
    :ivar member: ID of the member that committed; empty if unknown
    """

    number: int
    time: int
    end: int
    connection: int
    client: str
    group: str
    member: str
    offsets: list[tuple[TopicPartition, int]]

    @classmethod
    def of(cls, exchange: Exchange, committed: list[CommittedPartition]) -> StoredCommit:
        """Return the commit in an exchange.

        :param committed: all partitions of the request
        """
        request = exchange.request_body
        return cls(
            exchange.number,
            exchange.time,
            exchange.end,
            exchange.connection,
            client_name(exchange),
            text(request, "group_id"),
            text(request, "member_id"),
            [(tp, offset) for tp, offset, error in committed if error == 0],
        )


class CommitColumns:
    """Some commits of a whole capture, returned as far as the reading has progressed.

    :param rows: rows of the capture, with the columns ``asked_offsets``, ``groups``, ``member``
    :param chosen: mask of the OffsetCommits
    """

    def __init__(self, rows: DecisionColumns, chosen: Bools) -> None:
        self._commits = _stored_commits(rows, chosen)
        self._next = next(self._commits, None)

    def before(self, number: float) -> Iterator[StoredCommit]:
        """Yield the commits before exchange `number` that were not returned yet."""
        while self._next is not None and self._next.number < number:
            yield self._next
            self._next = next(self._commits, None)


def _stored_commits(rows: DecisionColumns, chosen: Bools) -> Iterator[StoredCommit]:
    assert rows.numbers is not None
    asked, answered = (PartitionOffsets.of(rows, table) for table in ("asked", "answered"))
    asked = asked.chosen(chosen[asked.rows] & (asked.offsets >= 0))
    answered = answered.chosen(chosen[answered.rows] & (rows.columns.ragged("answered_errors").values == 0))
    _, codes = np.unique(np.concatenate((asked.places, answered.places)), return_inverse=True)
    keys = np.concatenate((asked.rows, answered.rows)) * (len(codes) + 1) + codes
    asked_keys, answered_keys = keys[: len(asked.rows)], distinct_values(keys[len(asked.rows) :])
    at = np.searchsorted(answered_keys, asked_keys)
    asked = asked.chosen(np.append(answered_keys, -1)[at] == asked_keys)
    commits, begins = np.unique(asked.rows, return_index=True)
    begins = np.append(begins, len(asked.rows))
    _, topics = rows.topics("asked_topics")
    clients, names = rows.clients
    time = rows.columns.flat("time")
    columns = [rows.numbers, time, time + np.maximum(rows.latency, 0), rows.columns.flat("connection")]
    columns += [clients, rows.group, rows.columns.flat("member")]
    groups, members = (rows.columns.texts(name) for name in ("groups", "member"))
    partitions: dict[int, TopicPartition] = {}
    for begin in range(0, len(commits), _BLOCK):
        block = commits[begin : begin + _BLOCK]
        bounds = begins[begin : begin + len(block) + 1]
        here = slice(int(bounds[0]), int(bounds[-1]))
        for code in distinct_values(asked.places[here]).tolist():
            if code not in partitions:
                topic, partition = PartitionOffsets.split(code)
                partitions[code] = TopicPartition(topics[topic], partition)
        offsets = [
            (partitions[code], offset)
            for code, offset in zip(asked.places[here].tolist(), asked.offsets[here].tolist(), strict=True)
        ]
        ends = pairwise((bounds - bounds[0]).tolist())
        each = zip(*(column[block].tolist() for column in columns), ends, strict=True)
        for number, at, end, connection, client, group, member, (first, behind) in each:
            yield StoredCommit(
                number,
                at,
                end,
                connection,
                names[client],
                (groups[group] if group >= 0 else None) or "",
                (members[member] if member >= 0 else None) or "",
                offsets[first:behind],
            )
