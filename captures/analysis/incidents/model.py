"""The model of incidents. The values of :class:`IncidentKind` are stable: programs may rely on them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Self

import msgspec
from msgspec import UNSET, UnsetType

from captures.analysis.groups.model import Rebalance, Stop
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Capture
from captures.json_objects import OrNull, Time
from captures.meaning import words
from captures.time_format import Clock


class IncidentKind(StrEnum):
    """The kind of an incident.

    :ivar heading: two or three words
    :ivar about: what it is, and which observations show it
    :ivar advice: what to do
    """

    heading: str
    about: str
    advice: str

    def __new__(cls, word: str, heading: str, about: str, advice: str) -> Self:
        made = str.__new__(cls, word)
        made._value_, made.heading, made.about, made.advice = word, heading, about, advice
        return made

    BROKER_OUTAGE = (
        "broker_outage",
        "Broker outage",
        "A broker was stopped, killed or restarted: it closed all its connections at once, and took none for a while.",
        "Check the broker's log: was it stopped or killed, did it crash, and why did it take so long to return?",
    )
    NETWORK_OUTAGE = (
        "network_outage",
        "Network outage",
        "Data between two hosts was retransmitted again and again, and never acknowledged.",
        "Look at the network between the two (links, firewalls, NAT), and at both hosts.",
    )
    ROLLING_RESTART = (
        "rolling_restart",
        "Rolling restart",
        "Several members of a group ended and came back one after another, as in a deployment.",
        "Nothing to do if this was a deployment. Static members back within session.timeout.ms cause no rebalance.",
    )
    CRASH_LOOP = (
        "crash_loop",
        "Crash loop",
        "A member died without leaving its group and came back at least three times.",
        "Check the log of that process for why it dies: it is often the first record that it reads.",
    )
    QUICK_RESTART = (
        "quick_restart",
        "Crash and quick return",
        "A member died without leaving its group and was back before its session had ended: the group waits for it.",
        "Let the process call close() when it ends. A group.instance.id, where the protocol has one, keeps its place.",
    )
    MEMBER_ABSENCE = (
        "member_absence",
        "Member away",
        "A member of a group ended, or fell silent until its session had ended.",
        "Check its log: was the process meant to end, did it crash, or did it stop polling?",
    )
    CONNECTOR_RESTART = (
        "connector_restart",
        "Connector restarted",
        "Kafka Connect stopped tasks of a sink connector, and restarted them on the same or another worker.",
        "Nothing to do if the connector was changed or workers were restarted: Connect then restarts tasks.",
    )
    SHARED_GROUP_ID = (
        "shared_group_id",
        "One group.id, two applications",
        "Members of one group subscribed to different topics at the same time.",
        "Give each application a group.id of its own, or finish the rollout that changes the subscription.",
    )
    PROCESS_PAUSE = (
        "process_pause",
        "Process paused",
        "A member sent nothing until its session had ended, or a broker answered nothing, and then continued.",
        "Look for long garbage collections, CPU throttling, swapping, a debugger, or a suspended virtual machine.",
    )
    TOPIC_CHANGE = (
        "topic_change",
        "Topic changed",
        "A topic that clients used was deleted, created again, or got more partitions, or groups found a new one.",
        "Nothing to do if this was intended.",
    )
    COORDINATOR_MOVE = (
        "coordinator_move",
        "Coordinator moved",
        "A group got another broker as its coordinator, and no outage of the former one was seen.",
        "Check whether a reassignment or a preferred leader election was intended.",
    )
    CONTROLLER_MOVE = (
        "controller_move",
        "Controller moved",
        "Another node was elected controller of the cluster, and no outage of a broker was seen before.",
        "Check the log of the former controller for why it lost the election: garbage collection, slow disk, network.",
    )


_IN_ORDER = {
    IncidentKind.BROKER_OUTAGE: "Nothing to do if the broker was meant to stop; otherwise find out who stopped it.",
    IncidentKind.MEMBER_ABSENCE: "Nothing to do if the restart was planned; otherwise check the log for why it ended.",
}
"""What to do after a shutdown in order."""


class Consequence(msgspec.Struct, frozen=True):
    """A consequence of an incident.

    :ivar kind: ``rebalance``, ``stop``, ``commit_failures``, ``duplicates``, ``coordinator_move``, ``controller_move``,
        ``slow_answers``, ``lag`` or ``finding``
    :ivar subject: the group, or the subject of the finding
    :ivar time: when it began, ns since the epoch
    :ivar sentence: in words
    :ivar evidence: numbers of exchanges that show it
    :ivar rule: rule of the finding; empty for others
    """

    kind: str
    subject: str
    time: Time
    sentence: str
    evidence: tuple[int, ...] = ()
    rule: OrNull[str] = ""


class Incident(msgspec.Struct, kw_only=True):
    """One incident.

    :ivar id: its kind and number of that kind in the capture, such as ``broker_outage-1``
    :ivar begin: ns since the epoch
    :ivar end: None if that was not seen
    :ivar who: brokers as ``host:port``, members and groups by their labels
    :ivar alternatives: what else it could have been, in words; empty unless it is ``possible``
    :ivar sentence: in words, without the cost
    :ivar certain_sentence: the same without doubt, for when a message settles it; empty if there is none
    :ivar evidence: numbers of exchanges that show it
    :ivar connections: IDs of connections that show it
    :ivar consequences: consequences in the order of time
    :ivar rebalances: rebalances that follow from it
    :ivar groups: groups that it concerns, as an ordered set
    :ivar brokers: addresses of the brokers that were down, as in the capture
    :ivar cut: connections that the network cut, or may have cut
    :ivar stopped_partitions: partitions of static members that were away without a rebalance: start, end,
        member, partitions
    :ivar pauses: pauses in the consumption of groups without a rebalance, by group
    :ivar in_order: whether the broker had asked to shut down, or the member came back and may not have crashed
    :ivar moves: moves of coordinators and the controller that follow from it
    :ivar cluster: its cluster (:mod:`captures.analysis.clusters`), if the capture shows several
    """

    JSON = (
        "id kind begin end who certainty alternatives sentence advice evidence connections consequences "
        "cluster_id=cluster"
    )

    kind: IncidentKind
    begin: Time
    end: Time | None
    who: tuple[str, ...]
    sentence: str
    certainty: Certainty = Certainty.INFERRED
    alternatives: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    consequences: list[Consequence] = []
    rebalances: list[Rebalance] = []
    id: str = ""
    groups: dict[str, None] = {}
    brokers: tuple[str, ...] = ()
    cut: tuple[int, ...] = ()
    stopped_partitions: list[tuple[int, int, str, str]] = []
    pauses: dict[str, list[Stop]] = {}
    moves: list[Consequence] = []
    in_order: bool = False
    certain_sentence: str = ""
    cluster: str | UnsetType = UNSET

    @property
    def advice(self) -> str:
        return _IN_ORDER.get(self.kind, self.kind.advice) if self.in_order else self.kind.advice

    def overlaps(self, begin: int, end: int) -> bool:
        """Return whether it and a period, in ns since the epoch, have a moment in common."""
        return self.begin <= end and (self.end is None or begin <= self.end)

    def lasts(self, now: int) -> int:
        """Return its duration in ns, up to `now` if its end was not seen."""
        return (now if self.end is None else self.end) - self.begin


def broker_incident(
    kind: IncidentKind,
    capture: Capture,
    begin: int,
    end: int | None,
    brokers: Sequence[str],
    what: str,
    *,
    certainly: str = "",
    node: int = -1,
    **more: Any,
) -> Incident:
    """Return an incident of one broker, whose sentence begins ``Broker 10.0.0.1:9092 (also 10.0.0.1:9093)``.

    :param brokers: its addresses as in the capture, one for each listener
    :param what: the rest of the sentence, without a full stop
    :param certainly: the same without doubt
    :param node: its node ID; only needed if no address is known
    :param more: other attributes
    """
    who = tuple(map(capture.names.shown, brokers)) or (f"node {node}",)
    also = f" (also {words.several(who[1:])})" if len(who) > 1 else ""
    subject = f"Broker {who[0]}{also}" if brokers else f"Node {node}"
    return Incident(
        kind=kind,
        begin=begin,
        end=end,
        who=who,
        brokers=tuple(brokers),
        sentence=f"{subject} {what}.",
        certain_sentence=f"{subject} {certainly}." if certainly else "",
        **more,
    )


def in_line(incident: Incident, clock: Clock) -> str:
    """Return an incident on one line: ``broker_outage-1  16:09:51.165 to 16:10:18.160  Broker ...``."""
    until = "" if incident.end in (None, incident.begin) else f" to {clock(incident.end or 0)}"
    return words.line(f"{incident.id}  {clock(incident.begin)}{until}  {incident.sentence}")
