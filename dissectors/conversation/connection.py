"""One Kafka connection without I/O: bytes of two directions in, events out.

Feed bytes in the order in which they were seen, pull events at any time. Whatever the bytes are, nothing
raises, everything dropped is reported, and memory is bounded by :class:`Limits`.

Rules between the two sides (those of one side are in `half`, of pairing in `pairing`):

* Events come in causal order: a request is seen before its exchange; each request has exactly one exchange.
* Which bytes are SASL tokens depends on both sides: the client waits for the response to SaslHandshake v0, the
  broker for the client's next frame.
* A response without request waits while no request is missing: captures may contain it before its request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from dissectors.apis import version_limits
from dissectors.conversation.broker import BrokerHalf
from dissectors.conversation.client import ClientHalf
from dissectors.conversation.events import ConversationEnd, Event, RequestFrame, Side
from dissectors.conversation.half import Half, SharedParts, State
from dissectors.conversation.limits import Limits
from dissectors.conversation.pairing import Pairing
from dissectors.conversation.sasl import TokenPhase

MID_STREAM = "the capture started inside the connection"


class Checkpoint(msgspec.Struct, frozen=True):
    """The state of a conversation in step; see :meth:`Conversation.standing`. Pairs are client, broker.

    :ivar positions: stream positions of the next frame of each side
    :ivar unread: the bytes of that frame seen so far
    :ivar in_flight: requests that wait for their response, in order
    :ivar client_ids: the first client IDs, in order
    """

    positions: tuple[int, int]
    unread: tuple[bytes, bytes]
    in_flight: list[RequestFrame]
    client_ids: list[str]


class Conversation:
    """The state machine of one connection.

    :param versions: lowest and highest request version by API key; by default those of :mod:`dissectors.apis`
    :param midstream: the first bytes need not be the connection's first
    """

    def __init__(
        self,
        versions: Mapping[int, tuple[int, int]] | None = None,
        limits: Limits | None = None,
        *,
        midstream: bool = False,
    ) -> None:
        self._events: deque[Event] = deque()
        self._limits = limits or Limits()
        self._pairing = Pairing(self._events.append, self._limits)
        shared = SharedParts(self._events.append, self._limits, self._pairing, TokenPhase(), State.START)
        self._client = ClientHalf(shared, version_limits() if versions is None else versions)
        self._broker = BrokerHalf(shared)
        self._broker.client, self._client.broker = self._client, self._broker
        self._broker.on_handshake = self._client.handshake_answered
        self._since_check = 0
        if midstream:
            self._client.mid_stream(MID_STREAM)
            self._broker.mid_stream(MID_STREAM)
            self._client.note_loss()

    def resume(
        self,
        positions: tuple[int, int],
        in_flight: Iterable[RequestFrame],
        *,
        silent: Iterable[int] = (),
        latest: RequestFrame | None = None,
        last_answer: int | None = None,
        client_ids: Iterable[str] = (),
    ) -> None:
        """Start where another reader stopped: both sides in step, and `in_flight` sent but not yet answered.

        Call it only before feeding the first byte.

        :param positions: stream positions of the client's and of the broker's next frame
        :param in_flight: requests in order; they are not reported again by :class:`RequestSeen`
        :param silent: correlation IDs of the latest requests that need no response
        :param latest: the latest request; it helps to find the next one after a loss
        :param last_answer: correlation ID of the latest response
        :param client_ids: the first client IDs of the connection, which also help to find requests
        """
        self._client.remember(client_ids)
        self._pairing.remember_silent(silent)
        for half, position in ((self._client, positions[0]), (self._broker, positions[1])):
            if position:  # else no byte of this side was seen, and it may speak another protocol
                half.buffer.jump(position)
                half.spoke_kafka = True
                half.enter(State.FRAMES)
        for request in in_flight:
            self._client.recall(request)
            self._pairing.expect(request)
        if latest is not None:
            self._client.recall(latest)
        self._broker.recall(last_answer)

    def checkpoint(self) -> Checkpoint | None:
        """Return the state for a reader that handles only plain frames, if the conversation can be handed over.

        None while a side is out of step or speaks anything but frames, while a whole frame waits for
        confirmation, and while a loss leaves the pairing uncertain.
        """
        halves = self._client, self._broker
        if (
            self._broker.waits
            or self._client.odd_before
            or any(half.state is not State.FRAMES for half in halves)
        ):
            return None
        if any(half.holds_frame for half in halves):
            return None
        if self._pairing.unsettled:
            return None
        in_flight = [entry for entry in self._pairing.queue if isinstance(entry, RequestFrame)]
        return Checkpoint(
            (self._client.buffer.position, self._broker.buffer.position),
            (self._client.buffer.rest(), self._broker.buffer.rest()),
            in_flight,
            self._client.client_ids,
        )

    # -- in ----------------------------------------------------------------------------------------------------

    def receive(self, side: Side, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of one side."""
        if not data:
            return
        self._half(side).receive(bytes(data))
        self._wake_halves()
        if side is Side.CLIENT:
            # Summing the payloads in flight is costly; once per `max_pending_bytes` keeps them below twice that.
            self._since_check += len(data)
            if self._since_check > self._limits.max_pending_bytes:
                self._since_check = 0
                self._pairing.shed()

    def gap(self, side: Side, length: int | None, reason: str) -> None:
        """Record that bytes of one side are missing before the next ones.

        :param length: number of missing bytes; None if unknown, in which case positions continue as if it were 0
        :param reason: cause, for :class:`SkippedBytes`
        """
        if length is not None and length <= 0:
            return
        self._half(side).gap(length, reason)
        if side is Side.BROKER:
            self._pairing.missing_bytes()
        self._wake_halves()

    def finish(self, reason: str = "the capture ended") -> None:
        """Record that no more of the connection will be seen; requests in flight count as unanswered."""
        if self._client.state is State.CLOSED:
            return
        for half in (self._client, self._broker):
            half.close(reason)
            self._wake_halves()
        self._pairing.end(reason)
        self._events.append(ConversationEnd())

    # -- out ---------------------------------------------------------------------------------------------------

    def events(self) -> Iterator[Event]:
        """Yield the pending events."""
        events = self._events
        while events:
            yield events.popleft()

    def state(self, side: Side) -> State:
        """Return the state of one side."""
        return self._half(side).state

    # -- between the sides -------------------------------------------------------------------------------------

    def _half(self, side: Side) -> Half:
        return self._client if side is Side.CLIENT else self._broker

    def _wake_halves(self) -> None:
        """Wake each side that waits for news of the other, until neither makes progress."""
        while self._client.woken or self._broker.waits:
            if self._client.woken:
                self._client.wake()
            if self._broker.waits:
                before = self._broker.buffer.position
                self._broker.waits = False
                self._broker.wake()
                if self._broker.waits and self._broker.buffer.position == before:
                    break
