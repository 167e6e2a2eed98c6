"""The words in which groups are told: kinds, triggers, how sure they are, phases; and places, which all of it is about.

Values of the enumerations are stable: programs may rely on them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Which protocol a group speaks."""

    CLASSIC = "classic"
    """JoinGroup and SyncGroup (KIP-62), Connect and Streams among them."""
    CONSUMER = "consumer"
    """KIP-848; members that still join the classic way may be among its members."""
    SHARE = "share"
    """KIP-932."""
    STREAMS = "streams"
    """KIP-1071."""


class Trigger(StrEnum):
    """What began a rebalance. The words are stable: programs may rely on them."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    MAX_POLL_EXCEEDED = "max_poll_exceeded"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    LEADER_REJOINED = "leader_rejoined"
    COOPERATIVE_FOLLOW_UP = "cooperative_follow_up"
    STATIC_MEMBER_RETURNED = "static_member_returned"
    INSTANCE_FENCED = "instance_fenced"
    REMOVED_BY_ADMIN = "removed_by_admin"
    COORDINATOR_MOVED = "coordinator_moved"
    PROTOCOL_UPGRADED = "protocol_upgraded"
    PROTOCOL_DOWNGRADED = "protocol_downgraded"
    UNKNOWN = "unknown"


class Certainty(StrEnum):
    """How sure something is, the surest first."""

    OBSERVED = "observed"
    """A message says so."""
    INFERRED = "inferred"
    """It follows from what was seen, and nothing else that is likely would look the same."""
    POSSIBLE = "possible"
    """It fits what was seen, and so does something else."""


class TimeoutCause(StrEnum):
    """Why a member was silent until its session ended."""

    PROCESS_DIED = "process_died"
    """Its connections were closed or reset when it fell silent, and it did not leave."""
    PROCESS_PAUSED = "process_paused"
    """Its kernel acknowledged what came, and nothing was sent: a long collection of garbage, SIGSTOP, a debugger."""
    UNREACHABLE = "unreachable"
    """What was sent to it was sent again and again, and never acknowledged: host or network gone."""
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """What a member does, from one moment to another."""

    JOINING = "joining"
    """Its JoinGroup waits for an answer, or it is between JoinGroup and SyncGroup."""
    SYNCING = "syncing"
    """Its SyncGroup waits for an answer."""
    STABLE = "stable"
    """It has an assignment, and may consume."""
    REVOKING = "revoking"
    """It was told to give partitions up and has not confirmed it yet (KIP-848)."""
    NOT_JOINING = "not joining"
    """It was told of the rebalance and sends heartbeats on, but does not join."""
    SILENT = "silent"
    """Nothing was heard of it any more, until its session ended."""


class Place(NamedTuple):
    """A partition; of a Streams group a task, with the subtopology in the place of the topic.

    :ivar topic: its name, or its ID where no message has told the name
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
