"""One side of a conversation: its bytes, its state, and frames that cannot be buffered whole.

States and their transitions (`Half.state`):

    START       no byte understood yet
      -> FRAMES   the first bytes are a Kafka frame
      -> TOKENS   they are a SASL token (Kafka 0.9, no handshake)
      -> FOREIGN  they are another protocol
      -> LOST     neither, or bytes are missing
    FRAMES      in step: a size field is next
      -> BODY     inside a frame that is not kept whole: too long, or with bytes missing
      -> WAITING  client only: after SaslHandshake v0, until its response decides what follows
      -> LOST     an impossible size, a header that nothing confirms, bytes missing beyond the frame
    BODY        the rest of the frame is counted, not kept
      -> FRAMES   at its end
      -> LOST     bytes missing beyond its end
    WAITING     -> TOKENS, FRAMES, by the handshake's response
    TOKENS      raw SASL tokens
      -> FRAMES   the client sent a request again; the broker answers it
      -> LOST     an impossible size, bytes missing
    LOST        searching for the next frame
      -> FRAMES   found
      -> FOREIGN  a connection that never spoke Kafka
    FOREIGN     bytes are counted only
    any         -> CLOSED

Each state but the last two has a reader. A reader takes bytes from the buffer and returns True, or leaves them,
sets `buffer.need` to the number of bytes it needs, and returns False. Neither state nor events depend on segmentation.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from dissectors.conversation.events import Damage, Event, ForeignProtocol, Side, SkippedBytes
from dissectors.conversation.limits import Limits
from dissectors.conversation.pairing import Pairing
from dissectors.conversation.resync import Evidence, Search
from dissectors.conversation.sasl import TokenPhase
from dissectors.headers import SIZE_BYTES

#: more bytes than any buffer holds: wait for the other side or for the end
UNTIL_WOKEN = 1 << 62


class State(Enum):
    """The state of a side; the module's docstring has the transitions."""

    START = "start"
    FRAMES = "frames"
    BODY = "body"
    WAITING = "waiting"
    TOKENS = "tokens"
    LOST = "lost"
    FOREIGN = "foreign"
    CLOSED = "closed"


class Buffer:
    """Bytes not consumed yet, with their stream position.

    Segments are joined only when a reader has the bytes it needs, so a long frame costs one copy.
    """

    __slots__ = ("_tail", "_tail_size", "base", "data", "need", "offset")

    def __init__(self) -> None:
        self.data = b""
        self.offset = 0
        self.need = 1
        self.base = 0
        """Stream position of ``data[0]``."""
        self._tail: list[bytes] = []
        self._tail_size = 0

    def append(self, segment: bytes) -> None:
        if self.offset == len(self.data) and not self._tail:
            self.base += len(self.data)
            self.data, self.offset = segment, 0
        else:
            self._tail.append(segment)
            self._tail_size += len(segment)

    def join(self) -> bytes:
        """Join all buffered segments into one bytes object, starting at `offset`, and return it."""
        if self._tail:
            self.base += self.offset
            self.data = b"".join((self.data[self.offset :], *self._tail))
            self.offset = 0
            self._tail.clear()
            self._tail_size = 0
        return self.data

    def rest(self) -> bytes:
        return self.join()[self.offset :]

    def lacks(self, size: int) -> bool:
        """Return whether fewer than `size` bytes are buffered; if so, that many are needed."""
        if len(self.data) - self.offset + self._tail_size >= size:
            return False
        self.need = size
        return True

    def take(self, size: int) -> tuple[int, int, bytes]:
        """Consume a buffered frame; return its start, its end, and the `size` bytes after its size field."""
        start, begin = self.position, self.offset + SIZE_BYTES
        self.offset = begin + size
        self.need = 1
        return start, start + SIZE_BYTES + size, self.data[begin : self.offset]

    def drop(self) -> None:
        """Discard the unread bytes."""
        self.join()
        self.offset = len(self.data)

    def jump(self, length: int) -> None:
        """Advance the position by missing bytes; nothing may be buffered."""
        self.drop()
        self.base += length

    @property
    def available(self) -> int:
        return len(self.data) - self.offset + self._tail_size

    @property
    def position(self) -> int:
        """Stream position of the next byte to read."""
        return self.base + self.offset

    @property
    def end(self) -> int:
        """Stream position of the next byte to arrive."""
        return self.base + len(self.data) + self._tail_size


class OpenFrame:
    """A frame whose remaining bytes are counted, not kept."""

    __slots__ = ("damage", "end", "missing", "payload", "start")

    def __init__(self, start: int, end: int, payload: bytes, damage: Damage) -> None:
        self.start = start
        self.end = end
        self.payload = payload
        self.damage = damage
        self.missing: list[tuple[int, int]] = []


class SharedParts(NamedTuple):
    """What both sides of a conversation start with."""

    emit: Callable[[Event], None]
    limits: Limits
    pairing: Pairing
    tokens: TokenPhase
    state: State


class Half:
    """Common part of both sides; subclasses read requests and responses."""

    side: ClassVar[Side]
    _readers: ClassVar[dict[State, Callable[[Any], bool]]]

    def __init__(self, shared: SharedParts) -> None:
        self.emit, self.limits, self.pairing, self.tokens, self.state = shared
        self.buffer = Buffer()
        self.final = False
        """No byte will follow the buffered ones without a gap."""
        self.closing = False
        """No byte will follow at all."""
        self.spoke_kafka = False
        self.began_here = True
        """The first byte fed is the connection's first."""
        self.unbroken = True
        """No byte is missing between the first and the latest one fed."""
        self.woken = False
        """The other side learnt a fact that this one waits for."""
        self.open_frame: OpenFrame | None = None
        self.lost_from = 0
        """Stream position from which nothing could be read."""
        self.lost_why = ""
        """Why the state is LOST."""
        self.search = Search(0)

    def __init_subclass__(cls) -> None:
        cls._readers = {
            State.START: cls.read_start,
            State.FRAMES: cls.read_frames,
            State.BODY: cls._read_body,
            State.WAITING: cls.read_waiting,
            State.TOKENS: cls.read_tokens,
            State.LOST: cls.read_lost,
            State.FOREIGN: cls._discard,
            State.CLOSED: cls._discard,
        }

    # -- specific to each side ----------------------------------------------------------------------------------

    def read_start(self) -> bool:
        """Identify the protocol of this side from its first bytes."""
        raise NotImplementedError

    def read_frames(self) -> bool:
        """Read frames while in step."""
        raise NotImplementedError

    def read_waiting(self) -> bool:
        """Wait for the other side to decide what the next bytes are."""
        raise NotImplementedError

    def read_tokens(self) -> bool:
        """Read raw SASL tokens."""
        raise NotImplementedError

    def read_lost(self) -> bool:
        """Search for the next frame."""
        raise NotImplementedError

    def deliver(self, frame: OpenFrame) -> None:
        """Report a frame that is not whole."""
        raise NotImplementedError

    def trusts_header(self, available: int) -> bool:
        """Return whether the frame that starts in the buffer may be followed across missing bytes."""
        raise NotImplementedError

    def note_loss(self) -> None:
        """Report to the pairing that frames of this side were lost."""
        raise NotImplementedError

    # -- bytes in ----------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take the next bytes and report what they complete."""
        self.buffer.append(data)
        self.advance()

    def advance(self) -> None:
        """Read as far as the bytes allow."""
        buffer = self.buffer
        while (self.final or buffer.available >= buffer.need) and self._readers[self.state](self):
            pass

    def wake(self) -> None:
        """Retry bytes that waited for the other side."""
        self.woken = False
        self.buffer.need = 1
        self.advance()

    def settle(self) -> None:
        """Make all decisions now, because the buffered bytes are the last before a gap or the end."""
        self.final = True
        self.advance()
        self.final = False

    def gap(self, length: int | None, reason: str) -> None:
        """Record missing bytes; see :meth:`Conversation.gap`."""
        self.settle()
        self.began_here = self.unbroken = False
        if self.state is State.FRAMES and self.buffer.available:
            self._open_damaged()
        hole = self.buffer.end
        resumes = hole + (length or 0)
        if self.state is State.BODY and self.open_frame is not None:
            frame = self.open_frame
            inside = length is not None and resumes <= frame.end
            if frame.damage is not Damage.OVER_LIMIT:
                frame.damage = Damage.MISSING_BYTES
            frame.missing.append((hole, resumes if inside else frame.end))
            self.buffer.jump(length or 0)
            if inside:
                self._read_body()
                return
            self._close_body()
            self._lose(hole if length is None else frame.end, resumes, reason)
        elif self.state in (State.FOREIGN, State.CLOSED):
            self.buffer.jump(length or 0)
        else:
            start = hole if self.state is State.LOST else self.buffer.position
            self.buffer.jump(length or 0)
            self._lose(start, resumes, reason)

    def close(self, reason: str) -> None:
        """End this side's stream."""
        self.closing = True
        self.settle()
        buffer = self.buffer
        if self.state in (State.START, State.FRAMES) and buffer.available >= SIZE_BYTES:
            self._cut_off(reason)
        elif self.state is State.BODY and self.open_frame is not None:
            frame = self.open_frame
            frame.damage = Damage.CUT_OFF
            self._report_cut_frame(frame, reason)
        elif self.state is State.LOST:
            self.report_lost(buffer.end)
        elif buffer.available and self.state is not State.FOREIGN:
            self.skip(buffer.position, buffer.end, f"{reason} inside a frame's size or header")
        buffer.drop()
        self.enter(State.CLOSED)

    # -- for the readers ---------------------------------------------------------------------------------------

    def enter(self, state: State) -> None:
        """Change the state; the new reader is called whatever the buffer contains."""
        self.state = state
        self.buffer.need = 1

    def lose_step(self, reason: str) -> bool:
        """Give up the frame at the current position, and search from the next byte on."""
        start = self.buffer.position
        self._lose(start, start, reason)
        self.search = Search(start)
        return True

    def mid_stream(self, reason: str) -> None:
        """Start at a position that need not be the start of a frame."""
        self.began_here = False
        self.lost_from = self.buffer.position
        self.lost_why = reason
        self.search = Search(self.lost_from, self.lost_from)
        self.enter(State.LOST)

    def find_frame(self, evidence: Evidence, until: int | None = None) -> bool:
        """Continue the search. If it finds a frame, report the skipped bytes and resume there in step."""
        buffer = self.buffer
        data = buffer.join()
        at = self.search.find(data, buffer.base, evidence, final=self.final, until=until)
        if at is None:
            buffer.offset += max(self.search.keep_from - buffer.position, 0)
            buffer.need = buffer.available + 1
            return False
        self.report_lost(at)
        buffer.offset = at - buffer.base
        self.enter(State.FRAMES)
        return True

    def report_lost(self, end: int) -> None:
        """Report the bytes searched without success, if any."""
        if end > self.lost_from:
            self.skip(self.lost_from, end, self.lost_why)
        self.lost_from = end

    def skip(self, start: int, end: int, reason: str) -> None:
        """Report bytes that belong to no frame."""
        self.emit(SkippedBytes(self.side, start, end, reason))

    def report_foreign(self, guess: str, evidence: str, start: int) -> bool:
        """Report another protocol and stop reading."""
        self.emit(ForeignProtocol(self.side, start, guess, evidence))
        self.enter(State.FOREIGN)
        return True

    def open_over_limit(self, size: int) -> bool:
        """Start a frame that is too long to keep; wait for the part that is kept."""
        buffer = self.buffer
        kept = SIZE_BYTES + min(self.limits.kept_prefix, size)
        if buffer.lacks(kept):
            return False
        start = buffer.position
        payload = buffer.join()[buffer.offset + SIZE_BYTES : buffer.offset + kept]
        self.open_frame = OpenFrame(start, start + SIZE_BYTES + size, payload, Damage.OVER_LIMIT)
        self.enter(State.BODY)
        return True

    @property
    def holds_frame(self) -> bool:
        """Whether the buffer holds a whole frame that waits for confirmation; for state FRAMES."""
        buffer = self.buffer
        if buffer.available < SIZE_BYTES:
            return False
        head = buffer.data[buffer.offset : buffer.offset + SIZE_BYTES]
        if len(head) < SIZE_BYTES:  # only then, because joining a long frame's segments copies it
            head = buffer.rest()[:SIZE_BYTES]
        return buffer.available >= SIZE_BYTES + int.from_bytes(head, "big", signed=True)

    # -- frames that are not whole -----------------------------------------------------------------------------

    def _read_body(self) -> bool:
        frame = self.open_frame
        assert frame is not None
        buffer = self.buffer
        buffer.join()
        buffer.offset = min(len(buffer.data), frame.end - buffer.base)
        if buffer.position < frame.end:
            buffer.need = 1
            return False
        self._close_body()
        return True

    def _close_body(self) -> None:
        frame = self.open_frame
        assert frame is not None
        self.open_frame = None
        self.enter(State.FRAMES)
        self.deliver(frame)

    def _open_damaged(self) -> None:
        """Follow the frame that starts before missing bytes, if its size is known and trusted."""
        buffer = self.buffer
        data, at = buffer.join(), buffer.offset
        if len(data) - at < SIZE_BYTES or not self.trusts_header(len(data) - at):
            return
        size = int.from_bytes(data[at : at + SIZE_BYTES], "big")
        start = buffer.position
        self.open_frame = OpenFrame(
            start, start + SIZE_BYTES + size, data[at + SIZE_BYTES :], Damage.MISSING_BYTES
        )
        buffer.drop()
        self.enter(State.BODY)

    def _cut_off(self, reason: str) -> None:
        buffer = self.buffer
        rest = buffer.rest()
        size = int.from_bytes(rest[:SIZE_BYTES], "big", signed=True)
        start = buffer.position
        frame = OpenFrame(start, start + SIZE_BYTES + size, rest[SIZE_BYTES:], Damage.CUT_OFF)
        self._report_cut_frame(frame, reason)

    def _report_cut_frame(self, frame: OpenFrame, reason: str) -> None:
        end = self.buffer.end
        have, size = end - frame.start, frame.end - frame.start
        self.skip(frame.start, end, f"{reason} inside a frame ({have} of {size} bytes)")
        self.deliver(frame)

    # -- loss --------------------------------------------------------------------------------------------------

    def _lose(self, start: int, resumes: int, reason: str) -> None:
        """Treat bytes from `start` on as unreadable or missing; a frame may start at `resumes`."""
        if self.state is State.LOST:
            # The range before the gap has its own reason.
            self.report_lost(start)
        else:
            self.lost_from = start
            self.note_loss()
        self.lost_why = reason
        self.search = Search(resumes, resumes)
        self.enter(State.LOST)

    def _discard(self) -> bool:
        self.buffer.drop()
        return False
