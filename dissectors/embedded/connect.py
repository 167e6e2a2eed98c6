"""Kafka Connect's data in the group protocol (protocol type ``connect``).

Protocol ``default`` is version 0 (``ConnectProtocol.java``); ``compatible`` is version 1 and ``sessioned`` version
2, with the same bytes (``IncrementalCooperativeConnectProtocol.java``, KIP-415, KIP-507). From version 1 on the
last fields may be missing; each ``older`` declaration below lacks one more.
"""

from __future__ import annotations

from dissectors.domains import CONNECT_ASSIGNMENT_ERROR, DURATION_MS
from dissectors.embedded.layout import Layout, prefixed
from dissectors.schema import Array, Bytes, EarlierLayout, Int16, Int32, Int64, Message, String

_CONNECTORS = Array(
    "connector" / String * "connector name",
    "tasks" / Array(Int32) * "task numbers; -1 = the connector itself",
)

ConnectMetadata = Message(
    "ConnectMetadata", None, "data", "0-2", "none",
    "url" / String * "the worker's REST endpoint, where it is sent requests of other workers",
    "config_offset" / Int64 * "offset in the config topic up to which the worker has read; -1 = nothing",
    "allocation" / Bytes.null().default(None) @ "1+" * "what the worker runs now, as an assignment",
    older=(EarlierLayout("1-2", "none", without=("allocation",)),),
)  # fmt: skip

ConnectAssignment = Message(
    "ConnectAssignment", None, "data", "0-2", "none",
    "error" / Int16.of(CONNECT_ASSIGNMENT_ERROR) * "0 = none, 1 = the leader's configuration is older than a member's: join again",
    "leader" / String * "member ID of the leader",
    "leader_url" / String * "the leader's REST endpoint",
    "config_offset" / Int64 * "offset in the config topic that the assignment is made from; -1 = nothing",
    "assigned" / _CONNECTORS.null("1-2") * "connectors and tasks to run; since version 1 only those added",
    "revoked" / _CONNECTORS.null("1-2") @ "1+" * "connectors and tasks to stop (KIP-415)",
    "delay" / Int32.of(DURATION_MS) @ "1+" * "ms until the next rebalance, which waits for a lost worker to return (KIP-415)",
    older=(
        EarlierLayout("1-2", "none", without=("delay",)),
        EarlierLayout("1-2", "none", without=("revoked", "delay")),
        EarlierLayout("1-2", "none", without=("assigned", "revoked", "delay")),
    ),
)  # fmt: skip


def connect_metadata(data: bytes) -> Layout | None:
    """Return the layout of a worker's metadata, None if the bytes cannot be one."""
    return prefixed(ConnectMetadata, data, inside={"allocation": connect_assignment})


def connect_assignment(data: bytes) -> Layout | None:
    """Return the layout of an assignment or an allocation, None if the bytes cannot be one."""
    return prefixed(ConnectAssignment, data)
