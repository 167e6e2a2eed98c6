"""What changed in the configuration of a Kafka Connect cluster, as its workers read it from their topic.

A worker says in JoinGroup up to which offset it has read (``config_offset``); the records before that name the
connector. Workers read them with a consumer that is called after group and worker (``ConnectUtils.clientIdBase``,
``KafkaConfigBackingStore``, since Kafka 3.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from captures.exchanges import Exchange
from captures.meaning.exchange import rows
from captures.meaning.payload import headers
from dissectors.api_keys import ApiKey
from dissectors.budget import of_message

_CONFIGS = "-configs"
_CONNECTOR, _COMMIT = "connector-", "commit-"
"""Beginnings of the keys of a connector's configuration, and of the record that makes that of its tasks valid."""
_MOST = 4096
"""Changes that are kept of each client; the first are forgotten."""


class ConfigChange(NamedTuple):
    """A record of a topic of configurations.

    :ivar offset: of the record
    :ivar connector: name
    :ivar tasks: how many it is to have; None if the record is about the connector itself
    :ivar deleted: whether there is no such connector any more
    :ivar number: of the exchange in which a worker read it
    """

    offset: int
    connector: str
    tasks: int | None
    deleted: bool
    number: int


class ConfigChanges:
    """Collects changes from what workers fetch."""

    def __init__(self) -> None:
        self._by_client: dict[str, dict[int, ConfigChange]] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
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
        """Take in what another has collected of other clients."""
        self._by_client |= other._by_client

    def between(self, group: str, workers: Iterable[str], begin: int, end: int) -> list[ConfigChange]:
        """Return the changes from one offset of the topic up to another, in order.

        :param workers: client IDs
        :param end: behind the last
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
    budget = of_message()
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
    """Return how many tasks a connector is to have; 0 if that cannot be read."""
    try:
        told = json.loads(value)
    except ValueError:
        return 0
    found = told.get("tasks") if isinstance(told, dict) else None
    return found if isinstance(found, int) else 0
