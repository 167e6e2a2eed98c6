"""The trace of a client: the question, the ties of its connections, and the lines of its log.

Plain values: times are ns since the epoch, durations ns, exchanges are numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from captures.analysis.groups.vocabulary import Certainty
from captures.json_objects import OrNull, Time

NUMBERS_SHOWN = 8
"""Most exchanges that a line names; the rest is counted."""


class QuestionKind(StrEnum):
    """What identifies the party. The words are stable: programs may rely on them."""

    CLIENT = "client"
    """Client ID, instance ID, or address; a pattern of these."""
    CONNECTION = "connection"
    MEMBER = "member_id"
    TRANSACTION = "transactional_id"
    PRODUCER = "producer_id"


class Question(NamedTuple):
    """The party in question.

    :ivar text: the identifier; numbers as text
    """

    by: QuestionKind
    text: str


class AssociationReason(StrEnum):
    """Why a connection belongs to the party. The words are stable: programs may rely on them."""

    CLIENT_ID = "client_id"
    ADDRESS = "address"
    CONNECTION = "connection"
    INSTANCE = "instance_id"
    MEMBER = "member_id"
    TRANSACTION = "transactional_id"
    PRODUCER = "producer_id"
    SAME_CLIENT = "client_id_and_address"
    """It has the client ID and the address of one of the party's connections."""


@dataclass(frozen=True, slots=True)
class Association:
    """Why a connection belongs to the party.

    :ivar value: the client ID, member ID etc. by which it does
    :ivar certainty: ``observed`` if a message shows it; ``inferred`` by client ID and address; ``possible`` if another
        process had this client ID at this address at the same time
    :ivar number: number of the first exchange of the connection that shows it; None if its endpoints do
    """

    JSON = "connection by=bond value certainty exchange=number"

    connection: int
    bond: AssociationReason
    value: str
    certainty: Certainty = Certainty.OBSERVED
    number: int | None = None


@dataclass(slots=True)
class TracedClient:
    """A party: its connections with their ties, and its names.

    :ivar ties: connection -> tie, in the order of connection IDs
    :ivar client_ids: in the order in which they were seen, as are the other names
    :ivar groups: groups in which it was a member
    :ivar company: connections with members of these groups, its own included
    :ivar unclaimed: number of connections from its addresses without any exchange, which may be its own or another
        client's there
    """

    JSON = (
        "asked_by=question.by asked=question.text client_ids addresses=hosts members instance_ids=instances "
        "groups transactional_ids producer_ids unclaimed_connections=unclaimed ties=all_ties"
    )

    question: Question
    ties: dict[int, Association] = field(default_factory=dict)
    client_ids: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    instances: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    transactional_ids: list[str] = field(default_factory=list)
    producer_ids: list[int] = field(default_factory=list)
    company: list[int] = field(default_factory=list)
    unclaimed: int = 0

    @property
    def all_ties(self) -> list[Association]:
        """The ties, in the order of connection IDs."""
        return list(self.ties.values())


class Phase(StrEnum):
    """The phase of a party; the headings of its log. The words are stable: programs may rely on them."""

    BOOTSTRAP = "bootstrap"
    AUTHENTICATION = "authentication"
    COORDINATOR = "coordinator"
    GROUP = "group"
    POSITIONS = "positions"
    CONSUMING = "consuming"
    PRODUCING = "producing"
    TRANSACTIONS = "transactions"
    REPLICATION = "replication"
    ADMINISTRATION = "administration"
    END = "end"


@dataclass(slots=True, kw_only=True)
class Line:
    """One line of the log: an event, or several equal ones merged.

    :ivar time: when it began
    :ivar until: when it ended; for several events, the last one
    :ivar what: kind of the line, see ``docs/follow.md``
    :ivar phase: its heading; None while that is not settled
    :ivar text: in words
    :ivar client: client ID, or address without one
    :ivar count: number of exchanges that it represents; 0 if it is about none
    :ivar numbers: numbers of the first ones, at most :data:`NUMBERS_SHOWN`
    :ivar last: number of the last one; None if it is about none
    :ivar trouble: whether it is bad news
    :ivar then: what was done after an error, in words
    :ivar certainty: ``observed`` if messages or packets show it
    :ivar key: equal for lines that report the same kind of event again; None for lines that are never repeated
    """

    JSON = (
        "time until phase what text client count exchanges=numbers last_exchange=last connections brokers "
        "trouble then certainty"
    )

    time: Time
    until: Time
    what: str
    text: str
    phase: Phase | None = None
    client: OrNull[str] = ""
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    last: int | None = None
    connections: list[int] = field(default_factory=list)
    brokers: list[str] = field(default_factory=list)
    trouble: bool = False
    then: list[str] = field(default_factory=list)
    certainty: Certainty = Certainty.OBSERVED
    key: tuple[object, ...] | None = None
