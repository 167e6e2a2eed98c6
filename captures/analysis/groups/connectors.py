"""Changes of a Kafka Connect cluster's configuration, as its workers read them from their topic.

A worker states in JoinGroup up to which offset it has read (``config_offset``); the records before that name the
connector. Workers read them with a consumer that is named after group and worker (``ConnectUtils.clientIdBase``,
``KafkaConfigBackingStore``, since Kafka 3.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from captures.analysis.decision_columns import DecisionColumns
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning.exchange import rows
from captures.meaning.payload import headers
from dissectors.api_keys import ApiKey
from dissectors.budget import message_budget

_CONFIGS = "-configs"
_CONNECTOR, _COMMIT = "connector-", "commit-"
"""Key prefixes of a connector's configuration, and of the record that commits those of its tasks."""
_MOST = 4096
"""Most changes that are kept of a client; the oldest are dropped."""


class ConfigChange(NamedTuple):
    """A record of a configuration topic.

    :ivar offset: offset of the record
    :ivar connector: name of the connector
    :ivar tasks: its new number of tasks; None if the record is about the connector itself
    :ivar deleted: whether the connector was deleted
    :ivar number: number of the exchange in which a worker read the record
    """

    offset: int
    connector: str
    tasks: int | None
    deleted: bool
    number: int


class ConfigChanges:
    """Collects changes from the fetches of workers."""

    def __init__(self) -> None:
        self._by_client: dict[str, dict[int, ConfigChange]] = {}

    @staticmethod
    def deciding(rows: DecisionColumns) -> Bools:
        """Return a mask of the fetches that may contain changes."""
        clients = rows.columns.texts("client_id")
        readers = np.array([*((each or "").endswith(_CONFIGS) for each in clients), False], np.bool_)
        return rows.of_api({ApiKey.FETCH}) & readers[rows.columns.flat("client_id")]

    def add(self, exchange: Exchange) -> None:
        client = exchange.client_id or ""
        if exchange.api_key != ApiKey.FETCH or not client.endswith(_CONFIGS) or exchange.response is None:
            return
        known = self._by_client.setdefault(client, {})
        for topic in rows(exchange.response.value or {}, "responses"):
            for row in rows(topic, "partitions"):
                for change in _changes(row.get("records"), exchange.number):
                    known.setdefault(change.offset, change)
        while len(known) > _MOST:
            del known[min(known)]

    def merge(self, other: ConfigChanges) -> None:
        """Merge what `other` has collected about other clients."""
        self._by_client |= other._by_client

    def between(self, group: str, workers: Iterable[str], begin: int, end: int) -> list[ConfigChange]:
        """Return the changes from offset `begin` up to offset `end`, in order.

        :param workers: client IDs
        :param end: offset after the last one
        """
        clients = [f"{group}{_CONFIGS}", *(f"{group}-{worker}{_CONFIGS}" for worker in workers)]
        found = {
            offset: change
            for client in clients
            for offset, change in self._by_client.get(client, {}).items()
            if begin <= offset < end
        }
        return [found[offset] for offset in sorted(found)]


def _changes(records: object, number: int) -> Iterable[ConfigChange]:
    budget = message_budget()
    for batch in headers(records):
        for record in batch.read(budget)[0]:
            key = (record.key or b"").decode(errors="replace")
            if key.startswith(_CONNECTOR):
                name = key.removeprefix(_CONNECTOR)
                yield ConfigChange(record.offset, name, None, record.value is None, number)
            elif key.startswith(_COMMIT) and record.value is not None:
                yield ConfigChange(
                    record.offset, key.removeprefix(_COMMIT), _tasks(record.value), False, number
                )


def _tasks(value: bytes) -> int:
    """Return the number of tasks in a commit record; 0 if it cannot be read."""
    try:
        parsed = json.loads(value)
    except ValueError:
        return 0
    found = parsed.get("tasks") if isinstance(parsed, dict) else None
    return found if isinstance(found, int) else 0
