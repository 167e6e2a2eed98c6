"""Pairing of responses with requests. A wrong pair is worse than none.

The rules, from "responses come back in request order, one per request" (docs/design/protocol.md):

1. Requests in flight form a queue. A response whose correlation ID is the head's answers the head: paired by
   order, checked by ID. For clients that repeat IDs this rule is enough.
2. A response whose ID is found once, further back, answers that request, and those before it will never be
   answered: 0.9 brokers skip requests they do not know.
3. Any other response is an orphan, and the queue stays unchanged.

Where bytes were lost, order alone proves nothing, and the queue contains a :class:`Loss`. Nothing after it is
paired by order; rule 2 applies, and only to IDs that cannot belong to a lost request:

* after lost requests (and a capture that started mid-stream), IDs above the last one seen before the loss; and 0, if
  the first request of such a capture has it: clients count from there (:meth:`Pairing.begins_with`);
* after lost responses, any ID that is in the queue once: all requests answered by lost responses are in the queue.

The first response paired across a loss proves that everything before it is settled, and the loss is removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from dissectors.conversation.events import Damage, Event, FrameExchange, Outcome, RequestFrame, ResponseFrame
from dissectors.conversation.limits import Limits

#: first correlation ID that Java clients reserve for SASL since 2.6 (KAFKA-9854,
#: clients/.../SaslClientAuthenticator.java, MIN_RESERVED_CORRELATION_ID)
FIRST_RESERVED_ID = 2**31 - 8

#: number of remembered requests that need no response, in case one arrives nevertheless
MAX_SILENT = 1024

#: number of requests in flight that a search for the next response considers
MAX_EXPECTED = 256

NOT_ASKED = "no request with this correlation ID was seen"
NOT_CERTAIN = "the request is uncertain after a loss"
OVERTAKEN = "a later request was answered first"
NOT_NEEDED = "answers a Produce with acks=0, which needs no answer"
TOO_MANY = "too many requests in flight"


class Loss:
    """Marks an unknown number of lost requests (`highest` given) or lost responses (`highest` None).

    :ivar highest: correlation IDs up to this one may belong to lost requests
    :ivar start: position of the request before it in the queue, -1 if there is none
    """

    __slots__ = ("highest", "start")

    #: equals no correlation ID, so that the hot path needs no test for a loss at the head
    correlation_id: None = None

    def __init__(self, highest: int | None, start: int = -1) -> None:
        self.highest = highest
        self.start = start


class InFlight(deque["RequestFrame | Loss"]):
    """The queue of requests in flight, with the number of occurrences of each correlation ID."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[int | None, int] = {}

    def append(self, entry: RequestFrame | Loss) -> None:
        super().append(entry)
        self._counts[entry.correlation_id] = self._counts.get(entry.correlation_id, 0) + 1

    def appendleft(self, entry: RequestFrame | Loss) -> None:
        super().appendleft(entry)
        self._counts[entry.correlation_id] = self._counts.get(entry.correlation_id, 0) + 1

    def popleft(self) -> RequestFrame | Loss:
        entry = super().popleft()
        left = self._counts[entry.correlation_id] - 1
        if left:
            self._counts[entry.correlation_id] = left
        else:
            del self._counts[entry.correlation_id]
        return entry

    def times(self, correlation_id: int) -> int:
        """Return how many requests have this correlation ID."""
        return self._counts.get(correlation_id, 0)

    @property
    def with_loss(self) -> bool:
        """Whether the queue contains a loss."""
        return None in self._counts


class Pairing:
    """The requests in flight on one connection."""

    def __init__(self, emit: Callable[[Event], None], limits: Limits) -> None:
        self._emit = emit
        self._limits = limits
        self.queue = InFlight()
        self.silent: deque[int] | tuple[()] = ()
        """Correlation IDs of the latest requests that need no response; some brokers answer them (noida 0.2)."""
        self._request_losses = 0
        self._maybe_answered = -1
        """Position of the last request in flight when response bytes were missed; -1 if one was paired since."""

    # -- events ------------------------------------------------------------------------------------------------

    def expect(self, request: RequestFrame) -> None:
        """Put a request in flight."""
        self.queue.append(request)
        if len(self.queue) > self._limits.max_pending_requests:
            self._give_up_oldest()

    def answer(self, response: ResponseFrame) -> RequestFrame | None:
        """Pair a response by the rules above and report it. Return its request, None for an orphan."""
        request = self._take(response.correlation_id)
        if request is None:
            if self.is_due(response.correlation_id):
                note = NOT_CERTAIN
            else:
                note = NOT_NEEDED if response.correlation_id in self.silent else NOT_ASKED
            self._emit(FrameExchange(None, response, Outcome.ORPHAN_RESPONSE, note))
        else:
            self._emit(FrameExchange(request, response, Outcome.ANSWERED))
        return request

    def needs_no_response(self, request: RequestFrame) -> None:
        """Report a request that is complete once it is sent."""
        self.remember_silent((request.correlation_id,))
        self._emit(FrameExchange(request, None, Outcome.NO_RESPONSE_EXPECTED))

    def remember_silent(self, correlation_ids: Iterable[int]) -> None:
        """Remember requests that need no response."""
        self.silent = self.silent or deque(maxlen=MAX_SILENT)
        self.silent.extend(correlation_ids)

    def cut_off(self, response: ResponseFrame, note: str) -> None:
        """Report a response cut off by the connection's end, with its request if that is certain."""
        request = self._take(response.correlation_id)
        if request is not None:
            self._emit(FrameExchange(request, response, Outcome.UNANSWERED, note))

    def lost_requests(self, last_id: int) -> None:
        """Record that requests were lost after the one with `last_id`."""
        if last_id >= FIRST_RESERVED_ID:
            last_id = 0
        self.queue.append(Loss(last_id, self._last_asked))
        self._request_losses += 1

    def begins_with(self, correlation_id: int) -> None:
        """Record the first request of a capture that started mid-stream, at the first byte of either side.

        Clients that number their requests count up from 0 or 1: a client that sends 0 has not sent it before. Clients
        that give all requests the same number (SimpleConsumer of 0.8) wait for each response, which would then be the
        first byte.
        """
        if correlation_id == 0:
            for entry in self.queue:
                if isinstance(entry, Loss) and entry.highest == 0:
                    entry.highest = -1

    def lost_responses(self) -> None:
        """Record that responses were lost."""
        if self.queue and not (isinstance(self.queue[0], Loss) and self.queue[0].highest is None):
            self.queue.appendleft(Loss(None))

    def missing_bytes(self) -> None:
        """Record that bytes of responses are missing: they may have answered any request in flight."""
        self._maybe_answered = max(self._maybe_answered, self._last_asked)

    def end(self, note: str) -> None:
        """Report all requests in flight as unanswered or not recorded; no more follow."""
        while self.queue:
            self._drop_head(note)

    def shed(self) -> None:
        """Truncate the payloads in flight if together they exceed the limit."""
        requests = [entry for entry in self.queue if isinstance(entry, RequestFrame)]
        if sum(len(request.payload) for request in requests) <= self._limits.max_pending_bytes:
            return
        for request in requests:
            if len(request.payload) > self._limits.kept_prefix:
                request.payload = request.payload[: self._limits.kept_prefix]
                request.damage = Damage.OVER_LIMIT

    # -- queries -----------------------------------------------------------------------------------------------

    def is_due(self, correlation_id: int) -> bool:
        """Return whether a request in flight has this correlation ID."""
        return self.queue.times(correlation_id) > 0

    def due(self) -> dict[int, int]:
        """Return the first correlation IDs in flight, each with its position in the queue."""
        places: dict[int, int] = {}
        for index, entry in enumerate(self.queue):
            if entry.correlation_id is not None:
                places.setdefault(entry.correlation_id, index)
                if len(places) == MAX_EXPECTED:
                    break
        return places

    @property
    def unsettled(self) -> bool:
        """Whether the queue contains a loss, or missing bytes may have answered the first request in flight."""
        return self.queue.with_loss or (bool(self.queue) and self.queue[0].start <= self._maybe_answered)

    @property
    def _last_asked(self) -> int:
        """Position of the last request in flight, -1 if there is none."""
        return self.queue[-1].start if self.queue else -1

    @property
    def requests_lost(self) -> bool:
        """Whether responses may arrive whose requests were not seen."""
        return self._request_losses > 0

    # -- the rules ---------------------------------------------------------------------------------------------

    def _take(self, correlation_id: int) -> RequestFrame | None:
        queue = self.queue
        if queue and isinstance(queue[0], RequestFrame) and queue[0].correlation_id == correlation_id:
            return self._pop_request()
        if queue.times(correlation_id) != 1:
            return None
        index = 0
        for entry in queue:
            if entry.correlation_id == correlation_id:
                break
            if isinstance(entry, Loss) and entry.highest is not None and correlation_id <= entry.highest:
                return None
            index += 1
        for _ in range(index):
            self._drop_head(OVERTAKEN)
        return self._pop_request()

    def _pop_request(self) -> RequestFrame:
        request = self.queue.popleft()
        assert isinstance(request, RequestFrame)
        self._maybe_answered = -1  # responses come in order: those that follow were not lost
        return request

    def _drop_head(self, note: str) -> None:
        entry = self.queue.popleft()
        if isinstance(entry, RequestFrame):
            lost = entry.start <= self._maybe_answered
            self._emit(FrameExchange(entry, None, Outcome.NOT_RECORDED if lost else Outcome.UNANSWERED, note))
        elif entry.highest is not None:
            self._request_losses -= 1

    def _give_up_oldest(self) -> None:
        # Its response may still arrive: for the later ones, this is a lost request.
        if isinstance(self.queue[0], Loss):
            self._drop_head(TOO_MANY)
        oldest = self.queue[0].correlation_id
        self._drop_head(TOO_MANY)
        self.queue.appendleft(Loss(oldest))
        self._request_losses += oldest is not None
