"""Which requests may be sent: those that only read, and writes of kinds that the user allowed by name.

An API only reads if sending its request leaves records, offsets, groups, topics, configuration and security unchanged.
Brokers may still keep traces of it: a fetch session, a metric, the topic ``__consumer_offsets`` that Kafka creates when
the first coordinator is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dissectors.apis import NAMES, api_name, keys_by_name

READING = frozenset(
    {
        "Fetch",
        "ListOffsets",
        "Metadata",
        "OffsetFetch",
        "FindCoordinator",
        "DescribeGroups",
        "ListGroups",
        "ApiVersions",
        "OffsetForLeaderEpoch",
        "DescribeAcls",
        "DescribeConfigs",
        "DescribeLogDirs",
        "DescribeDelegationToken",
        "ListPartitionReassignments",
        "DescribeClientQuotas",
        "DescribeUserScramCredentials",
        "DescribeQuorum",
        "DescribeCluster",
        "DescribeProducers",
        "DescribeTransactions",
        "ListTransactions",
        "ConsumerGroupDescribe",
        "GetTelemetrySubscriptions",
        "ListConfigResources",
        "DescribeTopicPartitions",
        "ShareGroupDescribe",
        "StreamsGroupDescribe",
        "DescribeShareGroupOffsets",
    }
)
"""Sent unless the user excludes them."""

AUTHENTICATION = frozenset({"SaslHandshake", "SaslAuthenticate"})
"""Never sent: they contain secrets, and tokens do not work twice."""

BETWEEN_NODES = frozenset(
    {
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
        "Vote",
        "BeginQuorumEpoch",
        "EndQuorumEpoch",
        "AlterPartition",
        "Envelope",
        "FetchSnapshot",
        "BrokerRegistration",
        "BrokerHeartbeat",
        "AllocateProducerIds",
        "ControllerRegistration",
        "AssignReplicasToDirs",
        "UpdateRaftVoter",
        "InitializeShareGroupState",
        "ReadShareGroupState",
        "WriteShareGroupState",
        "DeleteShareGroupState",
        "ReadShareGroupStateSummary",
    }
)
"""Never sent: sent twice, or by another client, they break a cluster."""

WRITING = frozenset(NAMES) - READING - AUTHENTICATION - BETWEEN_NODES
"""Sent if allowed by name."""

SASL = "holds secrets; kproxy authenticates itself"
NODES = "brokers and controllers among themselves"
FOLLOWER = "a follower's: it would move the leader's high watermark"
WRITES = "writes: needs --allow"
UNKNOWN = "no API that kproxy knows"

_CONSUMER = -1
_FIRST_BETWEEN_BROKERS = 4  # AddPartitionsToTxn (KIP-890)


class NotAllowedError(ValueError):
    """An API cannot be allowed."""


def allowed_keys(names: Iterable[str]) -> frozenset[int]:
    """Return the keys of the APIs that a user allows, by their names in any case.

    :raises NotAllowedError: if a name is not an API's, or the API is never sent
    """
    known = keys_by_name()
    found = set()
    for name in names:
        key = known.get(name.strip().lower())
        if key is None:
            raise NotAllowedError(f"{name!r} is not a Kafka API: write names such as Produce or OffsetCommit")
        if NAMES[key] in AUTHENTICATION | BETWEEN_NODES:
            reason = SASL if NAMES[key] in AUTHENTICATION else NODES
            raise NotAllowedError(f"{NAMES[key]} is never replayed: {reason}")
        found.add(key)
    return frozenset(found)


def refusal(key: int, version: int, body: Mapping[str, Any], allowed: frozenset[int]) -> str:
    """Return why a request is not sent, in a few words; empty if it may be.

    :param body: as decoded in ``version``
    :param allowed: from :func:`allowed_keys`
    """
    if not 0 <= key < len(NAMES):
        return UNKNOWN
    name = NAMES[key]
    if name in AUTHENTICATION:
        return SASL
    if name in BETWEEN_NODES:
        return NODES
    if name in WRITING and key not in allowed:
        return WRITES
    if name in ("Fetch", "ListOffsets", "OffsetForLeaderEpoch") and _replica(body) >= 0:
        return FOLLOWER if name == "Fetch" else NODES
    if name == "AddPartitionsToTxn" and version >= _FIRST_BETWEEN_BROKERS:
        return NODES
    if name == "Produce" and body.get("transactional_id") is not None:
        return _transactional(allowed)
    return ""


def _replica(body: Mapping[str, Any]) -> int:
    state = body.get("replica_state") or {}
    return max(int(body.get("replica_id", _CONSUMER)), int(state.get("replica_id", _CONSUMER)))


def _transactional(allowed: frozenset[int]) -> str:
    """Return why a transactional request is not sent: without InitProducerId, it would use another producer's ID."""
    needed = keys_by_name()["initproducerid"]
    return "" if needed in allowed else f"belongs to a transaction: --allow {api_name(needed)}"
