"""The defaults of settings, by library and release.

Sources: ``ConsumerConfig.java`` and ``ProducerConfig.java`` of Apache Kafka with KIP-62 (poll interval), KIP-679 (acks
and idempotence), KIP-735 (session timeout), KIP-726 (assignors) and KIP-1030 (linger); ``CONFIGURATION.md`` and
changelog of librdkafka; ``DEFAULT_CONFIG`` of kafka-python and the signatures of aiokafka; ``config.go`` of sarama and
franz-go; ``src/consumer/index.js`` of KafkaJS; ``ReaderConfig`` of kafka-go. Unknown defaults are missing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from captures.analysis.clients import libraries
from captures.analysis.clients.libraries import Library
from captures.analysis.clients.settings import Value
from dissectors.units import MIB

_MINUTES = 60_000

Release = tuple[int, ...]


class _ReleaseDefaults(NamedTuple):
    """Defaults from a release on.

    :ivar end: first release without them; empty for no end
    """

    since: Release
    values: dict[str, Value]
    end: Release = ()


_UNSET: dict[str, Value] = {
    "group.instance.id": None,
    "transactional.id": None,
    "client.rack": None,
    "group.protocol": "classic",
    "security.protocol": "PLAINTEXT",
}
_COMMON: dict[str, Value] = _UNSET | {
    "heartbeat.interval.ms": 3000,
    "fetch.min.bytes": 1,
    "fetch.max.bytes": 50 * MIB,
    "max.partition.fetch.bytes": MIB,
    "isolation.level": "read_uncommitted",
    "allow.auto.create.topics": "true",
    "transaction.timeout.ms": _MINUTES,
    "compression.type": "none",
    "metadata.max.age.ms": 5 * _MINUTES,
}
"""Defaults that most libraries share; those that differ name theirs."""

_JAVA = _COMMON | {
    "max.poll.interval.ms": 5 * _MINUTES,
    "enable.auto.commit": "true",
    "auto.commit.interval.ms": 5000,
    "fetch.max.wait.ms": 500,
    "request.timeout.ms": 30_000,
    "batch.size": 16_384,
    "retry.backoff.ms": 100,
    "reconnect.backoff.ms": 50,
    "connections.max.idle.ms": 9 * _MINUTES,
}
_JAVA_ASSIGNORS = "range,cooperative-sticky"
_RANGE = _JAVA | {"partition.assignment.strategy": "range,roundrobin"}

_DEFAULTS: dict[str, tuple[_ReleaseDefaults, ...]] = {
    libraries.JAVA: (
        _ReleaseDefaults(
            (0, 8), _JAVA | {"partition.assignment.strategy": "range", "acks": "1", "linger.ms": 0}
        ),
        _ReleaseDefaults((0, 8), {"session.timeout.ms": 30_000}, (0, 10, 1)),
        _ReleaseDefaults((0, 10, 1), {"session.timeout.ms": 10_000}, (3, 0)),
        _ReleaseDefaults((0, 11), {"enable.idempotence": "false"}, (3, 0)),
        _ReleaseDefaults((3, 0), {"session.timeout.ms": 45_000, "acks": "all"}),
        _ReleaseDefaults((3, 0), {"partition.assignment.strategy": _JAVA_ASSIGNORS}),
        _ReleaseDefaults(
            (3, 2), {"enable.idempotence": "true"}
        ),  # by mistake only partly in 3.0 and 3.1 (KAFKA-13598)
        _ReleaseDefaults((4, 0), {"linger.ms": 5}),
    ),
    libraries.LIBRDKAFKA: (
        _ReleaseDefaults(
            (2, 0),
            _RANGE
            | {
                "isolation.level": "read_committed",
                "acks": "all",
                "enable.idempotence": "false",
                "batch.size": 1_000_000,
                "reconnect.backoff.ms": 100,
                "connections.max.idle.ms": 0,
            },
        ),
        _ReleaseDefaults((1, 0), {"session.timeout.ms": 10_000}, (1, 7)),
        _ReleaseDefaults((1, 5), {"linger.ms": 5}),
        _ReleaseDefaults((1, 6), {"allow.auto.create.topics": "false"}),
        _ReleaseDefaults((1, 7), {"session.timeout.ms": 45_000}),
    ),
    libraries.KAFKA_PYTHON: (
        _ReleaseDefaults((1, 4), _RANGE | {"linger.ms": 0}),
        _ReleaseDefaults((1, 4), {"acks": "1", "session.timeout.ms": 10_000}, (2, 1)),
        _ReleaseDefaults((3, 0), {"acks": "all", "session.timeout.ms": 45_000, "enable.idempotence": "true"}),
    ),
    libraries.AIOKAFKA: (
        _ReleaseDefaults(
            (0, 7),
            _JAVA
            | {
                "session.timeout.ms": 10_000,
                "max.poll.interval.ms": 10_000,
                "partition.assignment.strategy": "roundrobin",
                "acks": "1",
                "enable.idempotence": "false",
                "request.timeout.ms": 40_000,
                "linger.ms": 0,
            },
        ),
    ),
    libraries.SARAMA: (
        _ReleaseDefaults(
            (1, 40),
            _COMMON
            | {
                "session.timeout.ms": 10_000,
                "max.poll.interval.ms": _MINUTES,
                "partition.assignment.strategy": "range",
                "enable.auto.commit": "true",
                "auto.commit.interval.ms": 1000,
                "fetch.max.wait.ms": 500,
                "acks": "1",
                "enable.idempotence": "false",
                "linger.ms": 0,
                "request.timeout.ms": 10_000,
                "metadata.max.age.ms": 10 * _MINUTES,
            },
        ),
    ),
    libraries.FRANZ_GO: (
        _ReleaseDefaults(
            (1, 15),
            _COMMON
            | {
                "session.timeout.ms": 45_000,
                "max.poll.interval.ms": _MINUTES,
                "partition.assignment.strategy": "cooperative-sticky",
                "enable.auto.commit": "true",
                "auto.commit.interval.ms": 5000,
                "fetch.max.wait.ms": 5000,
                "allow.auto.create.topics": "false",
                "acks": "all",
                "enable.idempotence": "true",
                "request.timeout.ms": 10_000,
                "transaction.timeout.ms": 40_000,
                "compression.type": "snappy",
                "retry.backoff.ms": 250,
            },
        ),
    ),
    libraries.KAFKAJS: (
        _ReleaseDefaults(
            (2, 0),
            _COMMON
            | {
                "session.timeout.ms": 30_000,
                "max.poll.interval.ms": _MINUTES,
                "partition.assignment.strategy": "RoundRobinAssigner",
                "fetch.max.wait.ms": 5000,
                "fetch.max.bytes": 10 * MIB,
                "isolation.level": "read_committed",
                "acks": "all",
                "enable.idempotence": "false",
                "request.timeout.ms": 30_000,
            },
        ),
    ),
    libraries.KAFKA_GO: (
        _ReleaseDefaults(
            (0, 4),
            _UNSET
            | {
                "session.timeout.ms": 30_000,
                "heartbeat.interval.ms": 3000,
                "max.poll.interval.ms": 30_000,
                "partition.assignment.strategy": "range,roundrobin",
                "fetch.min.bytes": 1,
                "fetch.max.bytes": 1_000_000,
                "isolation.level": "read_uncommitted",
                "compression.type": "none",
            },
        ),
    ),
}


def defaults_of(library: Library | None) -> dict[str, Value]:
    """Return the known defaults of a release by key; for a range of releases, those that all of them share."""
    if library is None:
        return {}
    known = _DEFAULTS.get(library.name, ())
    ends = [_release(text) for text in library.release.split("-") if text]
    if not ends or not all(ends):
        return {}
    least, most = min(ends), max(ends)
    low, high = _at(known, least), _at(known, most)
    return {key: value for key, value in low.items() if key in high and high[key] == value}


def _at(known: tuple[_ReleaseDefaults, ...], release: Release) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for each in known:
        if each.since <= release and (not each.end or release < each.end):
            found |= each.values
    return found


def _release(text: str) -> Release:
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
