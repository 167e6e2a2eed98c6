"""The broker's side: responses, whose headers carry only the correlation ID of their request."""

from __future__ import annotations

from collections.abc import Callable

from dissectors.api_keys import ApiKey
from dissectors.conversation.events import (
    Damage,
    FrameExchange,
    Outcome,
    RequestFrame,
    ResponseFrame,
    SaslToken,
    Side,
)
from dissectors.conversation.foreign import Guess, guess_server
from dissectors.conversation.half import UNTIL_WOKEN, Half, OpenFrame, SharedParts, State
from dissectors.conversation.plausible import LARGEST_SIZE, MIN_RESPONSE, RESPONSE_START
from dissectors.conversation.resync import MAX_CHAIN_STEP, MAX_ID_STEP, Responses
from dissectors.conversation.sasl import handshake_error
from dissectors.headers import SIZE_BYTES
from dissectors.units import MIB

NOT_A_RESPONSE = "no response is due, and nothing confirms the frame"
IMPOSSIBLE_SIZE = "an impossible response size"


class BrokerHalf(Half):
    """Reads the broker's stream."""

    side = Side.BROKER

    def __init__(self, shared: SharedParts) -> None:
        super().__init__(shared)
        self.client: Half
        self.on_handshake: Callable[[bool], None]
        self.waits = False
        """A frame waits for its request, or for the client to reveal the protocol."""
        self._last_id: int | None = None

    # -- readers -----------------------------------------------------------------------------------------------

    def read_start(self) -> bool:
        buffer = self.buffer
        data = buffer.rest()
        if not data:
            return False
        if self.client.tokens.active:
            self._start_tokens()
            return True
        guess = guess_server(data, final=self.final)
        if isinstance(guess, Guess):
            return self.report_foreign(guess.protocol, guess.evidence, buffer.position)
        if guess is not None and not self.final:
            buffer.need = guess
            return False
        if self.client.state is State.FOREIGN:
            # The client's protocol is already reported.
            self.enter(State.FOREIGN)
        elif self.client.spoke_kafka or self.final:
            self.enter(State.FRAMES)
        elif self.client.state is State.LOST or buffer.available > self.limits.foreign_window:
            self.mid_stream("responses without requests")
        else:
            return self._wait()
        return True

    def read_frames(self) -> bool:
        buffer = self.buffer
        data, offset, base = buffer.join(), buffer.offset, buffer.base
        end = len(data)
        header, queue, emit = RESPONSE_START, self.pairing.queue, self.emit
        largest = self.limits.max_frame
        answered = Outcome.ANSWERED
        last_id = self._last_id
        while end - offset >= 8 and queue:
            size, correlation_id = header.unpack_from(data, offset)
            stop = offset + 4 + size
            request = queue[0]
            if (
                request.correlation_id != correlation_id
                or stop > end
                or not 4 <= size <= largest
                or not isinstance(request, RequestFrame)
                or request.api_key == ApiKey.SASL_HANDSHAKE
            ):
                break
            queue.popleft()
            emit(
                FrameExchange(
                    request,
                    ResponseFrame(base + offset, base + stop, data[offset + 4 : stop], correlation_id),
                    answered,
                )
            )
            offset = stop
            last_id = correlation_id
        if offset != buffer.offset:
            buffer.offset = offset
            self.spoke_kafka = True
            self._last_id = last_id
        return self._read_unusual_frame()

    def _read_unusual_frame(self) -> bool:
        """Read one frame that the hot path skips: incomplete, too long, or not the next response in order."""
        buffer = self.buffer
        data, at = buffer.data, buffer.offset
        if buffer.lacks(SIZE_BYTES):
            return False
        size = int.from_bytes(data[at : at + SIZE_BYTES], "big", signed=True)
        if not MIN_RESPONSE <= size <= LARGEST_SIZE:
            return self.lose_step(IMPOSSIBLE_SIZE)
        if buffer.lacks(RESPONSE_START.size):
            return False
        correlation_id = int.from_bytes(data[at + 4 : at + 8], "big", signed=True)
        due = self.pairing.is_due(correlation_id)
        if size > self.limits.max_response_size and not due:
            return self.lose_step(IMPOSSIBLE_SIZE)
        if not due and not self._confirmed(size, correlation_id):
            return self.state is State.LOST
        if size > self.limits.max_frame:
            return self.open_over_limit(size)
        if buffer.lacks(SIZE_BYTES + size):
            return False
        self._answer(ResponseFrame(*buffer.take(size), correlation_id))
        return True

    def _confirmed(self, size: int, correlation_id: int) -> bool:
        """Return whether to accept the frame at the buffer's offset although its correlation ID is not due.

        If not, either the state is LOST now, or the frame waits: for its request, which a capture may contain
        after its response, or for the bytes after it.
        """
        pairing = self.pairing
        if correlation_id in pairing.silent and size <= MIB:
            return True
        requests_lost = pairing.requests_lost
        searching = self.client.state is State.LOST and self.client.buffer.available > 0
        if searching and not self.final and self.buffer.available <= MIB:
            # The client's side may still find its request.
            self._wait()
            return False
        if requests_lost and (self._last_id is None or 0 <= correlation_id - self._last_id <= MAX_ID_STEP):
            return True
        buffer = self.buffer
        data, at = buffer.data, buffer.offset
        stop = at + SIZE_BYTES + size
        if self.final:
            if stop == len(data) or (self.closing and not pairing.queue and stop > len(data)):
                return True
        elif not pairing.queue and not requests_lost and self.client.state is not State.CLOSED:
            if buffer.available <= MIB:
                self._wait()
                return False
        elif stop + RESPONSE_START.size > len(data) and size <= MIB:
            buffer.need = stop - at + RESPONSE_START.size
            return False
        if stop + RESPONSE_START.size <= len(data):
            next_size, next_id = RESPONSE_START.unpack_from(data, stop)
            follows = requests_lost and 0 < next_id - correlation_id <= MAX_CHAIN_STEP
            if next_size >= MIN_RESPONSE and (follows or pairing.is_due(next_id)):
                return True
        self.lose_step(NOT_A_RESPONSE)
        return False

    def read_waiting(self) -> bool:
        raise AssertionError("a broker never waits for an answer")

    def read_tokens(self) -> bool:
        buffer = self.buffer
        data = buffer.rest()
        if buffer.lacks(SIZE_BYTES):
            return False
        size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
        tokens = self.tokens
        if tokens.client_done:
            if tokens.from_broker >= tokens.from_client:
                self.enter(State.FRAMES)
                return True
            if size >= MIN_RESPONSE:
                if buffer.lacks(RESPONSE_START.size):
                    return False
                if self.pairing.is_due(int.from_bytes(data[4:8], "big", signed=True)):
                    self.enter(State.FRAMES)
                    return True
        elif (
            tokens.from_broker >= tokens.from_client and not self.final and len(data) <= self.limits.max_token
        ):
            return self._wait()
        if not 0 <= size <= self.limits.max_token:
            return self.lose_step("an impossible size of a SASL token")
        stop = SIZE_BYTES + size
        if buffer.lacks(stop):
            return False
        tokens.from_broker += 1
        self.emit(SaslToken(self.side, *buffer.take(size), tokens.mechanism))
        return True

    def read_lost(self) -> bool:
        buffer = self.buffer
        data = buffer.join()
        if not self.spoke_kafka and self.search.anchor == buffer.position and buffer.available:
            guess = guess_server(data[buffer.offset :], final=self.final)
            if isinstance(guess, int) and not self.final:
                buffer.need = guess
                return False
            if isinstance(guess, Guess):
                return self.report_foreign(guess.protocol, guess.evidence, buffer.position)
        if self.client.state is State.FOREIGN and not self.spoke_kafka:
            self.enter(State.FOREIGN)
            return True
        if self.find_frame(Responses(self.limits, self.pairing.due(), self.pairing.requests_lost)):
            self._last_id = None
            return True
        return False

    def recall(self, correlation_id: int | None) -> None:
        """Record the latest response, which another reader has framed."""
        self._last_id = correlation_id

    # -- frames ------------------------------------------------------------------------------------------------

    def deliver(self, frame: OpenFrame) -> None:
        if len(frame.payload) < MIN_RESPONSE:
            if frame.damage is not Damage.CUT_OFF:
                self.skip(frame.start, frame.end, "a response whose correlation ID is missing")
                self.note_loss()
            return
        correlation_id = int.from_bytes(frame.payload[:4], "big", signed=True)
        response = ResponseFrame(
            frame.start, frame.end, frame.payload, correlation_id, frame.damage, tuple(frame.missing)
        )
        if frame.damage is Damage.CUT_OFF:
            self.pairing.cut_off(response, Damage.CUT_OFF.value)
        else:
            self._answer(response)

    def trusts_header(self, available: int) -> bool:
        data = self.buffer.rest()
        size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
        if not MIN_RESPONSE <= size <= self.limits.max_response_size:
            return False
        if available < RESPONSE_START.size:
            return True
        due = self.pairing.is_due(int.from_bytes(data[4:8], "big", signed=True))
        return due or self.pairing.requests_lost

    def note_loss(self) -> None:
        self.pairing.lost_responses()

    def _answer(self, response: ResponseFrame) -> None:
        self.spoke_kafka = True
        self._last_id = response.correlation_id
        request = self.pairing.answer(response)
        if request is not None and request.api_key == ApiKey.SASL_HANDSHAKE and request.api_version == 0:
            accepted = handshake_error(response.payload) == 0
            if accepted:
                self._start_tokens()
            self.on_handshake(accepted)

    def _start_tokens(self) -> None:
        """Read answers to the tokens after the client's latest handshake, until the client sends requests again."""
        self.tokens = self.client.tokens
        self.enter(State.TOKENS)

    def _wait(self) -> bool:
        self.waits = True
        self.buffer.need = UNTIL_WOKEN
        return False
