"""The partitions that consumers and followers fetch, including those of their fetch sessions.

In a session (KIP-227) a Fetch names only partitions that changed since the one before, and the response only those with
news: what a Fetch requests follows from all of them. Share fetches (KIP-932) have such sessions, too. A session belongs
to a connection: a client that reconnects opens a new one (FetchSessionHandler.java, ShareSessionHandler.java). If the
capture begins inside a session, it becomes known gradually, and never for certain completely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from captures.exchanges import Exchange
from captures.meaning import Names
from captures.meaning.exchange import Body, items, number, replica_of, rows, text
from captures.meaning.topic_partitions import TopicPartition, rows_by_partition, topic
from dissectors.api_keys import ApiKey

MOST_SESSIONS = 4096
"""Most connections whose sessions are kept; those idle the longest are dropped."""


class FetchSession(msgspec.Struct, eq=False):
    """The partitions fetched on a connection: in a session, or by requests that each name all of them.

    :ivar id: session ID from the broker; 0 if it keeps no session
    :ivar partitions: the partitions with the offsets requested last; -1 for share fetches
    :ivar whole: whether these are all
    """

    id: int = 0
    partitions: dict[TopicPartition, int] = {}
    whole: bool = False


class ObservedFetch(msgspec.Struct, frozen=True):
    """One Fetch or ShareFetch.

    :ivar session: the session after this request; it changes with the next
    :ivar asked: partitions in the request, with the requested offsets; -1 for a share fetch
    :ivar dropped: partitions that were fetched before and are no longer
    :ivar end: time of the response's first byte, ns since the epoch; of the request if there is no response
    :ivar replica: node ID of a follower or KRaft replica; negative for a consumer
    """

    session: FetchSession
    asked: list[tuple[TopicPartition, int]]
    dropped: list[TopicPartition]
    end: int
    replica: int = -1


class FetchStep(NamedTuple):
    """The session fields of a Fetch or ShareFetch.

    :ivar asked: as in :class:`ObservedFetch`
    :ivar forgotten: partitions that leave the session
    :ivar epoch: -1 if there is none
    :ivar session_id: 0 if there is none
    :ivar given: session ID in the response, 0 if none
    """

    asked: list[tuple[TopicPartition, int]]
    forgotten: Iterable[TopicPartition]
    epoch: int
    session_id: int
    given: int


class FetchSessions:
    """Follows the sessions of all connections. The exchanges of a connection must be added in order, each once.

    :param names: returns names of topic IDs
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._sessions: dict[tuple[int, str], FetchSession] = {}
        self._unnamed: set[str] = set()

    def is_unnamed(self, topic: str) -> bool:
        """Return whether `topic` is the ID of a topic that was fetched before any message revealed its name."""
        return topic in self._unnamed

    def add(self, exchange: Exchange) -> ObservedFetch | None:
        """Return what an exchange fetches; None if it is no Fetch, or its request is unknown."""
        key = exchange.api_key
        request = exchange.request_body
        if key not in (ApiKey.FETCH, ApiKey.SHARE_FETCH) or not request:
            return None
        response = exchange.response_body
        # a share session belongs to a member, and few members share a connection
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
        # partitions fetched by name are no longer fetched by ID
        seen.dropped.extend(tp for tp in former if seen.session.partitions.pop(tp, None) is not None)
        return seen

    def follow(self, of: tuple[int, str], step: FetchStep, end: int, replica: int) -> ObservedFetch:
        """Return what a Fetch fetches, given its session fields.

        :param of: connection, and member of a share group, empty for others
        :param end: as in :class:`ObservedFetch`
        :param replica: as in :class:`ObservedFetch`
        """
        session, dropped = self._step(of, step)
        if step.given > 0:
            session.id = step.given
        return ObservedFetch(session=session, asked=step.asked, dropped=dropped, end=end, replica=replica)

    def _step(self, of: tuple[int, str], step: FetchStep) -> tuple[FetchSession, list[TopicPartition]]:
        asked = step.asked
        before = self._sessions.pop(of, None)
        if step.epoch <= 0:  # FetchMetadata.java: 0 opens a session, -1 has none or closes it
            session = self._remember(of, FetchSession(partitions=dict(asked), whole=True))
            known = before.partitions if before is not None else {}
            return session, [tp for tp in known if tp not in session.partitions]
        named = step.session_id
        if before is None and named > 0:  # known from a request log, which has connections of its own
            before = next((each for each in self._sessions.values() if each.id == named), None)
        session = before if before is not None and before.id == named else FetchSession(named)
        self._remember(of, session)
        session.partitions.update(asked)
        dropped = [tp for tp in step.forgotten if session.partitions.pop(tp, None) is not None]
        return session, dropped

    def _remember(self, of: tuple[int, str], session: FetchSession) -> FetchSession:
        self._sessions[of] = session  # the latest comes last
        if len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def _asked(self, request: Body) -> Iterator[tuple[TopicPartition, int]]:
        for tp, row in rows_by_partition(request, "topics", self._topic_name):
            yield tp, number(row, "fetch_offset")

    def _topic_name(self, uuid: str) -> str | None:
        name = self._names(uuid)
        if name is None:
            self._unnamed.add(uuid)
        return name

    def _named_meanwhile(self, request: Body) -> list[TopicPartition]:
        """Return the partitions of a request, by topic ID, whose topics have got a name meanwhile."""
        return [
            tp
            for holder in rows(request, "topics")
            if (uuid := holder.get("topic_id")) in self._unnamed and self._names(uuid)
            for tp, _ in rows_by_partition({"topics": [holder]}, "topics", lambda _: None)
        ]

    def _forgotten(self, request: Body) -> Iterator[TopicPartition]:
        for holder in rows(request, "forgotten_topics_data"):
            name = topic(holder, lambda uuid: self._names(uuid) or uuid)
            for partition in items(holder, "partitions"):
                yield TopicPartition(name, partition)
