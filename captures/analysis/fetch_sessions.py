"""What consumers and followers fetch, with what their fetch sessions add.

In a session (KIP-227) a Fetch names only the partitions that changed since the one before, and the answer only those
that have news: what a Fetch asks for follows from all of them. Share fetches (KIP-932) have such sessions, too. A
session belongs to a connection: a client that connects anew opens a new one (FetchSessionHandler.java,
ShareSessionHandler.java). Where the capture begins inside a session, it is known little by little, and never known to
be whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, items, number, replica_of, rows, text
from captures.meaning.places import TopicPartition, rows_by_place, topic
from dissectors.api_keys import ApiKey

MOST_SESSIONS = 4096
"""Connections whose sessions are remembered; what was idle the longest is forgotten."""


@dataclass(slots=True, eq=False)
class FetchSession:
    """What is fetched on a connection: in a session, or by requests that each name all of it.

    :ivar id: that the broker gave; 0 if it keeps none
    :ivar partitions: the partitions with the offsets that were asked for last; of share fetches -1
    :ivar whole: whether these are all
    """

    id: int = 0
    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class FetchSeen:
    """One Fetch or ShareFetch.

    :ivar session: as it is after this request; it changes with the next
    :ivar asked: partitions that the request names, with the offsets that it asks for; of a share fetch -1
    :ivar dropped: partitions that were fetched before and are not any more
    :ivar end: ns since the epoch, of the response's first byte; of the request if there is none
    :ivar replica: node ID of a follower or KRaft replica; below 0 for a consumer
    """

    session: FetchSession
    asked: list[tuple[TopicPartition, int]]
    dropped: list[TopicPartition]
    end: int
    replica: int = -1


class FetchStep(NamedTuple):
    """What a Fetch or ShareFetch says of its session.

    :ivar asked: as :class:`FetchSeen` has it
    :ivar forgotten: partitions that leave the session
    :ivar epoch: -1 where there is none
    :ivar session_id: 0 where there is none
    :ivar given: the ID that the response tells, 0 if none
    """

    asked: list[tuple[TopicPartition, int]]
    forgotten: Iterable[TopicPartition]
    epoch: int
    session_id: int
    given: int


class FetchSessions:
    """Follows the sessions of all connections; exchanges of a connection in their order, each once.

    :param names: tells names of topic IDs
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._sessions: dict[tuple[int, str], FetchSession] = {}
        self._unnamed: set[str] = set()

    def is_unnamed(self, topic: str) -> bool:
        """Whether this is the ID of a topic that was fetched before any message told its name."""
        return topic in self._unnamed

    def add(self, exchange: Exchange) -> FetchSeen | None:
        """Return what an exchange fetches; None if it is no Fetch, or its request is not known."""
        key = exchange.api_key
        request = exchange.request_body
        if key not in (ApiKey.FETCH, ApiKey.SHARE_FETCH) or not request:
            return None
        response = exchange.response_body
        # a share session is one of a member, which has several connections at most
        of = exchange.connection, text(request, "member_id")
        asked = list(self._asked(request))
        former = self._named_meanwhile(request) if self._unnamed else []
        seen = self.follow(
            of,
            FetchStep(
                asked,
                self._forgotten(request),
                number(request, "session_epoch", number(request, "share_session_epoch")),
                number(request, "session_id", 0),
                number(response, "session_id", 0),
            ),
            exchange.end,
            replica_of(request),
        )
        # what is fetched by its name now is not fetched by its ID any more
        seen.dropped.extend(place for place in former if seen.session.partitions.pop(place, None) is not None)
        return seen

    def follow(self, of: tuple[int, str], step: FetchStep, end: int, replica: int) -> FetchSeen:
        """Return what a Fetch fetches, by what it says itself.

        :param of: connection, and member of a share group, empty for others
        :param end: of the exchange, as :class:`FetchSeen` has it
        :param replica: likewise
        """
        session, dropped = self._step(of, step)
        if step.given > 0:
            session.id = step.given
        return FetchSeen(session=session, asked=step.asked, dropped=dropped, end=end, replica=replica)

    def _step(self, of: tuple[int, str], step: FetchStep) -> tuple[FetchSession, list[TopicPartition]]:
        asked = step.asked
        before = self._sessions.pop(of, None)
        if step.epoch <= 0:  # FetchMetadata.java: 0 opens a session, -1 is without one or closes it
            session = self._remember(of, FetchSession(partitions=dict(asked), whole=True))
            known = before.partitions if before is not None else {}
            return session, [place for place in known if place not in session.partitions]
        named = step.session_id
        session = before if before is not None and before.id == named else FetchSession(named)
        self._remember(of, session)
        session.partitions.update(asked)
        dropped = [place for place in step.forgotten if session.partitions.pop(place, None) is not None]
        return session, dropped

    def _remember(self, of: tuple[int, str], session: FetchSession) -> FetchSession:
        self._sessions[of] = session  # the latest comes last
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def _asked(self, request: Body) -> Iterator[tuple[TopicPartition, int]]:
        for place, row in rows_by_place(request, "topics", self._topic_name):
            yield place, number(row, "fetch_offset")

    def _topic_name(self, uuid: str) -> str | None:
        name = self._names(uuid)
        if name is None:
            self._unnamed.add(uuid)
        return name

    def _named_meanwhile(self, request: Body) -> list[TopicPartition]:
        """Return what a request fetches of topics that got a name meanwhile, by their IDs."""
        return [
            place
            for holder in rows(request, "topics")
            if (uuid := holder.get("topic_id")) in self._unnamed and self._names(uuid)
            for place, _ in rows_by_place({"topics": [holder]}, "topics", lambda _: None)
        ]

    def _forgotten(self, request: Body) -> Iterator[TopicPartition]:
        for holder in rows(request, "forgotten_topics_data"):
            name = topic(holder, lambda uuid: self._names(uuid) or uuid)
            for partition in items(holder, "partitions"):
                yield TopicPartition(name, partition)
