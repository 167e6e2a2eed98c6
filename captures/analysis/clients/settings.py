"""Settings of clients, and how each is known.

Settings have the names of the Java client here (``ConsumerConfig.java``, ``ProducerConfig.java``), whatever the
library; :mod:`~captures.analysis.clients.notation` has the libraries' own names. Values are those of properties files:
durations in ms, sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec

from captures.json_objects import KeyNames, OrNull

MOST_EVIDENCE = 3
"""Most exchange numbers that are kept as evidence of a value."""
_MOST_VALUES = 16
"""Most values kept per setting; a client has one, unless several share its name."""

GROUP = (
    "group.id",
    "group.protocol",
    "group.instance.id",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
)
COMMIT = ("enable.auto.commit", "auto.commit.interval.ms")
FETCH = (
    "client.rack",
    "isolation.level",
    "fetch.min.bytes",
    "fetch.max.wait.ms",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "allow.auto.create.topics",
)
PRODUCE = (
    "acks",
    "enable.idempotence",
    "request.timeout.ms",
    "compression.type",
    "linger.ms",
    "batch.size",
    "transactional.id",
    "transaction.timeout.ms",
)
COMMON = (
    "client.id",
    "security.protocol",
    "sasl.mechanism",
    "metadata.max.age.ms",
    "retry.backoff.ms",
    "reconnect.backoff.ms",
    "connections.max.idle.ms",
)

CONSUMER_KEYS = (*GROUP, *COMMIT, *FETCH)
SHARE_KEYS = ("group.id", "client.rack", "fetch.min.bytes", "fetch.max.wait.ms", "fetch.max.bytes")
"""Settings of share consumers (KIP-932)."""

Value = str | int | None
"""None: the client states that it is not set."""


class ValueSource(Enum):
    """How a value is known."""

    READ = "read"
    """From a field of a request."""
    ESTIMATED = "estimated"
    """From the timing and size of requests."""
    NOT_SEEN = "not seen"


ValueCount = Annotated[tuple[Value, int], KeyNames("value", "count")]
"""A value, and the number of times it was seen."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a client.

    :ivar key: the Java client's name
    :ivar value: the most frequent value; None if it is not set, or not seen
    :ivar count: number of exchanges, or intervals, with the value
    :ivar evidence: numbers of the first of these exchanges
    :ivar other_values: further values with their counts: several clients of one name, or one that was restarted
    :ivar note: basis of an estimate, or why there is none
    :ivar at_least: whether the value is only a lower bound of the setting
    """

    key: str
    value: Value = None
    how: ValueSource = ValueSource.NOT_SEEN
    count: int = 0
    evidence: tuple[int, ...] = ()
    other_values: tuple[ValueCount, ...] = ()
    note: OrNull[str] = ""
    at_least: bool = False


class _Observation(msgspec.Struct):
    count: int = 0
    evidence: list[int] = []


class Values:
    """The values of one setting in request fields."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[Value, _Observation] = {}

    def add(self, value: Value, number: int) -> None:
        """Count a value.

        :param number: number of the exchange with it
        """
        seen = self._seen.get(value)
        if seen is None:
            if len(self._seen) >= _MOST_VALUES:
                return
            seen = self._seen[value] = _Observation()
        seen.count += 1
        if len(seen.evidence) < MOST_EVIDENCE:
            seen.evidence.append(number)

    def setting(self, key: str, *, weakest: Value = None) -> Setting:
        """Return the setting with the most frequent value, the first of equally frequent ones.

        :param weakest: a value that counts only if there is no other
        """
        ordered = sorted(self._seen.items(), key=lambda item: (item[0] == weakest, -item[1].count))
        (value, best), *rest = ordered
        others = tuple((other, seen.count) for other, seen in rest if weakest is None or other != weakest)
        return Setting(key, value, ValueSource.READ, best.count, tuple(best.evidence), others)


def by_key(settings: Sequence[Setting]) -> dict[str, Setting]:
    """Return settings by their keys."""
    return {setting.key: setting for setting in settings}


_ESTIMATE_MARGIN = 0.1
_JITTER = 0.25
"""Back-offs vary randomly by a fifth (KIP-144, KIP-580)."""
_LEAST_MARGIN = 2
"""ms, or bytes."""


def alike(setting: Setting, default: Value) -> bool:
    """Return whether a setting has a value, as far as known; an estimate has it if it is near."""
    value = setting.value
    if setting.how is not ValueSource.ESTIMATED or not isinstance(value, int) or not isinstance(default, int):
        return value == default
    if setting.at_least:
        return value <= default
    margin = _JITTER if setting.key.endswith(".backoff.ms") else _ESTIMATE_MARGIN
    return abs(value - default) <= max(margin * default, _LEAST_MARGIN)
