"""Fetch sessions (KIP-227), recorded and live.

In a session a Fetch names only the partitions that changed since the one before, so the partitions fetched follow from
all of them. The live broker assigns its own session ID and may refuse a session; then the next Fetch has to name every
partition of the recorded session. If the capture begins inside a session, its partitions become known little by little;
as long as none is known, its requests cannot be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dissectors.error_codes import ErrorCode

Body = dict[str, Any]

NO_SESSION, INITIAL_EPOCH, FINAL_EPOCH = 0, 0, -1

_FIRST_BY_ID = 13
_LAST_EPOCH = 0x7FFF_FFFF
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors after which a new session begins."""


@dataclass(slots=True, eq=False)
class FetchSession:
    """A fetch session.

    :ivar partitions: topic's name or ID and partition -> the partition's struct in the request
    :ivar live_id: session ID assigned by the live broker, 0 if it keeps none
    :ivar next_epoch: epoch of the next request in the live session
    """

    partitions: dict[tuple[str, int], Body] = field(default_factory=dict)
    live_id: int = NO_SESSION
    next_epoch: int = 1


class FetchSessions:
    """All sessions of a replay, by recorded session ID.

    Session IDs are random numbers of 31 bits, so one table serves all brokers.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}

    def request(self, version: int, body: Body) -> tuple[Body, FetchSession | None]:
        """Return the body to send for a Fetch, and its session, None for a Fetch without one.

        :param body: with live topic IDs and offsets, but the recorded session
        """
        session_id, epoch = body.get("session_id", NO_SESSION), body.get("session_epoch", FINAL_EPOCH)
        if session_id == NO_SESSION and epoch == FINAL_EPOCH:
            return body, None
        if epoch == INITIAL_EPOCH:
            session = FetchSession()
            _update(session, body)
            return body | {"session_id": NO_SESSION, "session_epoch": INITIAL_EPOCH}, session
        session = self._sessions.setdefault(session_id, FetchSession())
        _update(session, body)
        if session.live_id != NO_SESSION:
            live_epoch = FINAL_EPOCH if epoch == FINAL_EPOCH else session.next_epoch
            return body | {"session_id": session.live_id, "session_epoch": live_epoch}, session
        anew = FINAL_EPOCH if epoch == FINAL_EPOCH else INITIAL_EPOCH
        whole = {
            "session_id": NO_SESSION,
            "session_epoch": anew,
            "topics": _topics(session, by_id=version >= _FIRST_BY_ID),
            "forgotten_topics_data": [],
        }
        return body | whole, session

    def recorded(self, session: FetchSession | None, response: Mapping[str, Any] | None) -> None:
        """Record the session ID that the recorded broker assigned."""
        if session is not None and response and response.get("session_id"):
            self._sessions[response["session_id"]] = session


def answered(
    session: FetchSession | None, sent: Mapping[str, Any], response: Mapping[str, Any] | None
) -> None:
    """Update a session by the live broker's response.

    :param sent: the request as it was sent
    :param response: None if none arrived
    """
    if session is None:
        return
    if response is None or response.get("error_code") in _SESSION_ERRORS or not response.get("session_id"):
        session.live_id = NO_SESSION
        return
    session.live_id = response["session_id"]
    epoch = sent["session_epoch"]
    # FetchMetadata.java: epochs wrap to 1, because 0 would open a new session
    session.next_epoch = 1 if epoch == _LAST_EPOCH else epoch + 1


def has_known_partitions(session: FetchSession | None, body: Mapping[str, Any]) -> bool:
    """Return whether any of the partitions that a Fetch asks for are known."""
    return session is None or bool(session.partitions) or body.get("session_epoch") == FINAL_EPOCH


def _update(session: FetchSession, body: Body) -> None:
    for topic in body["topics"]:
        for partition in topic["partitions"]:
            session.partitions[_name(topic), partition["partition"]] = partition
    for topic in body.get("forgotten_topics_data") or ():
        for number in topic["partitions"]:
            session.partitions.pop((_name(topic), number), None)


def _name(topic: Mapping[str, Any]) -> str:
    return str(topic["topic_id"] if "topic_id" in topic else topic["topic"])


def _topics(session: FetchSession, *, by_id: bool) -> list[Body]:
    grouped: dict[str, list[Body]] = {}
    for (name, _), partition in session.partitions.items():
        grouped.setdefault(name, []).append(partition)
    named = "topic_id" if by_id else "topic"
    return [{named: name, "partitions": partitions} for name, partitions in grouped.items()]
