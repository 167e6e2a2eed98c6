"""The trace of a client: who was asked for, what ties its connections together, and the lines of its log.

Plain values: times are ns since the epoch, durations ns, exchanges are given by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from captures.analysis.groups.vocabulary import Certainty
from captures.json_objects import OrNull, Time

NUMBERS_SHOWN = 8
"""Exchanges that a line names; the rest is counted."""


class QuestionKind(StrEnum):
    """What a party is asked for by. The words are stable: programs may rely on them."""

    CLIENT = "client"
    """Client ID, instance ID, or address; a pattern of these."""
    CONNECTION = "connection"
    MEMBER = "member_id"
    TRANSACTION = "transactional_id"
    PRODUCER = "producer_id"


class Question(NamedTuple):
    """Who is asked for.

    :ivar text: a number as text where it is one
    """

    by: QuestionKind
    text: str


class Bond(StrEnum):
    """What makes a connection one of the party. The words are stable: programs may rely on them."""

    CLIENT_ID = "client_id"
    ADDRESS = "address"
    CONNECTION = "connection"
    INSTANCE = "instance_id"
    MEMBER = "member_id"
    TRANSACTION = "transactional_id"
    PRODUCER = "producer_id"
    SAME_CLIENT = "client_id_and_address"
    """It has the client ID and the address of a connection that is the party's."""


@dataclass(frozen=True, slots=True)
class Tie:
    """Why a connection is the party's.

    :ivar value: the client ID, member ID ..., by which it is
    :ivar certainty: ``observed`` if a message says so; ``inferred`` by client ID and address; ``possible`` if there was
        another process of this client ID at this address at the same time
    :ivar number: of the first exchange of the connection that shows it; None where its endpoints do
    """

    JSON = "connection by=bond value certainty exchange=number"

    connection: int
    bond: Bond
    value: str
    certainty: Certainty = Certainty.OBSERVED
    number: int | None = None


@dataclass(slots=True)
class Party:
    """A party: its connections with what ties them, and what it is called.

    :ivar ties: connection -> why it is the party's; in the order of their IDs
    :ivar client_ids: in the order in which they were seen; so are the others
    :ivar groups: those in which it was a member
    :ivar company: connections on which members of these groups were heard, its own included
    :ivar unclaimed: connections from its addresses without any exchange, which may be its own or another client's there
    """

    JSON = (
        "asked_by=question.by asked=question.text client_ids addresses=hosts members instance_ids=instances "
        "groups transactional_ids producer_ids unclaimed_connections=unclaimed ties=all_ties"
    )

    question: Question
    ties: dict[int, Tie] = field(default_factory=dict)
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
    def all_ties(self) -> list[Tie]:
        """Why each connection is the party's, in the order of their IDs."""
        return list(self.ties.values())


class Phase(StrEnum):
    """What a party is about; the headings of its log. The words are stable: programs may rely on them."""

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
    """One line of the log: something that happened, or several alike put together.

    :ivar time: when it began
    :ivar until: when it was over; of several the last
    :ivar what: a word that says what it is about, see ``docs/follow.md``
    :ivar phase: of the heading that it stands under; None while that is not settled
    :ivar text: in words
    :ivar client: client ID, or address without one
    :ivar count: exchanges that it stands for; 0 if it is about none
    :ivar numbers: of the first ones, :data:`NUMBERS_SHOWN` at most
    :ivar last: number of the last; None if it is about none
    :ivar trouble: whether it is bad news
    :ivar then: what was done after an error, in words
    :ivar certainty: ``observed`` if messages or packets say so
    :ivar key: equal for lines that say the same of something that comes again; None for those that never do
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
