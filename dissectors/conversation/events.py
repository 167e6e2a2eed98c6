"""Events of a conversation: frames, exchanges, and skipped bytes.

Positions count bytes of one side's stream from its first byte (or from the start that the feeder set).
``start`` is the first byte of a frame's size field, ``end`` the byte after the frame. Events carry no time: the
caller that feeds the bytes knows when each position arrived.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec

from dissectors.headers import SIZE_BYTES


class Side(Enum):
    """The sender of bytes."""

    CLIENT = "client"
    BROKER = "broker"


class Damage(Enum):
    """Why a frame's payload is shorter than its announced size."""

    MISSING_BYTES = "bytes are missing from the capture"
    OVER_LIMIT = "longer than the limit for one frame; only its beginning is kept"
    CUT_OFF = "the connection or the capture ended inside it"


class Outcome(Enum):
    """How an exchange ended."""

    ANSWERED = "answered"
    NO_RESPONSE_EXPECTED = "no response expected"
    """Produce with acks=0: the broker never answers (``core/.../KafkaApis.scala``, handleProduceRequest)."""
    UNANSWERED = "unanswered"
    NOT_RECORDED = "not recorded"
    """Bytes are missing where the response would be, so it is unknown whether there was one."""
    ORPHAN_RESPONSE = "orphan response"
    """A response whose request was not seen, or is not known for certain."""


def _size(frame: RequestFrame | ResponseFrame) -> int:
    """Return the value of the size field: the number of bytes after it."""
    return frame.end - frame.start - SIZE_BYTES


class RequestFrame(msgspec.Struct):
    """A request and the start of its header.

    :ivar payload: the frame without its size field; shorter than `size` only if `damage` says why, and then cut
        at the first missing byte
    :ivar client_id: None if null, absent (ControlledShutdown v0) or lost
    :ivar damage: why `payload` is not whole, or None
    :ivar missing: stream ranges ``(start, end)`` inside the frame that never arrived
    :ivar suspicious: what is odd about the frame, empty if nothing is
    """

    start: int
    end: int
    payload: bytes
    correlation_id: int
    api_key: int
    api_version: int
    client_id: str | None
    damage: Damage | None = None
    missing: tuple[tuple[int, int], ...] = ()
    suspicious: str = ""

    side: ClassVar[Side] = Side.CLIENT
    size = property(_size)


class ResponseFrame(msgspec.Struct):
    """A response; its API and version are those of its request. Fields as in :class:`RequestFrame`."""

    start: int
    end: int
    payload: bytes
    correlation_id: int
    damage: Damage | None = None
    missing: tuple[tuple[int, int], ...] = ()

    side: ClassVar[Side] = Side.BROKER
    size = property(_size)


Frame = RequestFrame | ResponseFrame


class RequestSeen(msgspec.Struct):
    """A request is complete and now in flight; a :class:`FrameExchange` with it follows."""

    request: RequestFrame


class FrameExchange(msgspec.Struct):
    """A request with its outcome.

    :ivar request: None for an orphan response
    :ivar response: None if there is none; for an unanswered request it may be a response that was cut off
    :ivar note: why the request is unanswered or the response an orphan, in words
    """

    request: RequestFrame | None
    response: ResponseFrame | None
    outcome: Outcome
    note: str = ""


class SaslToken(msgspec.Struct):
    """A raw SASL token: a size and opaque bytes without Kafka header (after SaslHandshake v0, or Kafka 0.9).

    :ivar data: the token without its size field. It holds secrets: mask it before showing it.
    :ivar mechanism: as requested by the client, or guessed from the first token
    """

    side: Side
    start: int
    end: int
    data: bytes
    mechanism: str


class SkippedBytes(msgspec.Struct):
    """Bytes, present or missing, that belong to no readable frame. `reason` says why."""

    side: Side
    start: int
    end: int
    reason: str


class ForeignProtocol(msgspec.Struct):
    """This side does not speak Kafka; nothing after `start` is parsed.

    :ivar guess: the protocol ("TLS", "HTTP", "unknown protocol" ...)
    :ivar evidence: the basis of the guess ("ClientHello (SNI broker-1)", "GET / HTTP/1.1" ...)
    """

    side: Side
    start: int
    guess: str
    evidence: str


class ConversationEnd(msgspec.Struct):
    """Both sides are closed; every request has had its :class:`FrameExchange`. The last event."""


Event = RequestSeen | FrameExchange | SaslToken | SkippedBytes | ForeignProtocol | ConversationEnd
