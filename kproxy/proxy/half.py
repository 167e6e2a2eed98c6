"""One direction of a connection: an asyncio protocol that reads one side and writes to the transport of the other.

Rules of this file:

* Bytes that need no decision are forwarded in the call that received them, in one piece, without a copy: runs of frames
  are cut only at a frame that is collected, or changed as it streams.
* Output keeps its order. If a frame waits (held, delayed, throttled), everything after it waits too, and the half stops
  reading when too much waits.
* The tee gets the input before any change, in the order in which it is forwarded. The last piece of a collected frame
  is recorded after the decision, with its time of arrival, so that it carries the comment.

:mod:`kproxy.proxy.directions` decides what a frame is and what to do with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from enum import IntFlag
from time import time_ns
from typing import TYPE_CHECKING, Any

from captures.interventions import Intervention, as_comment
from dissectors.budget import LimitReached
from kproxy.proxy.framing import NeedMore, TrackedRequest
from kproxy.proxy.verdicts import UNCHANGED, Charge, Ending, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from kproxy.proxy.node_endpoints import StreamedEndpoints
    from kproxy.proxy.session import Session
    from kproxy.proxy.tee import Recording

_MOST_WAITING = 1 << 20  # bytes waiting behind a frame, beyond which a half stops reading
_WRITE_BUFFER = 1 << 18  # unsent bytes towards a slow side, beyond which the other side is not read
_EVERYTHING = 1 << 62
_CHARGED_AHEAD = 1 << 14  # bytes charged in advance, so that not every piece is charged
_PACE = 0.02  # seconds between two pieces of a throttled frame


_SWALLOWED = as_comment(Intervention(not_forwarded=True, ended=Ending.SWALLOW.value))


class Pause(IntFlag):
    """Why a half does not read at the moment."""

    WRITING = 1
    """The other side does not keep up."""
    WAITING = 2
    """Too much waits behind a held or delayed frame."""
    RECORDING = 4
    """The recorder is behind, and nothing may be lost (``lossless``)."""
    AUTHENTICATING = 8
    """kproxy authenticates the connection at its broker."""


@dataclass(slots=True, eq=False)
class _WaitingFrame:
    """A frame, a part of one or a run of frames that is sent when everything before it has been sent.

    :ivar data: bytes to send
    :ivar piece: bytes to record with it: the last bytes of the input, unmodified
    :ivar due: entry in the request queue; only requests, and only if more than the correlation ID is kept
    :ivar frames: number of frames that begin in it
    :ivar ready: whether it may be sent
    :ivar charge: what an inspected frame costs of the memory limit
    """

    data: bytes
    piece: bytes
    time: int
    verdict: Verdict
    due: TrackedRequest | None = None
    frames: int = 1
    charge: Charge | None = None
    ready: bool = True

    @property
    def age(self) -> int:
        """Age in ns, at least 1."""
        return max(time_ns() - self.time, 1)


class Half(asyncio.Protocol):
    """The direction of one side: reads from that side, writes to the other half's transport."""

    side: int

    def __init__(self, session: Session) -> None:
        self.session = session
        self.cluster = session.cluster
        self.plane = session.plane
        self.transport: Any = None
        self.peer: Half
        self.recording: Recording | None = None
        self.seen = 0
        self.received = 0
        self.ended = False
        self._left = 0
        self._incomplete = b""
        self._collected: bytearray | None = None
        self._wanted = self._charged = 0
        self._context: Any = None
        self._charge: Charge | None = None
        self._unsent_charges: list[Charge] = []
        self._stream: StreamedEndpoints | None = None
        self._stream_left = 0
        self._waiting: deque[_WaitingFrame] = deque()
        self._waiting_bytes = 0
        self._pauses = Pause(0)
        self._at_boundary = True  # between frames, and nothing waits: the fast path may be taken
        self._when_blocked: Callable[[], None] | None = None  # no frame begins: called when one arrives

    # ------------------------------------------------------------ asyncio calls
    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)

    def data_received(self, data: bytes) -> None:
        """Forward received data, unless something stands in its way."""
        now = self.seen = time_ns()
        if self._left >= len(data) and not self._waiting:
            self._left -= len(data)
            self.received += len(data)
            self._write(data)
            if self.recording is not None:
                self.recording.data(self.side, data, now)
            return
        self.received += len(data)
        if self.session.swallowing:
            self._record(data, now, _SWALLOWED)
            return
        self._take(data, now)
        self._at_boundary = self.is_idle and self._when_blocked is None and not self.session.swallowing

    def eof_received(self) -> bool:
        """Forward buffered bytes, then the end itself; the other direction stays open."""
        self.seen = time_ns()
        self._flush_incomplete()
        if self._waiting:
            self.ended = True  # _advance ends the half when nothing waits any more
        else:
            self._end()
        return bool(self.transport.can_write_eof())  # TLS has no half-close: the transport closes by itself

    def connection_lost(self, error: Exception | None) -> None:
        self.session.lost(self, error)

    def pause_writing(self) -> None:
        """Stop reading from the other side, because this one does not keep up."""
        self.peer.pause(Pause.WRITING)

    def resume_writing(self) -> None:
        """Resume reading from the other side."""
        self.peer.sent()
        self.peer.resume(Pause.WRITING)

    def sent(self) -> None:
        """Release the charges of frames that the other side's write buffer held: it is nearly empty."""
        self._unsent_charges.clear()

    def pause(self, reason: Pause) -> None:
        """Stop reading for one of several reasons."""
        if not self._pauses and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        self._pauses |= reason

    def resume(self, reason: Pause) -> None:
        """Resume reading if `reason` was the last reason not to."""
        if self._pauses == reason and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        self._pauses &= ~reason

    # ------------------------------------------------------------ frames
    def _take(self, data: bytes, now: int) -> None:
        """Split a chunk into frames, and forward them in runs."""
        if self._incomplete:
            data, self._incomplete = self._incomplete + data, b""
        at, run, frames, size = 0, 0, 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
                at += step
                continue
            if self._collected is None and self._stream is None:
                try:
                    passes = self._begin(data, at, size)
                except NeedMore:
                    self._incomplete = data[at:]
                    break
                if passes:
                    frames += 1
                    continue
            self._pass(data[run:at], now, frames)
            at = run = self._consume(data, at, now)
            frames = 0
            if self.session.closed:
                return
        self._pass(data if run == 0 and at == size else data[run:at], now, frames)

    def _begin(self, data: bytes, at: int, size: int) -> bool:
        """Inspect the first bytes of a frame; return whether it passes, and set how much of it is left.

        :raises NeedMore: if there are too few bytes
        """
        raise NotImplementedError

    def _whole(self, frame: bytes, piece: bytes, now: int) -> None:
        """Decide about a collected frame.

        :param piece: its last bytes as received, which are not recorded yet
        """
        raise NotImplementedError

    def _collect(self, size: int, about: Any, free: int = 0) -> bool:
        """Begin to collect a frame of `size` bytes.

        :param about: passed on to :meth:`_whole`
        :param free: bytes that do not count against the limit, for frames forwarded as soon as they are complete
        """
        self._collected = bytearray()
        self._wanted = size
        self._charged = free
        self._context = about
        return False

    def _consume(self, data: bytes, at: int, now: int) -> int:
        """Consume bytes of the frame that is being collected or streamed; return the offset after them."""
        if self._stream is not None:
            piece = data[at : at + self._stream_left]
            self._stream_left -= len(piece)
            self._streamed(piece, now)
            return at + len(piece)
        collected = self._collected
        assert collected is not None
        piece = data[at : at + self._wanted - len(collected)]
        there = len(collected) + len(piece)
        if there > self._charged and not self._charge_more(there, collected, piece, now):
            return at + len(piece)
        if there < self._wanted:
            collected += piece
            self._record(piece, now)
            return len(data)
        self._collected = None
        frame = bytes(collected + piece) if collected else piece
        self._whole(frame, piece, now)
        self._charge = self._context = None  # free the frame, unless something waits with it
        return at + len(piece)

    def _charge_more(self, there: int, collected: bytearray, piece: bytes, now: int) -> bool:
        """Charge more of the frame to the limit, ahead of its arrival; on reaching it, give up and return False."""
        if self._charge is None:
            self._charge = Charge(self.plane.inspected, "inspected_bytes")
        most = min(there + _CHARGED_AHEAD, self._wanted)
        try:
            self._charge.add(most - self._charged, "collecting it")
        except LimitReached as error:
            self._collected = None
            self._give_up(bytes(collected), piece, now, str(error))
            self._charge = None
            return False
        self._charged = most
        return True

    def _give_up(self, collected: bytes, piece: bytes, now: int, why: str) -> None:
        """Let a frame pass that cannot be collected any further.

        :param collected: bytes before ``piece``, which are recorded
        :param why: for the user
        """
        self._left = self._wanted - len(collected) - len(piece)
        self._send(collected + piece, piece, now, UNCHANGED)

    def _streamed(self, piece: bytes, now: int) -> None:
        """Forward a piece of a frame that is changed as it streams; the last piece leaves `_stream_left` at 0."""
        raise NotImplementedError

    # ------------------------------------------------------------ forwarding
    def _pass(self, data: bytes, now: int, frames: int) -> None:
        """Forward bytes unchanged.

        :param frames: number of frames that begin in it
        """
        if not data:
            return
        if self._waiting:
            self._wait(_WaitingFrame(data, data, now, UNCHANGED, frames=frames))
            return
        self._write(data)
        if self.recording is not None:
            self.recording.data(self.side, data, now)

    def _write(self, data: bytes) -> None:
        transport = self.peer.transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    def _send(
        self,
        data: bytes,
        piece: bytes,
        now: int,
        verdict: Verdict,
        *,
        due: TrackedRequest | None = None,
        frames: int = 1,
    ) -> None:
        """Forward a frame, or part of one, as `verdict` says."""
        item = _WaitingFrame(data, piece, now, verdict, due=due, frames=frames, charge=self._charge)
        if verdict.hold is not None or verdict.delay:
            item.ready = False
            self._wait(item)
            if verdict.hold is not None:
                self._hold(item)
            else:
                self.plane.loop.call_later(verdict.delay / 1e9, self._release, item, None)
        elif self._waiting or verdict.rate is not None:
            self._wait(item)
            self._advance()
        else:
            self._perform(item)

    def _wait(self, item: _WaitingFrame) -> None:
        self._at_boundary = False
        self._waiting.append(item)
        self._waiting_bytes += len(item.data)
        if self._waiting_bytes > _MOST_WAITING:
            self.pause(Pause.WAITING)

    def _hold(self, item: _WaitingFrame) -> None:
        hold = item.verdict.hold
        assert hold is not None
        hold.waiting_behind = lambda: self._frames_behind(item)
        hold.release = lambda verdict: self._release(item, verdict)
        self.session.holds.append(hold)

    def _frames_behind(self, item: _WaitingFrame) -> int:
        waiting = list(self._waiting)
        return sum(other.frames for other in waiting[waiting.index(item) + 1 :]) if item in waiting else 0

    def _release(self, item: _WaitingFrame, verdict: Verdict | None) -> None:
        """Let a waiting frame continue.

        :param verdict: replaces the one that made it wait; None if that one still holds
        """
        if self.session.closed or item.ready:
            return
        if verdict is not None:
            if item.verdict.hold in self.session.holds:
                self.session.holds.remove(item.verdict.hold)
            self._waiting_bytes -= len(item.data)
            item.data = self.decided(item.data, verdict, item.due)
            self._waiting_bytes += len(item.data)
            item.verdict = replace(verdict, comments=[*item.verdict.comments, *verdict.comments])
            if verdict.hold is not None:  # released by the user, and now for a script to decide
                self._hold(item)
                return
            if verdict.delay:
                self.plane.loop.call_later(verdict.delay / 1e9, self._release, item, None)
                return
        item.ready = True
        self._advance()

    def _advance(self) -> None:
        """Send waiting frames up to the first that is not ready."""
        waiting = self._waiting
        while waiting and waiting[0].ready and not self.session.closed:
            item = waiting[0]
            if item.verdict.rate is not None:
                self._pace(item)
                return
            waiting.popleft()
            self._waiting_bytes -= len(item.data)
            comment = as_comment(Intervention(delayed_ns=item.age))
            item.verdict = replace(item.verdict, comments=[*item.verdict.comments, comment])
            self._perform(item)
        if self._pauses & Pause.WAITING and self._waiting_bytes <= _MOST_WAITING:
            self.resume(Pause.WAITING)
        if self.ended and not waiting:
            self._end()

    def _pace(self, item: _WaitingFrame) -> None:
        """Send a throttled frame a piece at a time; its last piece goes the way of any other frame."""
        rate = item.verdict.rate
        assert rate is not None
        step = max(int(rate * _PACE), 1)
        if len(item.data) <= step:
            item.verdict = Verdict(ending=item.verdict.ending, comments=item.verdict.comments)
            item.ready = False
            wait = len(item.data) / rate
        else:
            self._write(item.data[:step])
            item.data = item.data[step:]
            self._waiting_bytes -= step
            item.ready = False
            wait = step / rate
        self.plane.loop.call_later(wait, self._release, item, None)

    def _perform(self, item: _WaitingFrame) -> None:
        verdict = item.verdict
        self._record(item.piece, item.time, "\n".join(verdict.comments))
        if self.session.swallowing:
            return
        if item.data:
            self._write(item.data)
            if item.charge is not None and self.peer.unsent > _WRITE_BUFFER:
                self._unsent_charges.append(item.charge)
        if verdict.ending is not Ending.NONE:
            self.session.carry_out(verdict.ending)

    def decided(self, data: bytes, verdict: Verdict, due: TrackedRequest | None) -> bytes:
        """Return the bytes to send for a frame.

        :param due: entry in the request queue; only requests, and only if more than the correlation ID is kept
        """
        return data if verdict.data is None else verdict.data

    def pass_all(self) -> None:
        """Stop looking for frames: this is not Kafka, or cannot be distinguished from noise."""
        self._at_boundary = False
        self._left = _EVERYTHING

    def _record(self, data: bytes, now: int, comment: str = "") -> None:
        if self.recording is not None and (data or comment):
            self.recording.data(self.side, data, now, comment)

    @property
    def is_idle(self) -> bool:
        """Whether no frame is in transit."""
        return not (self._left or self._incomplete or self._collected or self._stream_left or self._waiting)

    @property
    def unsent(self) -> int:
        """Bytes in the write buffer towards this side."""
        return 0 if self.transport is None else int(self.transport.get_write_buffer_size())

    def swallow(self) -> None:
        """Stop looking for frames, because nothing is forwarded any more."""
        self._at_boundary = False
        self._left = self._stream_left = 0
        self._incomplete = b""
        self._collected = self._stream = self._charge = None

    # ------------------------------------------------------------ the end
    def forget(self) -> None:
        """Drop collected and waiting frames because the connection has ended; they are still recorded."""
        self._collected = self._charge = self._context = None
        for item in self._waiting:
            held = item.verdict.hold is not None and not item.ready
            intervention = Intervention(
                held_ns=item.age if held else 0,
                released_by="gone" if held else "",
                not_forwarded=self is self.session.requests,
                delayed_ns=item.age,
            )
            self._record(item.piece, item.time, "\n".join((*item.verdict.comments, as_comment(intervention))))
        self._waiting.clear()
        self._unsent_charges.clear()
        self.pass_all()

    def _flush_incomplete(self) -> None:
        """Forward buffered bytes of an incomplete frame, the rest of which will not arrive."""
        now = self.seen
        kept, self._incomplete = self._incomplete, b""
        collected, self._collected = self._collected, None
        if collected:
            self._send(bytes(collected), b"", now, UNCHANGED)
        self._pass(kept, now, 1)

    def _end(self) -> None:
        self.ended = True
        if self.recording is not None:
            self.recording.end(self.side, self.seen)
            self.recording = None  # nothing follows its FIN
        self.session.half_closed(self)
