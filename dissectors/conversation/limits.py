"""Limits of a conversation: how much it may hold, and which sizes it accepts."""

from __future__ import annotations

from functools import partial

import msgspec

from dissectors.budget import limit


class Limits(msgspec.Struct, frozen=True):
    """Limits of one conversation, in bytes unless named otherwise; rows of :data:`dissectors.budget.LIMITS`.

    Precedents: brokers refuse requests above ``socket.request.max.bytes`` (100 MiB) and, before authentication,
    above ``sasl.server.max.receive.size`` (512 KiB); responses have no limit in the protocol.

    :ivar max_frame: bytes kept of one frame; of a longer one only the first `kept_prefix` bytes are kept
    :ivar max_request_size: a longer request is accepted only from a client ID seen before
    :ivar max_response_size: a longer response is accepted only if its correlation ID is due
    :ivar max_pending_requests: requests in flight; beyond it the oldest is reported as unanswered
    :ivar max_pending_bytes: payload of the requests in flight; beyond it only their first `kept_prefix` bytes are kept
    :ivar max_token: one raw SASL token, and bytes that may wait for the other side to explain them
    :ivar resync_window: how far one search for the next frame looks ahead
    :ivar foreign_window: bytes of an unknown protocol that are searched for Kafka
    """

    max_frame: int = msgspec.field(default_factory=partial(limit, "frame_bytes"))
    kept_prefix: int = msgspec.field(default_factory=partial(limit, "frame_prefix"))
    max_request_size: int = msgspec.field(default_factory=partial(limit, "request_size"))
    max_response_size: int = msgspec.field(default_factory=partial(limit, "response_size"))
    max_pending_requests: int = msgspec.field(default_factory=partial(limit, "pending_requests"))
    max_pending_bytes: int = msgspec.field(default_factory=partial(limit, "pending_bytes"))
    max_token: int = msgspec.field(default_factory=partial(limit, "token_bytes"))
    resync_window: int = msgspec.field(default_factory=partial(limit, "resync_bytes"))
    foreign_window: int = msgspec.field(default_factory=partial(limit, "foreign_bytes"))
