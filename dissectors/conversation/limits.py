"""How much one conversation may hold, and what it believes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from dissectors.budget import limit


@dataclass(slots=True, frozen=True)
class Limits:
    """Caps of one conversation, all in bytes unless named otherwise; rows of :data:`dissectors.budget.LIMITS`.

    Precedents: brokers refuse requests above ``socket.request.max.bytes`` (100 MiB) and, before authentication,
    above ``sasl.server.max.receive.size`` (512 KiB); responses have no limit in the protocol.

    :ivar max_frame: bytes kept of one frame; a longer one keeps its first `kept_prefix` bytes
    :ivar max_request_size: a longer request is believed only from a client ID seen before
    :ivar max_response_size: a longer response is believed only with the correlation ID that is due
    :ivar max_pending_requests: requests in flight; beyond it the oldest is given up as unanswered
    :ivar max_pending_bytes: payload of the requests in flight; beyond it they keep their `kept_prefix` bytes
    :ivar max_token: one raw SASL token, and what may wait for the other side to explain it
    :ivar resync_window: how far one search for the next frame looks ahead
    :ivar foreign_window: how much of an unknown protocol is searched for Kafka before giving up
    """

    max_frame: int = field(default_factory=partial(limit, "frame_bytes"))
    kept_prefix: int = field(default_factory=partial(limit, "frame_prefix"))
    max_request_size: int = field(default_factory=partial(limit, "request_size"))
    max_response_size: int = field(default_factory=partial(limit, "response_size"))
    max_pending_requests: int = field(default_factory=partial(limit, "pending_requests"))
    max_pending_bytes: int = field(default_factory=partial(limit, "pending_bytes"))
    max_token: int = field(default_factory=partial(limit, "token_bytes"))
    resync_window: int = field(default_factory=partial(limit, "resync_bytes"))
    foreign_window: int = field(default_factory=partial(limit, "foreign_bytes"))
