"""The vocabulary of groups: their kinds, triggers of rebalances, certainty of causes, ends of sessions, phases.

The values of the enumerations are stable: programs may rely on them.
"""

from __future__ import annotations

from enum import Flag, StrEnum, auto
from typing import Self

import msgspec

CONNECT = "connect"
"""Protocol type of the workers of Kafka Connect."""


class Kind(StrEnum):
    """The protocol of a group."""

    CLASSIC = "classic"
    """JoinGroup and SyncGroup (KIP-62), including Kafka Connect and Kafka Streams."""
    CONSUMER = "consumer"
    """KIP-848; may include classic members."""
    SHARE = "share"
    """KIP-932."""
    STREAMS = "streams"
    """KIP-1071."""


class Trait(Flag):
    """What a trigger means for the group and for the member that it concerns."""

    SILENT = auto()
    """The member did nothing: others waited for it, until the coordinator removed it."""
    ALARMING = auto()
    """It happens when something is wrong, not on purpose."""
    PUT_OUT = auto()
    """The member was expelled from its group, with no chance to commit its last offsets."""
    SHARED = auto()
    """It has one reason whichever member it concerns, such as a slow database."""
    ON_PURPOSE = auto()
    """Usually an administrator does it, and knows of it."""
    NO_CAUSE = auto()
    """It does not show the cause: many of them are no storm."""


_NONE = Trait(0)
_EXPELLED = Trait.ALARMING | Trait.PUT_OUT | Trait.SHARED


class Trigger(StrEnum):
    """The trigger of a rebalance. The values are stable: programs may rely on them.

    :ivar phrase: what happened, for several members or rebalances: ``members left``
    :ivar phrase_of_one: the same for one: ``a member left``
    :ivar traits: what it means
    """

    phrase: str
    phrase_of_one: str
    traits: Trait

    def __new__(cls, word: str, phrase: str, traits: Trait = _NONE) -> Self:
        made = str.__new__(cls, word)
        made._value_, made.traits = word, traits
        made.phrase_of_one, _, several = phrase.partition(" / ")
        made.phrase = several or phrase
        return made

    MEMBER_JOINED = "member_joined", "a new member joined / new members joined"
    MEMBER_LEFT = "member_left", "a member left / members left"
    SESSION_TIMEOUT = (
        "session_timeout",
        "a session timed out / sessions timed out",
        Trait.SILENT | _EXPELLED,
    )
    MAX_POLL_EXCEEDED = "max_poll_exceeded", "max.poll.interval.ms was exceeded", _EXPELLED
    REBALANCE_TIMEOUT = (
        "rebalance_timeout",
        "a member did not join in time / members did not join in time",
        Trait.SILENT | _EXPELLED,
    )
    SUBSCRIPTION_CHANGED = "subscription_changed", "a subscription changed / subscriptions changed"
    PARTITIONS_CHANGED = (
        "partitions_changed",
        "topics got other partitions",
        Trait.SHARED | Trait.ON_PURPOSE,
    )
    LEADER_REJOINED = "leader_rejoined", "the leader joined again", Trait.SHARED
    COOPERATIVE_FOLLOW_UP = "cooperative_follow_up", "a second round followed", Trait.NO_CAUSE
    STATIC_MEMBER_RETURNED = "static_member_returned", "a static member returned / static members returned"
    INSTANCE_FENCED = "instance_fenced", "two processes fought for one group.instance.id", _EXPELLED
    REMOVED_BY_ADMIN = (
        "removed_by_admin",
        "a member was removed by an administrator / members were removed by an administrator",
        Trait.PUT_OUT | Trait.ON_PURPOSE,
    )
    COORDINATOR_MOVED = "coordinator_moved", "the coordinator moved", Trait.ALARMING
    PROTOCOL_UPGRADED = "protocol_upgraded", "the group changed its protocol", Trait.ON_PURPOSE
    PROTOCOL_DOWNGRADED = "protocol_downgraded", "the group changed its protocol", Trait.ON_PURPOSE
    KPROXY_INTERVENED = "kproxy_intervened", "kproxy intervened", Trait.SHARED | Trait.ON_PURPOSE
    UNKNOWN = (
        "unknown",
        "it was not captured what began it / it was not captured what began them",
        Trait.NO_CAUSE,
    )


class Certainty(StrEnum):
    """How certain something is, the most certain first."""

    OBSERVED = "observed"
    """A message says so."""
    INFERRED = "inferred"
    """It follows from the traffic, and nothing else that is likely would look the same."""
    POSSIBLE = "possible"
    """It matches the traffic, and so does something else."""


class TimeoutCause(StrEnum):
    """Why a member was silent until its session ended."""

    CLOSED_IN_ORDER = "closed_in_order"
    """Its process was shut down and sent no LeaveGroup: static members (KIP-345) and Streams send none."""
    BROKER_GONE = "broker_gone"
    """The coordinator closed the member's connections first: the broker stopped or died, not the member."""
    PROCESS_LIVED = "process_lived"
    """Its process continued to send requests on its connections, but not as this member."""
    PROCESS_DIED = "process_died"
    """Its connections were closed or reset when it fell silent, and it did not leave."""
    PROCESS_PAUSED = "process_paused"
    """It sent nothing for a while and then continued: a long garbage collection, SIGSTOP, a debugger. ``inferred`` if
    its host was seen to acknowledge data meanwhile, otherwise only ``possible``."""
    UNREACHABLE = "unreachable"
    """Data sent to it was retransmitted and never acknowledged: host or network gone. ``inferred`` if the clock of its
    host went on, or if only one direction was lost, otherwise only ``possible``."""
    HOST_SUSPENDED = "host_suspended"
    """Data sent to it was retransmitted and not acknowledged, and the TCP clock of its host stood still meanwhile."""
    ELSEWHERE = "elsewhere"
    """Its coordinator was a broker whose connections are not in the capture, so its silence means nothing."""
    UNKNOWN = "unknown"


class SessionEnd(msgspec.Struct, frozen=True):
    """How a member's session ended.

    :ivar certainty: certainty of the cause
    :ivar alternatives: other possible causes, in words; empty unless the cause is ``possible``
    :ivar evidence: observations that show it, each in a few words
    """

    cause: TimeoutCause
    certainty: Certainty = Certainty.INFERRED
    alternatives: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class Phase(StrEnum):
    """The state of a member for a while."""

    JOINING = "joining"
    """Its JoinGroup waits for an answer, or it is between JoinGroup and SyncGroup."""
    SYNCING = "syncing"
    """Its SyncGroup waits for an answer."""
    STABLE = "stable"
    """It has an assignment, and may consume."""
    REVOKING = "revoking"
    """It has to revoke partitions and has not confirmed it yet (KIP-848)."""
    NOT_JOINING = "not joining"
    """It knows of the rebalance and still sends heartbeats, but does not join."""
    SILENT = "silent"
    """It sent nothing until its session ended."""
