"""Frames in the two byte streams of a connection, as far as forwarding needs them. No sockets here.

A frame is an int32 size and as many bytes. The first twelve bytes of a request are read (size, API key, version,
correlation ID; for Produce also ``acks``), and the first eight of a response. Responses arrive in the order of the
requests (``SocketServer`` mutes a connection while it processes a request), so a queue pairs them; the correlation ID
confirms the pairing, because some requests are never answered: Produce with ``acks=0``, the last token of GSSAPI.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kproxy.proxy.addresses import ResponseHandling
    from kproxy.proxy.verdicts import Frame

REQUEST_HEAD = Struct(">ihhi")
SHORT_REQUEST_HEAD = Struct(">iii")  # API key and version as one number
RESPONSE_HEAD = Struct(">ii")
_SIZE = Struct(">i")
_SHORT = Struct(">h")

_PRODUCE_TRANSACTIONAL, _PRODUCE_FLEXIBLE = 3, 9

_MOST_KEY, _MOST_VERSION = 0x7FFF, 64
_MOST_SEARCHED = 64  # queue entries searched for a correlation ID

TOKEN = None
"""Queue entry of a raw SASL token, which has no correlation ID."""


class NeedMore(Exception):  # noqa: N818  # not an error
    """The bytes end before the field to be read."""


@dataclass(slots=True, eq=False)
class TrackedRequest:
    """A request whose response is of interest.

    :ivar treatment: how the response is treated, None if it simply passes
    :ivar request: the request itself, if an inspector wants it with the response
    :ivar answer: the response, if kproxy gives it
    :ivar comment: packet comment on that answer
    :ivar void: no response will arrive, because the request was not forwarded
    :ivar receive: for a request of kproxy's own: takes the response, which is neither forwarded nor recorded
    """

    api_key: int
    version: int
    correlation_id: int
    treatment: ResponseHandling | None
    request: Frame | None = None
    answer: bytes | None = None
    comment: str = ""
    void: bool = False
    receive: Callable[[bytes], None] | None = None


Entry = int | TrackedRequest | None
"""A request in flight: its correlation ID, a :class:`TrackedRequest`, or :data:`TOKEN`."""


class InFlight:
    """The requests of a connection that were sent and not yet answered, the oldest first."""

    __slots__ = ("queue",)

    def __init__(self) -> None:
        self.queue: deque[Entry] = deque()

    def __len__(self) -> int:
        return len(self.queue)

    def expect(self, entry: Entry) -> None:
        """Record that a request was sent."""
        self.queue.append(entry)

    def answered(self, correlation_id: int) -> Entry:
        """Record that a response has arrived; return the entry that it answers.

        Older entries, which were never answered, are dropped. If no entry has the correlation ID, the oldest is taken.
        """
        queue = self.queue
        if not queue:
            return TOKEN
        first = queue[0]
        if first == correlation_id:
            return queue.popleft()
        if isinstance(first, TrackedRequest) and first.correlation_id == correlation_id:
            return queue.popleft()
        for position in range(1, min(len(queue), _MOST_SEARCHED)):
            entry = queue[position]
            if (entry.correlation_id if isinstance(entry, TrackedRequest) else entry) == correlation_id:
                for _ in range(position):
                    queue.popleft()
                break
        return queue.popleft()

    def own_answer(self) -> TrackedRequest | None:
        """Return the oldest entry if kproxy has to answer it now; drop void entries before it."""
        queue = self.queue
        while queue:
            first = queue[0]
            if not isinstance(first, TrackedRequest) or (first.answer is None and not first.void):
                return None
            queue.popleft()
            if first.answer is not None:
                return first
        return None


def is_request(api_key: int, version: int) -> bool:
    """Return whether a possible request header is one, and not the beginning of a raw SASL token.

    No token of a known mechanism looks like one: PLAIN begins with letters, SCRAM and OAUTHBEARER with "n", "y", "p",
    "c" or byte 1, GSSAPI with 0x60 or 0x05, and versions are small.
    """
    return 0 <= api_key <= _MOST_KEY and 0 <= version < _MOST_VERSION


def acks_place(data: bytes, at: int, end: int, version: int) -> int:
    """Return the offset of ``acks`` in a Produce request.

    :param at: offset of the size field
    :param end: offset of the end of the frame, or of the bytes received of it
    :raises NeedMore: if the bytes end before it
    """
    position = at + REQUEST_HEAD.size
    position = _after_string(data, position, end)  # client ID, a classic string in every version
    if version >= _PRODUCE_FLEXIBLE:
        position = _after_tags(data, position, end)
        length, position = _uvarint(data, position, end)
        position += max(length - 1, 0)
    elif version >= _PRODUCE_TRANSACTIONAL:
        position = _after_string(data, position, end)
    if position + _SHORT.size > end:
        raise NeedMore
    return position


def client_id_of(data: bytes, at: int, end: int) -> str | None:
    """Return the client ID of a request, None if it has none or the bytes end before it.

    :param at: offset of the size field
    """
    position = at + REQUEST_HEAD.size
    if position + _SHORT.size > end:
        return None
    (length,) = _SHORT.unpack_from(data, position)
    if length < 0 or position + _SHORT.size + length > end:
        return None
    return data[position + _SHORT.size : position + _SHORT.size + length].decode(errors="replace")


def _after_string(data: bytes, position: int, end: int) -> int:
    if position + _SHORT.size > end:
        raise NeedMore
    (length,) = _SHORT.unpack_from(data, position)
    return position + _SHORT.size + max(int(length), 0)


def _after_tags(data: bytes, position: int, end: int) -> int:
    count, position = _uvarint(data, position, end)
    for _ in range(count):
        _, position = _uvarint(data, position, end)
        size, position = _uvarint(data, position, end)
        position += size
    return position


def _uvarint(data: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= end:
            raise NeedMore
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            return 0, position  # not a uvarint; the broker will reject it
