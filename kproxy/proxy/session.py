"""A client's connection together with its connection to a broker, from the first byte to the end of both."""

from __future__ import annotations

import socket
import ssl
import struct
from time import time_ns
from typing import TYPE_CHECKING

from dissectors.api_keys import ApiKey
from kproxy.addresses import address_text
from kproxy.proxy.directions import Requests, Responses
from kproxy.proxy.framing import InFlight, TrackedRequest
from kproxy.proxy.half import Half
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.verdicts import Ending, Hold, Peers

if TYPE_CHECKING:
    from kproxy.proxy.authentication import Authentication
    from kproxy.proxy.cluster import Cluster
    from kproxy.proxy.tee import Recording

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER value that makes closing a socket send RST."""


class Session:
    """A client's connection with its connection to a broker.

    :param cluster: the broker's
    :param peers: the two ends
    :ivar requests: direction from the client to the broker
    :ivar responses: direction from the broker to the client
    :ivar closed: whether it has ended
    :ivar swallowing: nothing is forwarded in either direction any more
    :ivar lingers: it is to be closed as soon as nothing is in transit
    :ivar is_served: whether the broker has answered a request that it answers only for clients it accepts
    :ivar authentication: by kproxy at the broker, None if clients authenticate themselves
    """

    def __init__(self, cluster: Cluster, peers: Peers) -> None:
        self.cluster = cluster
        self.plane = cluster.plane
        self.peers = peers
        self.recording: Recording | None = None
        self.authentication: Authentication | None = None
        self.in_flight = InFlight()
        self.holds: list[Hold] = []
        self.closed = False
        self.swallowing = False
        self.lingers = self.is_served = False
        self._begun = self._counted_at = self.plane.loop.time()
        self._counted = 0
        self.requests = Requests(self)
        self.responses = Responses(self)
        self.requests.peer, self.responses.peer = self.responses, self.requests

    def record(self, recording: Recording | None) -> None:
        """Record the traffic from now on; None records nothing."""
        self.recording = self.requests.recording = self.responses.recording = recording

    def no_frame(self, length: int, data: bytes) -> None:
        """Handle a client whose next bytes are not a frame, or one that exceeds the limit.

        If addresses are rewritten, the connection is ended: unreadable bytes could carry them.
        """
        self.responses.pass_all()
        if self.cluster.rewrites:
            self.plane.no_frame(self.peers, length, data)
            self.abort()

    def is_no_broker(self, data: bytes) -> bool:
        """Return whether the first bytes from the broker belong to another protocol, and report that.

        If addresses are rewritten, the connection is ended.
        """
        why = diagnosis.broker_answer(data, address_text(*self.peers.broker))
        if not why:
            return False
        self.plane.reports.warn(why)
        if self.cluster.rewrites or self.authentication is not None:
            self.abort()
        return True

    def left_by_broker(self) -> None:
        """Report a client that may lack SASL: the broker ended the connection at its first request for Metadata."""
        first = self.in_flight.queue[0] if self.in_flight else None
        if self.is_served or not isinstance(first, TrackedRequest) or first.api_key != ApiKey.METADATA:
            return
        if self.authentication is None and not self.requests.has_authenticated:
            self.cluster.unauthenticated(self.peers)

    def half_closed(self, half: Half) -> None:
        """Pass on the end of one direction; the connection ends with the second."""
        other = half.peer
        if other.ended:
            self.close()
            return
        transport = other.transport
        if transport is None or transport.is_closing():
            return
        if transport.can_write_eof():
            transport.write_eof()
        elif self.is_idle:
            transport.close()  # TLS has no half-close; close() flushes written data first
        else:
            self.lingers = True

    def carry_out(self, ending: Ending) -> None:
        """Do to the connection what a verdict demands."""
        if ending is Ending.CLOSE:
            self.close()
        elif ending is Ending.RESET:
            self.abort()
        elif ending is Ending.SWALLOW:
            self.swallow()

    def swallow(self) -> None:
        """Stop forwarding in both directions."""
        self.swallowing = True
        self.requests.swallow()
        self.responses.swallow()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in transit, not even in transports' buffers, or nothing is forwarded any more."""
        if self.swallowing:
            return True
        halves = (self.requests, self.responses)
        return not self.in_flight and all(half.is_idle and not half.unsent for half in halves)

    def overdue(self, first: float, idle: float) -> str:
        """Return which timeout has expired, in words; empty if none has.

        :param first: seconds within which the first request must arrive, 0 for no limit
        :param idle: seconds that may pass without a byte, 0 for no limit
        """
        if first and self.peers.client_id is None and not self.requests.is_idle and self.age > first:
            return f"the first request did not come within {first:g} s"
        if idle and self.idle_seconds() > idle:
            return f"no byte was sent for {idle:g} s"
        return ""

    @property
    def age(self) -> float:
        """Seconds since the connection began."""
        return self.plane.loop.time() - self._begun

    def idle_seconds(self) -> float:
        """Return the seconds without traffic, counted from the call that first noticed it; call this every second.

        It uses the monotonic clock, unlike the times of received bytes, which are wall clock times.
        """
        count, now = self.requests.received + self.responses.received, self.plane.loop.time()
        if count != self._counted:
            self._counted, self._counted_at = count, now
        return now - self._counted_at

    def close(self) -> None:
        """Close both sides once everything written has been flushed."""
        for half in (self.requests, self.responses):
            if half.transport is not None and not half.transport.is_closing():
                half.transport.close()

    def abort(self) -> None:
        """Reset both sides."""
        for half in (self.requests, self.responses):
            self._reset(half)

    def _reset(self, half: Half) -> None:
        transport = half.transport
        if transport is None or transport.is_closing():
            return
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        transport.abort()

    def _free_frames(self) -> None:
        """Free the memory of frames that will not be forwarded, without waiting for the garbage collector."""
        for half in (self.requests, self.responses):
            half.forget()
        for entry in self.in_flight.queue:
            if isinstance(entry, TrackedRequest):
                entry.request = None

    def lost(self, half: Half, error: Exception | None) -> None:
        """Handle the end of one side: the other side is ended in the same way."""
        now = time_ns()
        if not self.closed:
            if half is self.responses and not half.ended:
                self.left_by_broker()
            self.closed = True
            if self.authentication is not None:
                self.authentication.connection_lost(error if half is self.responses else None)
            for hold in self.holds:
                hold.gone = True
            self.holds.clear()
            self._free_frames()
            if self.recording is not None:
                if error is not None:
                    self.recording.reset(half.side, now)
                else:
                    for each in (half, half.peer):
                        if not each.ended:
                            self.recording.end(each.side, now)
            self.plane.ended(self)
            if isinstance(error, ssl.SSLError) and half is self.responses:
                self.plane.broker_refused(self.peers, error)
        if error is not None:
            self._reset(half.peer)
        elif half.peer.transport is not None and not half.peer.transport.is_closing():
            half.peer.transport.close()
