"""Versions of each API that brokers of an Apache Kafka release serve, from 0.8.0 to 4.4.

A release is named by its line (``3.9``, ``0.10.2``): no bug fix release changed the served versions. The numbers are
those of ``validVersions`` and ``latestVersionUnstable`` in the message definitions of each release
(``clients/src/main/resources/common/message/*.json``, before 2.4 ``Protocol.java`` and ``requests/*.java``, before 0.9
``core/src/main/scala/kafka/api``). They agree with the ApiVersions responses of brokers of 17 releases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import msgspec

from captures.analysis.offered_versions import kafka_4_least
from captures.json_objects import Range
from dissectors.api_keys import CONTROLLER_ONLY, TELEMETRY, ZOOKEEPER_ONLY, ApiKey
from dissectors.apis import api_name

Line = tuple[int, ...]
"""A release line: (0, 10, 2), (3, 9)."""

_FIRST_SERVED: dict[int, str] = {
    ApiKey.PRODUCE: "0.8.0 0.9.0 0.10.0 0.11.0 1.0 1.0 2.0 2.1 2.4 2.8 3.7 3.8 4.0 4.1",
    ApiKey.FETCH: "0.8.0 0.9.0 0.10.0 0.10.1 0.11.0 0.11.0 1.0 1.1 2.0 2.1 2.1 2.3 2.7 3.1 3.5 3.5 3.7 3.9 4.1",
    ApiKey.LIST_OFFSETS: "0.8.0 0.10.1 0.11.0 2.0 2.1 2.2 2.8 3.0 3.5 3.9 4.0 4.2",
    ApiKey.METADATA: "0.8.0 0.10.0 0.10.1 0.11.0 0.11.0 1.0 2.0 2.1 2.3 2.4 2.8 2.8 3.1 4.0",
    ApiKey.LEADER_AND_ISR: "0.8.0 1.0 2.2 2.4 2.4 2.8 3.2 3.4",
    ApiKey.STOP_REPLICA: "0.8.0 2.2 2.4 2.6 3.4",
    ApiKey.UPDATE_METADATA: "0.8.0 0.9.0 0.10.0 0.10.2 1.0 2.2 2.4 2.8 3.4",
    ApiKey.CONTROLLED_SHUTDOWN: "0.8.0 0.9.0 2.2 2.4",
    ApiKey.OFFSET_COMMIT: "0.8.1 0.8.2 0.9.0 0.11.0 2.0 2.1 2.1 2.3 2.4 3.6 4.1",
    ApiKey.OFFSET_FETCH: "0.8.1 0.8.2 0.10.2 0.11.0 2.0 2.1 2.4 2.5 3.0 3.7 4.1",
    ApiKey.FIND_COORDINATOR: "0.8.2 0.11.0 2.0 2.4 3.0 3.8 3.9",
    ApiKey.JOIN_GROUP: "0.9.0 0.10.1 0.11.0 2.0 2.2 2.3 2.4 2.5 3.2 3.2",
    ApiKey.HEARTBEAT: "0.9.0 0.11.0 2.0 2.3 2.4",
    ApiKey.LEAVE_GROUP: "0.9.0 0.11.0 2.0 2.4 2.4 3.2",
    ApiKey.SYNC_GROUP: "0.9.0 0.11.0 2.0 2.3 2.4 2.5",
    ApiKey.DESCRIBE_GROUPS: "0.9.0 0.11.0 2.0 2.3 2.4 2.4 4.0",
    ApiKey.LIST_GROUPS: "0.9.0 0.11.0 2.0 2.4 2.6 3.8",
    ApiKey.SASL_HANDSHAKE: "0.10.0 1.0",
    ApiKey.API_VERSIONS: "0.10.0 0.11.0 2.0 2.4 3.9 4.4",
    ApiKey.CREATE_TOPICS: "0.10.1 0.10.2 0.11.0 2.0 2.4 2.4 2.7 2.8",
    ApiKey.DELETE_TOPICS: "0.10.1 0.11.0 2.0 2.1 2.4 2.7 2.8",
    ApiKey.DELETE_RECORDS: "0.11.0 2.0 2.6",
    ApiKey.INIT_PRODUCER_ID: "0.11.0 2.0 2.4 2.5 2.7 3.8 4.1",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "0.11.0 2.0 2.1 2.3 2.8",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0.11.0 2.0 2.7 2.8 3.5 3.8",
    ApiKey.ADD_OFFSETS_TO_TXN: "0.11.0 2.0 2.7 2.8 3.8",
    ApiKey.END_TXN: "0.11.0 2.0 2.7 2.8 3.8 4.0",
    ApiKey.WRITE_TXN_MARKERS: "0.11.0 2.8 4.2",
    ApiKey.TXN_OFFSET_COMMIT: "0.11.0 2.0 2.1 2.5 3.8 4.0 4.4",
    ApiKey.DESCRIBE_ACLS: "0.11.0 2.0 2.5 3.3",
    ApiKey.CREATE_ACLS: "0.11.0 2.0 2.5 3.3",
    ApiKey.DELETE_ACLS: "0.11.0 2.0 2.5 3.3",
    ApiKey.DESCRIBE_CONFIGS: "0.11.0 1.1 2.0 2.6 2.8",
    ApiKey.ALTER_CONFIGS: "0.11.0 2.0 2.8",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1.0 2.0 2.8",
    ApiKey.DESCRIBE_LOG_DIRS: "1.0 2.0 2.6 3.2 3.3 4.3",
    ApiKey.SASL_AUTHENTICATE: "1.0 2.2 2.5",
    ApiKey.CREATE_PARTITIONS: "1.0 2.0 2.5 2.7",
    ApiKey.CREATE_DELEGATION_TOKEN: "1.1 2.0 2.4 3.3",
    ApiKey.RENEW_DELEGATION_TOKEN: "1.1 2.0 2.5",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "1.1 2.0 2.5",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "1.1 2.0 2.5 3.3",
    ApiKey.DELETE_GROUPS: "1.1 2.0 2.4 4.4",
    ApiKey.ELECT_LEADERS: "2.2 2.4 2.4",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.3 2.4",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.4 4.1",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.4",
    ApiKey.OFFSET_DELETE: "2.4",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.6 2.8",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.6 2.8",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.7",
    ApiKey.VOTE: "2.7 3.9 4.0",
    ApiKey.BEGIN_QUORUM_EPOCH: "2.7 3.9",
    ApiKey.END_QUORUM_EPOCH: "2.7 3.9",
    ApiKey.DESCRIBE_QUORUM: "2.7 3.3 3.9",
    ApiKey.ALTER_PARTITION: "2.7 3.2 3.3 3.5",
    ApiKey.UPDATE_FEATURES: "2.7 3.3 4.0",
    ApiKey.ENVELOPE: "2.8",
    ApiKey.FETCH_SNAPSHOT: "2.8 3.9",
    ApiKey.DESCRIBE_CLUSTER: "2.8 3.7 4.0",
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.BROKER_REGISTRATION: "2.8 3.4 3.7 3.7 3.9",
    ApiKey.BROKER_HEARTBEAT: "2.8 3.7 4.3",
    ApiKey.UNREGISTER_BROKER: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0 3.8 4.1",
    ApiKey.ALLOCATE_PRODUCER_IDS: "3.0",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "3.5 4.0",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "3.7 4.0",
    ApiKey.CONTROLLER_REGISTRATION: "3.7",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "3.7",
    ApiKey.PUSH_TELEMETRY: "3.7",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "3.7",
    ApiKey.LIST_CONFIG_RESOURCES: "3.7 4.1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "3.8",
    ApiKey.SHARE_GROUP_HEARTBEAT: "3.9 4.1",
    ApiKey.SHARE_GROUP_DESCRIBE: "3.9 4.1",
    ApiKey.SHARE_FETCH: "3.9 4.1 4.2",
    ApiKey.SHARE_ACKNOWLEDGE: "3.9 4.1 4.2",
    ApiKey.ADD_RAFT_VOTER: "3.9 4.2",
    ApiKey.REMOVE_RAFT_VOTER: "3.9",
    ApiKey.UPDATE_RAFT_VOTER: "3.9",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "3.9",
    ApiKey.READ_SHARE_GROUP_STATE: "3.9",
    ApiKey.WRITE_SHARE_GROUP_STATE: "3.9 4.2",
    ApiKey.DELETE_SHARE_GROUP_STATE: "3.9",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "3.9 4.2",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "4.1 4.4",
    ApiKey.STREAMS_GROUP_DESCRIBE: "4.1 4.4",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "4.1 4.2",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "4.1",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "4.1",
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: "4.4",
    ApiKey.UNREGISTER_CONTROLLER: "4.4",
}
"""API key -> the first release line that served each version, from version 0 on."""

_EARLY_ACCESS = frozenset(
    {ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
)
"""Share groups (KIP-932): version 0 was early access, and 4.1 serves versions from 1 on."""
_SHARE_STATE = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
)
_UNSTABLE: dict[tuple[int, int], tuple[str, str | None]] = {
    (ApiKey.OFFSET_COMMIT, 9): ("3.6", "3.6"),
    (ApiKey.OFFSET_COMMIT, 10): ("4.1", "4.1"),
    (ApiKey.OFFSET_FETCH, 10): ("4.1", "4.1"),
    (ApiKey.INIT_PRODUCER_ID, 6): ("4.1", None),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 4): ("3.5", "3.5"),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0): ("3.5", "3.6"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 0): ("3.7", "3.7"),
    **{(key, 0): ("3.9", "4.0") for key in (*_EARLY_ACCESS, *_SHARE_STATE)},
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0): ("4.1", "4.1"),
    (ApiKey.STREAMS_GROUP_DESCRIBE, 0): ("4.1", "4.1"),
}
"""API key, version -> first and last line in which it is unstable: brokers serve it only if
``unstable.api.versions.enable`` is set. None: in all lines from the first on."""

_GONE = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
"""Requests of controllers to brokers before KRaft: no longer served by 4.0."""
_EARLY_ACCESS_ENDED = "4.1"

_KRAFT_ONLY = (
    {ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER}
    | TELEMETRY
    | {key for key in ApiKey if key >= ApiKey.LIST_CONFIG_RESOURCES} - CONTROLLER_ONLY
)

_FIRST_KRAFT: Line = (2, 8)
_KRAFT_FOR_PRODUCTION: Line = (3, 3)
_KAFKA_4: Line = (4, 0)
FIRST_NEGOTIATING: Line = (0, 10, 0)
"""The first line that knows ApiVersions (KIP-35)."""


def line_of(text: str) -> Line:
    """Return the line of a release: ``3.9.1`` and ``v3.9`` -> (3, 9), ``0.10.2.2`` -> (0, 10, 2).

    :raises ValueError: if the versions of the release are unknown
    """
    found = re.fullmatch(r"v?(\d+(?:\.\d+){1,3})(?:[-.][A-Za-z].*)?", text.strip())
    numbers = tuple(map(int, found[1].split("."))) if found else ()
    line = numbers[: 2 if numbers and numbers[0] else 3]
    if line not in LINES:
        raise ValueError(
            f"{text!r} is no release of Apache Kafka from {name_of(LINES[0])} to {name_of(LINES[-1])}"
        )
    return line


def name_of(line: Line) -> str:
    """Return a line as text: ``3.9``."""
    return ".".join(map(str, line))


def _line(text: str) -> Line:
    return tuple(map(int, text.split(".")))


_SERVED = {key: tuple(map(_line, text.split())) for key, text in _FIRST_SERVED.items()}
LINES: tuple[Line, ...] = tuple(sorted({line for lines in _SERVED.values() for line in lines}))
"""All release lines, the oldest first."""


class ServedVersions(msgspec.Struct, frozen=True):
    """The versions of one API that a broker serves.

    :ivar announced: versions in ApiVersions
    :ivar versions: served versions; they differ for Produce, which 4.0 and later announce from 0 on for librdkafka
        (KAFKA-18659), and serve from 3 on
    :ivar optional: whether it is served only with a non-default setting
    """

    announced: Range
    versions: Range
    optional: bool = False


@dataclass(frozen=True)
class BrokerRelease:
    """The brokers of a release line.

    :ivar line: such as (3, 9)
    :ivar zookeeper: whether the cluster's metadata is in ZooKeeper
    :ivar unstable: whether ``unstable.api.versions.enable`` is set
    """

    line: Line
    zookeeper: bool
    unstable: bool = False

    @classmethod
    def of(cls, text: str, *, zookeeper: bool | None = None, unstable: bool = False) -> BrokerRelease:
        """Return a release by its name.

        :param zookeeper: None for the usual choice, which is KRaft from 3.3 on (KIP-833)
        :raises ValueError: if the release is unknown, or there was none of the kind
        """
        line = line_of(text)
        if zookeeper is None:
            zookeeper = line < _KRAFT_FOR_PRODUCTION
        if zookeeper and line >= _KAFKA_4:
            raise ValueError(f"Kafka {name_of(line)} works without ZooKeeper (KIP-500)")
        if not zookeeper and line < _FIRST_KRAFT:
            raise ValueError(f"Kafka {name_of(line)} needs ZooKeeper: KRaft came with 2.8")
        return cls(line, zookeeper, unstable)

    @property
    def name(self) -> str:
        """Name of the release: ``Kafka 3.9``."""
        both = _FIRST_KRAFT <= self.line < _KAFKA_4
        kind = "" if not both else " with ZooKeeper" if self.zookeeper else " with KRaft"
        return f"Kafka {name_of(self.line)}{kind}"

    @property
    def negotiates(self) -> bool:
        """Whether it knows ApiVersions."""
        return self.line >= FIRST_NEGOTIATING

    @cached_property
    def apis(self) -> dict[int, ServedVersions]:
        """API key -> versions served to clients and other brokers, on listeners of brokers."""
        found = {}
        for key in _SERVED:
            versions = self._versions(key)
            if versions is not None:
                least = 0 if key == ApiKey.PRODUCE else versions[0]
                found[key] = ServedVersions((least, versions[1]), versions, key in TELEMETRY)
        return found

    def _versions(self, key: int) -> Range | None:
        if not self._has(key):
            return None
        served = [
            version
            for version, since in enumerate(_SERVED[key])
            if since <= self.line and (self.unstable or not self._is_unstable(key, version))
        ]
        served = [version for version in served if version >= self._least(key)]
        return (served[0], served[-1]) if served else None

    def _has(self, key: int) -> bool:
        if key in CONTROLLER_ONLY or key in (_KRAFT_ONLY if self.zookeeper else ZOOKEEPER_ONLY):
            return False
        if key == ApiKey.ENVELOPE:  # brokers forward to KRaft controllers during migration (KIP-866)
            return self.line >= (3, 4)
        return key not in _GONE or self.line < _KAFKA_4

    def _is_unstable(self, key: int, version: int) -> bool:
        first, last = _UNSTABLE.get((key, version), ("99", None))
        return _line(first) <= self.line and (last is None or self.line <= _line(last))

    def _least(self, key: int) -> int:
        if key == ApiKey.CONTROLLED_SHUTDOWN and FIRST_NEGOTIATING <= self.line < (1, 0):
            return 1  # version 0 has its own header, and was not announced
        if key in _EARLY_ACCESS and self.line >= _line(_EARLY_ACCESS_ENDED):
            return 1
        return kafka_4_least(api_name(key)) if self.line >= _KAFKA_4 else 0


def lines_matching(announced: Mapping[int, Range]) -> list[str]:
    """Return the names of the releases whose brokers announce exactly this, except telemetry.

    :param announced: API key -> versions, as in ApiVersions
    """
    found = []
    offered = {key: versions for key, versions in announced.items() if key not in TELEMETRY}
    for release in _every_kind():
        same = {key: served.announced for key, served in release.apis.items() if key not in TELEMETRY}
        if same == offered and release.name not in found and release.negotiates:
            found.append(release.name)
    return found


@cache
def _every_kind() -> tuple[BrokerRelease, ...]:
    return tuple(
        BrokerRelease(line, zookeeper, unstable)
        for line in LINES
        for unstable in (False, True)
        for zookeeper in (True, False)
        if (line < _KAFKA_4 if zookeeper else line >= _FIRST_KRAFT)
    )


@cache
def lines_serving(key: int, version: int) -> tuple[Line | None, Line | None]:
    """Return the first line that serves a version, and the first later one that does not; None if there is none."""
    first = None
    for line in LINES:
        kinds = [
            each for each in _every_kind() if each.line == line and not each.unstable and key in each.apis
        ]
        serves = any(each.apis[key].versions[0] <= version <= each.apis[key].versions[1] for each in kinds)
        if serves and first is None:
            first = line
        if not serves and first is not None:
            return first, line
    return first, None
