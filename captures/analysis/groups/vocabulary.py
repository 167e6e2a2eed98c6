"""The words for what happens in groups: their kinds, triggers of rebalances, how sure a cause is, how sessions end.

The values of the enumerations are stable: programs may rely on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Self

CONNECT = "connect"
"""Protocol type of the workers of Kafka Connect."""


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


class Trait(Enum):
    """What a trigger means for the group and for the member that it is about."""

    SILENT = auto()
    """The member did nothing: others waited for it, until the coordinator gave it up."""
    ALARMING = auto()
    """It happens when something is wrong, not on purpose."""
    PUT_OUT = auto()
    """The member was put out of its group, with no chance to commit what it consumed last."""
    SHARED = auto()
    """It has one reason whichever member it happens to, such as a slow database."""
    ON_PURPOSE = auto()
    """An administrator does it as a rule, and knows of it."""
    NO_CAUSE = auto()
    """It says nothing of the cause: many of them are no storm."""


class Trigger(StrEnum):
    """What began a rebalance. The words are stable: programs may rely on them.

    :ivar phrase: what happened when it began several rebalances: ``members left``
    :ivar traits: what it means
    """

    phrase: str
    traits: frozenset[Trait]

    def __new__(cls, word: str, phrase: str, *traits: Trait) -> Self:
        made = str.__new__(cls, word)
        made._value_, made.phrase, made.traits = word, phrase, frozenset(traits)
        return made

    MEMBER_JOINED = "member_joined", "new members joined"
    MEMBER_LEFT = "member_left", "members left"
    SESSION_TIMEOUT = (
        "session_timeout",
        "sessions timed out",
        Trait.SILENT,
        Trait.ALARMING,
        Trait.PUT_OUT,
        Trait.SHARED,
    )
    MAX_POLL_EXCEEDED = (
        "max_poll_exceeded",
        "max.poll.interval.ms was exceeded",
        Trait.ALARMING,
        Trait.PUT_OUT,
        Trait.SHARED,
    )
    REBALANCE_TIMEOUT = (
        "rebalance_timeout",
        "members did not join in time",
        Trait.SILENT,
        Trait.ALARMING,
        Trait.PUT_OUT,
        Trait.SHARED,
    )
    SUBSCRIPTION_CHANGED = "subscription_changed", "subscriptions changed"
    PARTITIONS_CHANGED = (
        "partitions_changed",
        "topics got other partitions",
        Trait.SHARED,
        Trait.ON_PURPOSE,
    )
    LEADER_REJOINED = "leader_rejoined", "the leader joined anew", Trait.SHARED
    COOPERATIVE_FOLLOW_UP = "cooperative_follow_up", "a second round followed", Trait.NO_CAUSE
    STATIC_MEMBER_RETURNED = "static_member_returned", "static members returned"
    INSTANCE_FENCED = (
        "instance_fenced",
        "two processes fought for one group.instance.id",
        Trait.ALARMING,
        Trait.PUT_OUT,
        Trait.SHARED,
    )
    REMOVED_BY_ADMIN = (
        "removed_by_admin",
        "members were removed by an administrator",
        Trait.PUT_OUT,
        Trait.ON_PURPOSE,
    )
    COORDINATOR_MOVED = "coordinator_moved", "the coordinator moved", Trait.ALARMING
    PROTOCOL_UPGRADED = "protocol_upgraded", "the group changed its protocol", Trait.ON_PURPOSE
    PROTOCOL_DOWNGRADED = "protocol_downgraded", "the group changed its protocol", Trait.ON_PURPOSE
    KPROXY_INTERVENED = "kproxy_intervened", "kproxy intervened", Trait.SHARED, Trait.ON_PURPOSE
    UNKNOWN = "unknown", "it was not captured what began them", Trait.NO_CAUSE


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

    CLOSED_IN_ORDER = "closed_in_order"
    """Its process was shut down and sent no LeaveGroup: static members (KIP-345) and Streams send none."""
    BROKER_GONE = "broker_gone"
    """The coordinator closed the member's connections first: the broker stopped or died, not the member."""
    PROCESS_LIVED = "process_lived"
    """Its process went on with requests on connections that it had, though not as this member."""
    PROCESS_DIED = "process_died"
    """Its connections were closed or reset when it fell silent, and it did not leave."""
    PROCESS_PAUSED = "process_paused"
    """It sent nothing for a while and then went on: a long collection of garbage, SIGSTOP, a debugger. Where its host
    was seen to acknowledge what came meanwhile, that is ``inferred``; where it was not, it is only ``possible``."""
    UNREACHABLE = "unreachable"
    """What was sent to it was sent again and again, and never acknowledged: host or network gone."""
    ELSEWHERE = "elsewhere"
    """Its coordinator was a broker whose connections are not in the capture, so that its silence says nothing."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """How a member's session came to its end.

    :ivar certainty: of the cause
    :ivar alternatives: what else it could have been, in words; empty unless the cause is ``possible``
    :ivar evidence: what was seen that tells so, each in a few words
    """

    cause: TimeoutCause
    certainty: Certainty = Certainty.INFERRED
    alternatives: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


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
    """It knows of the rebalance and still sends heartbeats, but does not join."""
    SILENT = "silent"
    """Nothing was heard of it any more, until its session ended."""
