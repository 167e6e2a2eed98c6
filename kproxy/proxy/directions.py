"""The two directions, frame by frame: the client's requests and the broker's responses.

Requests are only tracked, unless an inspector wants to see them. Responses are collected if they may contain addresses
to rewrite, if an inspector wants them, or if kproxy itself answers.
"""

from __future__ import annotations

from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, NamedTuple

from captures.interventions import Change, Intervention, as_comment
from dissectors.api_keys import ApiKey
from dissectors.budget import LimitReached
from dissectors.errors import DecodeError
from dissectors.headers import SIZE_BYTES
from kproxy.proxy.addresses import RewriteResult
from kproxy.proxy.framing import (
    REQUEST_HEAD,
    RESPONSE_HEAD,
    SHORT_REQUEST_HEAD,
    TOKEN,
    Entry,
    NeedMore,
    TrackedRequest,
    acks_place,
    client_id_of,
    is_request,
)
from kproxy.proxy.half import Half, Pause
from kproxy.proxy.verdicts import UNCHANGED, Frame, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from kproxy.proxy.addresses import ResponseHandling
    from kproxy.proxy.session import Session

CLIENT, BROKER = 0, 1

MOST_COLLECTED = 64 << 20
"""Bytes of the largest frame that is held in memory whole; a broker's own limit for requests is 100 MiB."""
_FREE = 1 << 16
"""Bytes of a response, collected only for its addresses, that do not count against the limit."""
_VERSION = 0xFFFF
_TOO_LARGE = f"it has more than {MOST_COLLECTED:,} bytes"


class _Produce(NamedTuple):
    """The beginning of a Produce request; those of one producer begin alike.

    :ivar before: the bytes between the correlation ID and ``acks``
    """

    version: int
    before: bytes
    acks_at: int
    treatment: ResponseHandling | None


class Requests(Half):
    """The direction from the client to the broker."""

    side = CLIENT

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._passing: set[int] = set()
        self._treated: dict[int, ResponseHandling] = {}
        self._expected = session.in_flight.queue
        self._most = session.plane.settings.most_frame
        self._last_produce: _Produce | None = None

    def data_received(self, data: bytes) -> None:
        """Forward received data; a fast path handles a single whole request whose kind was seen before."""
        size = len(data)
        if self._at_boundary and REQUEST_HEAD.size <= size <= self._most and not self.plane.inspector.active:
            length, api, correlation_id = SHORT_REQUEST_HEAD.unpack_from(data)
            if length + SIZE_BYTES == size:
                entry: Entry = correlation_id
                if api not in self._passing:
                    treatment = self._treated.get(api)
                    if treatment is None:
                        entry = self._produced(api, correlation_id, data)
                    else:
                        entry = TrackedRequest(api >> 16, api & _VERSION, correlation_id, treatment)
                if entry is not None:
                    now = self.seen = time_ns()
                    self.received += size
                    self._expected.append(entry)
                    self._write(data)
                    if self.recording is not None:
                        self.recording.data(CLIENT, data, now)
                    return
        super().data_received(data)

    @property
    def has_authenticated(self) -> bool:
        """Whether the client has sent requests other than those it begins with, such as SaslHandshake."""
        return bool(self._passing)

    def _produced(self, api: int, correlation_id: int, data: bytes) -> Entry:
        """Return the queue entry for a Produce request that begins like the last one, None for any other."""
        last = self._last_produce
        if last is None or api != last.version or not data.startswith(last.before, REQUEST_HEAD.size):
            return None  # the key of Produce is 0, so key and version together equal the version
        acks = data[last.acks_at : last.acks_at + 2]
        if len(acks) < 2 or acks == b"\0\0":
            return None
        return (
            correlation_id
            if last.treatment is None
            else TrackedRequest(ApiKey.PRODUCE, api, correlation_id, last.treatment)
        )

    def block(self, blocked: Callable[[], None]) -> None:
        """Let no further frame begin until :meth:`unblock`.

        :param blocked: called when the next frame arrives
        """
        self._when_blocked, self._at_boundary = blocked, False

    def _report_blocked(self, blocked: Callable[[], None]) -> None:
        if not self._pauses & Pause.AUTHENTICATING:  # reported for the first frame only
            self.pause(Pause.AUTHENTICATING)
            blocked()

    def unblock(self) -> None:
        """Let frames begin again, first those that wait."""
        self._when_blocked = None
        self._take(b"", time_ns())
        self._at_boundary = self.is_idle and not self.session.swallowing
        self.resume(Pause.AUTHENTICATING)

    @property
    def is_settled(self) -> bool:
        """Whether all requests that have begun are forwarded and answered."""
        return not (self._waiting or self.session.in_flight)

    def _begin(self, data: bytes, at: int, size: int) -> bool:
        there = size - at
        if self._when_blocked is not None:
            self._report_blocked(self._when_blocked)
            raise NeedMore
        if there < SIZE_BYTES:
            raise NeedMore
        if there < REQUEST_HEAD.size:
            length = int.from_bytes(data[at : at + SIZE_BYTES], signed=True)
            if length >= REQUEST_HEAD.size - SIZE_BYTES:
                raise NeedMore
            api_key = -1
        else:
            length, api_key, version, correlation_id = REQUEST_HEAD.unpack_from(data, at)
        if not 0 <= length <= self.plane.settings.most_frame:
            self.session.no_frame(length, data[at:])
            self.pass_all()
            return True
        if length < REQUEST_HEAD.size - SIZE_BYTES or not is_request(api_key, version):
            self.session.in_flight.expect(TOKEN)
            self._left = SIZE_BYTES + length
            return True
        if api_key == ApiKey.SASL_HANDSHAKE and self._refuses(api_key):
            refused = TrackedRequest(api_key, version, correlation_id, None)
            self.session.in_flight.expect(refused)
            return self._collect(SIZE_BYTES + length, (api_key, version, correlation_id, refused))
        if api_key == ApiKey.PRODUCE and not self._answered(
            data, at, min(at + SIZE_BYTES + length, size), version
        ):
            if not self.plane.inspector.active:
                self._left = SIZE_BYTES + length
                return True
            due = None
        else:
            due = self._expect(api_key, version, correlation_id)
        inspector, peers = self.plane.inspector, self.session.peers
        if inspector.active or peers.client_id is None:
            name = client_id_of(data, at, size)
            if name is not None:
                peers.client_id = name
        if inspector.active and inspector.wants("request", api_key, version, peers):
            if length <= MOST_COLLECTED:
                return self._collect(SIZE_BYTES + length, (api_key, version, correlation_id, due))
            self.plane.not_inspected(api_key, SIZE_BYTES + length, _TOO_LARGE)
        self._left = SIZE_BYTES + length
        return True

    def _answered(self, data: bytes, at: int, end: int, version: int) -> bool:
        """Return whether a Produce request will be answered.

        :raises NeedMore: if that is not known yet
        """
        try:
            position = acks_place(data, at, end, version)
        except NeedMore:
            if end < len(data):
                return True  # malformed: the broker will close the connection
            raise
        if not at and self.session.peers.client_id is not None:
            treatment = self.cluster.treatment(ApiKey.PRODUCE, version)
            self._last_produce = _Produce(version, data[REQUEST_HEAD.size : position], position, treatment)
        return data[position : position + 2] != b"\0\0"

    def _refuses(self, api_key: int) -> bool:
        """Return whether kproxy refuses requests of this kind, because it has authenticated the connection itself."""
        return api_key == ApiKey.SASL_HANDSHAKE and self.session.authentication is not None

    def _expect(self, api_key: int, version: int, correlation_id: int) -> TrackedRequest | None:
        treatment = self.cluster.treatment(api_key, version)
        if api_key != ApiKey.PRODUCE and self.session.peers.client_id is not None:
            if treatment is None:
                self._passing.add(api_key << 16 | version)
            else:
                self._treated[api_key << 16 | version] = treatment
        if treatment is None and not self.plane.inspector.active:
            self.session.in_flight.expect(correlation_id)
            return None
        due = TrackedRequest(api_key, version, correlation_id, treatment)
        self.session.in_flight.expect(due)
        return due

    def _whole(self, frame: bytes, piece: bytes, now: int) -> None:
        api_key, version, correlation_id, due = self._context
        peers, charge = self.session.peers, self._charge
        seen = Frame(peers, "request", frame, api_key, version, correlation_id, now, charge=charge)
        if due is not None:
            due.request = seen
        decide = self.cluster.refuse_handshake if self._refuses(api_key) else self.plane.inspector.decide
        verdict = decide(seen)
        self._send(self.decided(frame, verdict, due), piece, now, verdict, due=due)

    def _give_up(self, collected: bytes, piece: bytes, now: int, why: str) -> None:
        self.plane.not_inspected(self._context[0], self._wanted, why)
        super()._give_up(collected, piece, now, why)

    def decided(self, data: bytes, verdict: Verdict, due: TrackedRequest | None) -> bytes:
        """Return the bytes to send to the broker; an answer of kproxy's own is queued for the client."""
        if verdict.answer is None:
            data = super().decided(data, verdict, due)
            if data:
                return data
        if due is not None:
            due.void = True
            due.answer = verdict.answer
            due.comment = as_comment(Intervention(answered=True))
            self.plane.loop.call_soon(self.session.responses.answer)
        return b""


class Responses(Half):
    """The direction from the broker to the client."""

    side = BROKER

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._expected = session.in_flight.queue
        self._ends_decide = False  # whether the broker's messages have only declared fields
        self._is_first = True

    def data_received(self, data: bytes) -> None:
        """Forward received data; a fast path handles a single whole response that needs no treatment."""
        size, expected = len(data), self._expected
        if self._at_boundary and expected and size >= RESPONSE_HEAD.size:
            length, correlation_id = RESPONSE_HEAD.unpack_from(data)
            first = expected[0]
            if length + SIZE_BYTES == size and (
                first == correlation_id or self._has_no_addresses(first, correlation_id, data, size)
            ):
                now = self.seen = time_ns()
                self.received += size
                expected.popleft()
                self._write(data)
                if self.recording is not None:
                    self.recording.data(BROKER, data, now)
                if expected:
                    self.answer()
                return
        super().data_received(data)

    def eof_received(self) -> bool:
        authentication = self.session.authentication
        if authentication is not None and authentication.connection_lost(None):
            return False  # the transport closes, and with it the session
        self.session.left_by_broker()
        return super().eof_received()

    def _has_no_addresses(self, entry: Entry, correlation_id: int, data: bytes, size: int) -> bool:
        """Return whether a response that may contain addresses is shown by its end to have none."""
        return (
            isinstance(entry, TrackedRequest)
            and entry.correlation_id == correlation_id
            and self._is_free(entry.treatment, data, size)
            and not self.plane.inspector.active
        )

    def _is_free(self, treatment: ResponseHandling | None, data: bytes, end: int) -> bool:
        """Return whether the end of a response, at offset `end`, shows that it has no addresses."""
        return (
            self._ends_decide
            and treatment is not None
            and treatment.is_free is not None
            and treatment.is_free(data, end)
        )

    def _begin(self, data: bytes, at: int, size: int) -> bool:
        there = size - at
        if there < SIZE_BYTES:
            raise NeedMore
        if self._is_first:
            self._is_first = False
            if self.session.is_no_broker(data[at:]):
                self.session.requests.pass_all()
                self.pass_all()
                return True
        in_flight = self.session.in_flight
        if there < RESPONSE_HEAD.size:
            length = int.from_bytes(data[at : at + SIZE_BYTES], signed=True)
            if length >= SIZE_BYTES:
                raise NeedMore
            entry = in_flight.answered(-1) if length >= 0 else TOKEN
        else:
            length, correlation_id = RESPONSE_HEAD.unpack_from(data, at)
            entry = in_flight.answered(correlation_id)
        if length < 0:
            self._left = there  # not Kafka; the reader of the capture will detect it
            return True
        frame_size = SIZE_BYTES + length
        if isinstance(entry, TrackedRequest):
            return self._treat(entry, data, at, frame_size)
        self._left = frame_size
        return True

    def _treat(self, due: TrackedRequest, data: bytes, at: int, size: int) -> bool:
        """Decide how to treat the response to a tracked request."""
        if due.receive is not None:
            return self._await_own(due, data, at, size)
        treatment = due.treatment
        inspector = self.plane.inspector
        inspected = inspector.active and inspector.wants(
            "response", due.api_key, due.version, self.session.peers
        )
        if not inspected and treatment is None:
            self._left = size
            return True
        whole = at + size <= len(data)
        if whole and not inspected and self._is_free(treatment, data, at + size):
            self._left = size
            return True
        if size <= (MOST_COLLECTED if inspected or treatment is None else treatment.limit):
            if whole and not inspected and treatment is not None and treatment.is_seldom_needed:
                frame = data[at : at + size]
                if self._rewritten(due, frame).frame is frame:
                    self._left = size  # the usual Fetch: nothing to change
                    return True
            return self._collect(size, (due, inspected), 0 if inspected else _FREE)
        if inspected:
            self.plane.not_inspected(due.api_key, size, _TOO_LARGE)
        if treatment is not None and treatment.stream is not None:
            self._stream = treatment.stream()
            self._stream_left = size
            self._context = due
            return False
        if treatment is not None:
            why = f"its {size:,} bytes are more than kproxy collects"
            self.plane.could_not_rewrite(self.session.peers, due.api_key, due.version, why)
        self._left = size
        return True

    def _await_own(self, due: TrackedRequest, data: bytes, at: int, size: int) -> bool:
        """Collect the response to a request of kproxy's own, without recording a part of it.

        :raises NeedMore: if the response is incomplete
        """
        if at + size > len(data):
            if size > _FREE:
                self.session.abort()
            self._expected.appendleft(due)
            raise NeedMore
        return self._collect(size, (due, False), size)

    def _whole(self, frame: bytes, piece: bytes, now: int) -> None:
        due, inspected = self._context
        if due.receive is not None:
            self.received -= len(frame)
            due.receive(frame)
            return
        peers, comments, data = self.session.peers, [], frame
        if due.api_key != ApiKey.API_VERSIONS:
            self.session.is_served = True
        if due.treatment is not None:
            result = self._rewritten(due, frame)
            data, comments = result.frame, self._comments(result.changes)
            self.plane.inspection.names.remember(due.api_key, due.version, frame)
            self.cluster.watch_for_escapes(peers, due.api_key, due.version, data)
        verdict = UNCHANGED
        if inspected:
            key, version, correlation_id = due.api_key, due.version, due.correlation_id
            shown = Frame(
                peers, "response", data, key, version, correlation_id, now, due.request, self._charge
            )
            verdict = self.plane.inspector.decide(shown)
            data = self.decided(data, verdict, None)
        if comments:
            verdict = replace(verdict, comments=[*comments, *verdict.comments])
        self._send(data, piece, now, verdict)
        self.answer()

    def _give_up(self, collected: bytes, piece: bytes, now: int, why: str) -> None:
        due, inspected = self._context
        treatment = due.treatment
        if inspected:
            self.plane.not_inspected(due.api_key, self._wanted, why)
        if treatment is None:
            super()._give_up(collected, piece, now, why)
        elif treatment.stream is not None:
            self._stream = treatment.stream()
            self._stream_left = self._wanted - len(collected) - len(piece)
            self._context = due
            self._send(self._stream.feed(collected), b"", now, UNCHANGED, frames=0)
            self._streamed(piece, now)
        else:  # an uninspected response could carry addresses
            self.plane.not_collected(self.session.peers, due.api_key, due.version, why)
            self._record(piece, now)
            self.session.abort()

    def _rewritten(self, due: TrackedRequest, frame: bytes) -> RewriteResult:
        """Return a response as the client is to get it, with the changes made."""
        treatment = due.treatment
        if treatment is not None and treatment.rewrite is not None:
            if self._is_free(treatment, frame, len(frame)):
                return RewriteResult(frame, ())
            try:
                result = treatment.rewrite(frame, self.cluster.brokers.advertise)
                if due.api_key == ApiKey.API_VERSIONS:
                    self._ends_decide = result.is_known
                return result
            except LimitReached as error:
                self.plane.not_collected(self.session.peers, due.api_key, due.version, str(error))
                self.session.abort()
                return RewriteResult(b"", ())
            except DecodeError as error:
                self.plane.could_not_rewrite(self.session.peers, due.api_key, due.version, str(error))
        return RewriteResult(frame, ())

    def _streamed(self, piece: bytes, now: int) -> None:
        stream = self._stream
        assert stream is not None
        changed = stream.feed(piece)
        comments: list[str] = []
        if not self._stream_left:
            self._stream = None
            comments = self._comments(stream.changes)
            if stream.problem:
                due = self._context
                self.plane.could_not_rewrite(self.session.peers, due.api_key, due.version, stream.problem)
        self._send(changed, piece, now, Verdict(comments=comments) if comments else UNCHANGED, frames=0)

    def _comments(self, changes: tuple[Change, ...]) -> list[str]:
        """Return packet comments that describe `changes`."""
        if not changes:
            return []
        self.plane.counts.rewritten += 1
        return [as_comment(Intervention(changed=changes))]

    def _take(self, data: bytes, now: int) -> None:
        super()._take(data, now)
        self.answer()

    def answer(self) -> None:
        """Send kproxy's own answers that are due now."""
        if self.session.closed or self._left or self._collected is not None or self._stream is not None:
            return  # in the middle of a response
        while True:
            due = self.session.in_flight.own_answer()
            if due is None:
                return
            assert due.answer is not None
            verdict = Verdict(comments=[due.comment]) if due.comment else UNCHANGED
            self._send(due.answer, due.answer, time_ns(), verdict)
