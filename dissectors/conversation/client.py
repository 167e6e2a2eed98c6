"""The client's side: requests, and what may precede or replace them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dissectors.api_keys import ApiKey
from dissectors.conversation.events import (
    Damage,
    FrameExchange,
    Outcome,
    RequestFrame,
    RequestSeen,
    SaslToken,
    Side,
)
from dissectors.conversation.foreign import Guess, guess_client
from dissectors.conversation.half import Half, OpenFrame, SharedParts, State
from dissectors.conversation.plausible import (
    IMPLAUSIBLE,
    LARGEST_SIZE,
    MIN_REQUEST,
    REQUEST_START,
    STRONG,
    WEAK,
    as_shown,
    decodes,
    highest,
    is_text,
    judge_request,
    produce_acks,
)
from dissectors.conversation.resync import Requests
from dissectors.conversation.sasl import TokenPhase, first_token, handshake_mechanism
from dissectors.headers import SIZE_BYTES
from dissectors.units import KIB, MIB

#: number of client IDs remembered per connection, the first ones; real clients use one
MAX_CLIENT_IDS = 64

#: largest first request that is decoded as evidence; clients start with ApiVersions
_LARGEST_PROOF = 64 * KIB

NOT_A_REQUEST = "no request header, and nothing confirms the frame"
IMPOSSIBLE_SIZE = "an impossible request size"
NOT_KAFKA = "neither Kafka nor another known protocol"


class ClientHalf(Half):
    """Reads the client's stream."""

    side = Side.CLIENT

    def __init__(self, shared: SharedParts, versions: Mapping[int, tuple[int, int]]) -> None:
        super().__init__(shared)
        self.broker: Half
        self._known, self._believed = highest(versions)
        self._texts: dict[bytes, str] = {}
        self._client_ids: dict[bytes, str] = {}
        """The first client IDs, in the form that exchange tables store."""
        self._odd_ids: set[bytes] = set()
        """Those that are not text."""
        self._last_id: int | None = None
        self.odd_before = False
        """Whether the latest frame had no known request header."""

    # -- readers -----------------------------------------------------------------------------------------------

    def read_start(self) -> bool:
        buffer = self.buffer
        data = buffer.rest()
        if not data:
            return False
        guess = guess_client(data, final=self.final)
        if isinstance(guess, Guess) and guess.skip:
            start = buffer.position
            self.skip(start, start + guess.skip, f"{guess.protocol} header: {guess.evidence}")
            buffer.offset += guess.skip
            buffer.need = 1
            return True
        if isinstance(guess, Guess):
            return self.report_foreign(guess.protocol, guess.evidence, buffer.position)
        if guess is not None and not self.final:
            buffer.need = guess
            return False
        grade = self._judge(data, 0) or self._prove(data)
        if grade > IMPLAUSIBLE:
            self.enter(State.FRAMES)
            return True
        if grade < 0:
            buffer.need = -grade
            return False
        mechanism = first_token(data, 0, self.limits.max_token)
        if isinstance(mechanism, str):
            self.tokens.mechanism = mechanism
            self.begin_tokens()
            return True
        if mechanism is not None and not self.final:
            buffer.need = mechanism
            return False
        return self.lose_step(f"{NOT_KAFKA}: the connection starts with {data[:8].hex(' ')}")

    def read_frames(self) -> bool:
        buffer = self.buffer
        data, offset, base = buffer.join(), buffer.offset, buffer.base
        end = len(data)
        header, known, texts = REQUEST_START, self._known, self._texts
        largest = min(self.limits.max_request_size, self.limits.max_frame)
        max_pending = self.limits.max_pending_requests
        emit, pairing = self.emit, self.pairing
        queue = pairing.queue
        while end - offset >= 14:
            size, key, version, correlation_id, length = header.unpack_from(data, offset)
            stop = offset + 4 + size
            name_stop = offset + 14 + length
            if not (
                10 <= size <= largest
                and name_stop <= stop <= end
                and length >= -1
                and 0 <= version <= known.get(key, -1)
                and key != ApiKey.CONTROLLED_SHUTDOWN
                and key != ApiKey.SASL_HANDSHAKE
            ):
                break
            if length > 0:
                raw = data[offset + 14 : name_stop]
                client_id = texts.get(raw)
                if client_id is None:
                    client_id = self._remember(raw)
            else:
                client_id = None if length else ""
            request = RequestFrame(
                base + offset, base + stop, data[offset + 4 : stop], correlation_id, key, version, client_id
            )
            offset = stop
            self._last_id = correlation_id
            emit(RequestSeen(request))
            if key == 0 and produce_acks(request.payload, version) == 0:
                pairing.needs_no_response(request)
            elif len(queue) >= max_pending:
                pairing.expect(request)
            else:
                queue.append(request)
        if offset != buffer.offset:
            buffer.offset = offset
            self.spoke_kafka = True
            self.odd_before = False
        return self._read_unusual_frame()

    def _read_unusual_frame(self) -> bool:
        """Read one frame that the hot path skips: incomplete, too long, or with an unusual header."""
        buffer = self.buffer
        data, at = buffer.data, buffer.offset
        if buffer.lacks(SIZE_BYTES):
            return False
        size = int.from_bytes(data[at : at + SIZE_BYTES], "big", signed=True)
        if not MIN_REQUEST <= size <= LARGEST_SIZE:
            return self.lose_step(IMPOSSIBLE_SIZE)
        grade = self._judge_next(data, at, LARGEST_SIZE)
        if grade < 0:
            buffer.need = -grade
            return False
        if size > self.limits.max_request_size and not (grade == STRONG and self._is_familiar(data, at)):
            return self.lose_step(IMPOSSIBLE_SIZE)
        if grade <= IMPLAUSIBLE:
            return self._read_odd_frame(size)
        if size > self.limits.max_frame:
            return self.open_over_limit(size)
        if buffer.lacks(SIZE_BYTES + size):
            return False
        key, version = (int.from_bytes(data[i : i + 2], "big") for i in (at + 4, at + 6))
        newer = version > self._known.get(key, -1)
        self.odd_before = False
        self._take(size, "newer than the known APIs and versions" if newer else "")
        return True

    def _read_odd_frame(self, size: int) -> bool:
        """Accept a frame without a request header if the stream continues in step after it."""
        buffer = self.buffer
        data, at = buffer.data, buffer.offset
        stop = at + SIZE_BYTES + size
        if size > MIB or self.odd_before:
            return self.lose_step(NOT_A_REQUEST)
        if stop > len(data):
            if self.final and not self.closing:
                return self.lose_step(NOT_A_REQUEST)
            buffer.need = stop - at
            return False
        if not (self.final and stop == len(data)):
            grade = self._judge(data, stop)
            if grade < 0 and not self.final:
                buffer.need = stop - at - grade
                return False
            if grade <= IMPLAUSIBLE:
                return self.lose_step(NOT_A_REQUEST)
        self.odd_before = True
        self._take(size, "no known request header")
        return True

    def read_waiting(self) -> bool:
        if self.final or self.buffer.available > self.limits.max_token:
            # The response was lost or will never arrive: the client's next frame shows how it read the response.
            self.begin_tokens()
            return True
        self.buffer.need = self.limits.max_token + 1
        return False

    def recall(self, request: RequestFrame) -> None:
        """Record a request that another reader has framed."""
        self._last_id = request.correlation_id

    @property
    def client_ids(self) -> list[str]:
        """The remembered client IDs in order of appearance."""
        return list(self._client_ids.values())

    def remember(self, client_ids: Iterable[str]) -> None:
        """Remember client IDs that another reader has seen."""
        for client_id in client_ids:
            self._remember(client_id.encode())

    def handshake_answered(self, accepted: bool) -> None:
        """Continue according to the response to SaslHandshake v0."""
        if self.state is State.WAITING:
            if accepted:
                self.begin_tokens()
            else:
                self.enter(State.FRAMES)
            self.woken = True

    def begin_tokens(self) -> None:
        """Expect raw tokens, until a request follows."""
        self.tokens.active = True
        self.enter(State.TOKENS)

    def read_tokens(self) -> bool:
        buffer = self.buffer
        data = buffer.rest()
        grade = self._judge(data, 0)
        if grade > IMPLAUSIBLE:
            self.tokens.client_done = True
            self.enter(State.FRAMES)
            return True
        if buffer.lacks(SIZE_BYTES):
            return False
        size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self.limits.max_token:
            return self.lose_step("an impossible size of a SASL token")
        stop = SIZE_BYTES + size
        if len(data) < stop:
            buffer.need = min(-grade, stop) if grade < 0 else stop
            return False
        self.tokens.from_client += 1
        self.emit(SaslToken(self.side, *buffer.take(size), self.tokens.mechanism))
        return True

    def read_lost(self) -> bool:
        buffer = self.buffer
        data = buffer.join()
        if not self.spoke_kafka and self.search.anchor == buffer.position and buffer.available:
            guess = guess_client(data[buffer.offset :], final=self.final)
            if isinstance(guess, int) and not self.final:
                buffer.need = guess
                return False
            if isinstance(guess, Guess) and not guess.skip:
                return self.report_foreign(guess.protocol, guess.evidence, buffer.position)
        unknown = self.began_here and not self.spoke_kafka
        until = self.lost_from + self.limits.foreign_window if unknown else None
        if self.find_frame(self._evidence(), until):
            if self.unbroken and not buffer.position and not self.broker.buffer.end:
                self.pairing.begins_with(REQUEST_START.unpack_from(buffer.data, buffer.offset)[3])
            return True
        if unknown and (self.closing or buffer.end > self.lost_from + self.limits.foreign_window):
            return self.report_foreign("unknown protocol", self.lost_why, self.lost_from)
        return False

    # -- frames ------------------------------------------------------------------------------------------------

    def deliver(self, frame: OpenFrame) -> None:
        request = self._request(frame.start, frame.end, frame.payload)
        if request is None:
            if frame.damage is not Damage.CUT_OFF:
                self.skip(frame.start, frame.end, "a request whose header is missing")
                self.note_loss()
            return
        request.damage = frame.damage
        request.missing = tuple(frame.missing)
        if frame.damage is Damage.CUT_OFF:
            self.emit(FrameExchange(request, None, Outcome.UNANSWERED, Damage.CUT_OFF.value))
        else:
            self._put_in_flight(request)

    def trusts_header(self, available: int) -> bool:
        data = self.buffer.rest()
        size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
        largest = self.limits.max_request_size
        return MIN_REQUEST <= size <= largest and self._judge_next(data, 0, largest) != IMPLAUSIBLE

    def note_loss(self) -> None:
        # Unless a request was seen, 0 and below prove nothing: connections start with them.
        self.pairing.lost_requests(0 if self._last_id is None else self._last_id)
        if self.state is State.TOKENS:
            self.tokens.lose_client()

    def _take(self, size: int, suspicious: str) -> None:
        self.spoke_kafka = True
        request = self._request(*self.buffer.take(size))
        assert request is not None
        request.suspicious = suspicious
        self._put_in_flight(request)
        if request.api_key == ApiKey.SASL_HANDSHAKE and request.api_version == 0 and not suspicious:
            self.tokens = TokenPhase(handshake_mechanism(request.payload))
            self.enter(State.WAITING)

    def _put_in_flight(self, request: RequestFrame) -> None:
        self._last_id = request.correlation_id
        self.emit(RequestSeen(request))
        if request.api_key == ApiKey.PRODUCE and produce_acks(request.payload, request.api_version) == 0:
            self.pairing.needs_no_response(request)
        else:
            self.pairing.expect(request)

    def _request(self, start: int, end: int, payload: bytes) -> RequestFrame | None:
        """Parse the header from the present bytes of a frame; None if even the fixed part is incomplete."""
        if len(payload) < MIN_REQUEST:
            return None
        key, version = (int.from_bytes(payload[i : i + 2], "big", signed=True) for i in (0, 2))
        correlation_id = int.from_bytes(payload[4:8], "big", signed=True)
        client_id = None
        length = int.from_bytes(payload[8:10], "big", signed=True) if len(payload) >= 10 else -1
        if 0 <= length <= len(payload) - 10 and (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
            raw = payload[10 : 10 + length]
            if raw and (0 <= version <= self._known.get(key, -1) or is_text(raw)):
                client_id = self._remember(raw)
            else:
                client_id = raw.decode("utf-8", "replace")
        return RequestFrame(start, end, payload, correlation_id, key, version, client_id)

    def _remember(self, raw: bytes) -> str:
        """Return the client ID as text, and remember it as evidence for later requests of this connection."""
        if len(self._texts) >= MAX_CLIENT_IDS:
            self._texts.clear()
        text = self._texts.setdefault(raw, raw.decode("utf-8", "replace"))
        shown = as_shown(raw)
        # the first ones, not the latest: they are the same whichever part of the connection is read
        if shown not in self._client_ids and len(self._client_ids) < MAX_CLIENT_IDS:
            self._client_ids[shown] = text
            # an exchange table may have replaced bytes that are not UTF-8
            if not text.isprintable() or "\N{REPLACEMENT CHARACTER}" in text:
                self._odd_ids.add(shown)
        return text

    # -- judgement ---------------------------------------------------------------------------------------------

    def _judge(self, data: bytes, at: int) -> int:
        most = self.limits.max_request_size
        return judge_request(data, at, self._known, self._believed, most, odd_ids=self._odd_ids)

    def _judge_next(self, data: bytes, at: int, limit: int) -> int:
        """Judge the frame that starts at `at`, where the previous one ended."""
        odd = self._odd_ids
        return judge_request(data, at, self._known, self._believed, limit, in_step=True, odd_ids=odd)

    def _prove(self, data: bytes) -> int:
        """Judge a first request whose client ID is not text, by decoding all of it."""
        grade = self._judge_next(data, 0, min(_LARGEST_PROOF, self.limits.max_request_size))
        if grade <= IMPLAUSIBLE:
            return grade
        stop = SIZE_BYTES + int.from_bytes(data[:SIZE_BYTES], "big")
        if len(data) < stop:
            return IMPLAUSIBLE if self.final else -stop
        return WEAK if decodes(data[SIZE_BYTES:stop]) else IMPLAUSIBLE

    def _evidence(self) -> Requests:
        return Requests(
            self._known, self._believed, self.limits, self._client_ids, self._last_id, self._odd_ids
        )

    def _is_familiar(self, data: bytes, at: int) -> bool:
        return self._evidence().familiar(data[at:])
