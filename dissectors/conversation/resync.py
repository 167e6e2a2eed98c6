"""Search for the next frame in bytes that start anywhere: after a gap, mid-stream, after garbage.

The search weighs evidence. A candidate is a plausible header; it is accepted when it has enough evidence,
dropped when its chain of frames breaks, and otherwise waits for the bytes that decide, at most
:attr:`Limits.resync_window` of them. The evidence for a candidate:

* its position is where a frame is likely to start: the first byte after a gap, or of the capture (the anchor);
* the chain: its size leads to another plausible header, and so on;
* requests: a printable client ID, or any that this connection used before; a correlation ID slightly above the last;
* responses: correlation IDs that are due, in their order; or, if requests were lost, IDs that count upwards;
* the last frame ends exactly where the stream ends.

Candidates do not wait for each other: the first one with complete evidence is accepted. `Search` replays the
arrival of the bytes to find it, so that segmentation has no influence.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from heapq import heappop, heappush
from typing import Protocol

import msgspec
import numpy as np

from dissectors.conversation.limits import Limits
from dissectors.conversation.plausible import (
    IMPLAUSIBLE,
    MIN_RESPONSE,
    REQUEST_START,
    RESPONSE_START,
    STRONG,
    as_shown,
    judge_request,
)
from dissectors.headers import SIZE_BYTES
from dissectors.units import KIB, MIB

#: frames that convince without further evidence
CHAIN = 3
LONG_CHAIN = 4

#: maximum increase of the correlation ID between two requests of one client
MAX_ID_STEP = 65_536
#: maximum increase between neighbours in a chain of responses: requests with acks=0 leave holes
MAX_CHAIN_STEP = 64

#: a due ID this large does not occur by chance: counts and lengths in bodies are mostly small
DISTINCTIVE_ID = 65_536

#: the client ID has an int16 length
_LONGEST_HEADER = REQUEST_START.size + 2**15

# int32 size up to 128 MiB, API key below 128, version below 48, correlation ID, length of client_id below 512 or
# -1; or ControlledShutdown v0, the one request without client_id. Lookahead, because candidates may overlap.
_REQUEST = re.compile(
    rb"(?s)(?!\x00\x00\x00[\x00-\x07])"
    rb"(?=[\x00-\x07]...\x00[\x00-\x7f]\x00[\x00-\x2f]....(?:[\x00\x01].|\xff\xff)"
    rb"|\x00\x00\x00\x0c\x00\x07\x00\x00....)"
)
# size of a response whose correlation ID is not due: a chain has to prove it
_LARGEST_UNKNOWN = MIB + 64 * KIB - 1

#: verdict on a candidate: True to accept it, False to drop it, or the bytes needed from its start to decide
Verdict = bool | int

#: maximum number of waiting candidates; only bytes of very few different values have more
_MAX_PENDING = 2048

#: maximum number of unneeded bytes to keep before the oldest candidate is looked up again
_SLACK = 64 * KIB


class Evidence(Protocol):
    """The appearance of one side's frames, and the known facts about the connection."""

    @property
    def header(self) -> int:
        """Number of bytes by which a candidate is recognised."""

    def candidates(self, data: bytes, start: int) -> Iterator[int]:
        """Yield the offsets at which a frame may start, in order."""

    def weigh(self, data: bytes, at: int, end: int, *, anchored: bool, final: bool) -> Verdict:
        """Judge the candidate at `at` by the bytes before `end` only.

        :param anchored: a frame is likely to start at `at`
        :param final: no byte follows `end`
        """


class Search:
    """One search, from the position where frames were lost to the next frame. All positions are stream positions.

    :param start: the first byte to search
    :param anchor: position where a frame is likely to start, -1 if there is none
    """

    def __init__(self, start: int, anchor: int = -1) -> None:
        self.anchor = anchor
        self._listed = start
        self._pending: list[tuple[int, int]] = []
        """Heap of candidates: ``(position of the byte that they wait for, position of the candidate)``."""
        self.keep_from = start
        """Position before which the bytes are no longer needed."""

    def find(
        self, data: bytes, base: int, evidence: Evidence, *, final: bool = False, until: int | None = None
    ) -> int | None:
        """Return the position of the next frame, None if it is not known yet.

        :param data: all bytes from :attr:`keep_from` on
        :param base: position of the first of them
        :param final: no byte will follow `data`
        :param until: ignore frames that only bytes after this position prove
        """
        end = base + len(data)
        last = end if until is None else min(end, until)
        pending = self._pending
        listing = evidence.candidates(data, self._listed - base)
        following = next(listing, None)
        while following is not None or pending:
            listed = end + 1 if following is None else base + following + evidence.header
            waited = bool(pending) and pending[0][0] <= listed
            now, at = pending[0] if waited else (listed, listed - evidence.header)
            if now > last:
                break
            if waited:
                heappop(pending)
            verdict = evidence.weigh(data, at - base, now - base, anchored=at == self.anchor, final=False)
            if verdict is True:
                return at
            if not waited:  # not earlier: most candidates are accepted, and then no others are needed
                following = next(listing, None)
            if verdict is not False:
                heappush(pending, (at + verdict, at))
                if len(pending) > 2 * _MAX_PENDING:
                    # A sorted list is a heap. In bytes of this kind, the nearest proof is as good as any.
                    self._pending = pending = sorted(pending)[:_MAX_PENDING]
        self._listed = max(self._listed, end - evidence.header + 1)
        if final and last == end:
            for at in sorted(at for _, at in pending):
                if evidence.weigh(data, at - base, len(data), anchored=at == self.anchor, final=True) is True:
                    return at
        if end - self.keep_from > _SLACK:
            self.keep_from = min((at for _, at in pending), default=self._listed)
        return None


def find_first(data: bytes, evidence: Evidence) -> int | None:
    """Return the offset of the first frame in `data`, which is complete; a frame may start at its first byte."""
    return Search(0, 0).find(data, 0, evidence, final=True)


class Requests(msgspec.Struct):
    """Evidence for requests among the client's bytes.

    :ivar known: highest known version by API key
    :ivar believed: highest version to accept by API key
    :ivar client_ids: the first client IDs of this connection, in the form of :func:`as_shown`
    :ivar last_id: last correlation ID seen, None if none
    :ivar odd_ids: the client IDs that are not text
    """

    known: Mapping[int, int]
    believed: Mapping[int, int]
    limits: Limits
    client_ids: Container[bytes] = ()
    last_id: int | None = None
    odd_ids: Container[bytes] = ()

    @property
    def header(self) -> int:
        return REQUEST_START.size

    def judge(self, data: bytes) -> int:
        """Judge the header at the start of `data`; see :func:`judge_request`."""
        most = self.limits.max_request_size
        return judge_request(data, 0, self.known, self.believed, most, odd_ids=self.odd_ids)

    def familiar(self, data: bytes) -> bool:
        """Return whether the header's client ID was seen before and its correlation ID continues the last one."""
        _, _, _, correlation_id, length = REQUEST_START.unpack_from(data)
        if self.last_id is None or not 0 < correlation_id - self.last_id <= MAX_ID_STEP:
            return False
        raw = data[REQUEST_START.size : REQUEST_START.size + max(length, 0)]
        return raw in self.client_ids or (bool(self.odd_ids) and as_shown(raw) in self.odd_ids)

    def candidates(self, data: bytes, start: int) -> Iterator[int]:
        return (match.start() for match in _REQUEST.finditer(data, start))

    def weigh(self, data: bytes, at: int, end: int, *, anchored: bool, final: bool) -> Verdict:
        # Known requests identify later ones; without any, the bytes may be data, such as a capture in a record.
        enough = 2 if self.last_id is None else CHAIN
        frames = 0
        strong = False
        hop = at
        while hop - at <= self.limits.resync_window:
            header = data[hop : min(end, hop + _LONGEST_HEADER)]
            grade = self.judge(header)
            if grade < 0 and final:
                # Whole up to the end, perhaps with the start of another header.
                return frames + strong >= enough and (hop == end or (hop < end and header[0] == 0))
            if grade < 0:
                return hop - at - grade
            if grade == IMPLAUSIBLE:
                return False
            frames += 1
            strong = strong or grade == STRONG
            if grade == STRONG and ((anchored and frames == 1) or self.familiar(header)):
                return True
            if frames >= (enough if strong else CHAIN):
                return True
            hop += SIZE_BYTES + int.from_bytes(header[:SIZE_BYTES], "big")
        return False


class Responses(msgspec.Struct):
    """Evidence for responses among the broker's bytes.

    :ivar due: correlation IDs in flight, each with its position in the queue
    :ivar open: whether responses may arrive whose requests were not seen
    """

    limits: Limits
    due: Mapping[int, int] = {}
    open: bool = False

    @property
    def header(self) -> int:
        return RESPONSE_START.size

    def candidates(self, data: bytes, start: int) -> Iterator[int]:
        count = len(data) - start - RESPONSE_START.size + 1
        if count <= 0 or not (self.due or self.open):
            return
        size, correlation_id = RESPONSE_START.unpack_from(data, start)
        if (size >= 0 and correlation_id in self.due) or (
            self.open and MIN_RESPONSE <= size <= _LARGEST_UNKNOWN and correlation_id >= 0
        ):
            yield start
        yield from self._candidates_behind(data, start + 1, count - 1)

    def _candidates_behind(self, data: bytes, start: int, count: int) -> Iterator[int]:
        size = np.ndarray((count,), ">i4", data, start, (1,))
        correlation_id = np.ndarray((count,), ">i4", data, start + SIZE_BYTES, (1,))
        found = (size >= 0) & np.isin(correlation_id, list(self.due))
        if self.open:
            found |= (size >= MIN_RESPONSE) & (size <= _LARGEST_UNKNOWN) & (correlation_id >= 0)
        return iter((np.flatnonzero(found) + start).tolist())

    def weigh(self, data: bytes, at: int, end: int, *, anchored: bool, final: bool) -> Verdict:
        hop = at
        frames = due = 0
        last_id = last_place = -1
        while hop - at <= self.limits.resync_window:
            if hop + RESPONSE_START.size > end:
                if final:
                    # Whole up to the end, perhaps with the start of another size; or two headers in a row.
                    whole = hop == end or (hop < end and data[hop] == 0)
                    return (due > 0 and (whole or frames >= 2)) or (hop == end and frames >= 2)
                return hop - at + RESPONSE_START.size
            size, correlation_id = RESPONSE_START.unpack_from(data, hop)
            if not MIN_RESPONSE <= size <= self.limits.max_response_size:
                return False
            index = self.due.get(correlation_id, -1)
            if index > last_place:
                due += 1
                last_place = index
                if anchored or correlation_id >= DISTINCTIVE_ID:
                    return True
            elif not self.open or (frames and not 0 < correlation_id - last_id <= MAX_CHAIN_STEP):
                return False
            frames += 1
            if due >= 2 or frames >= (CHAIN if anchored else LONG_CHAIN):
                return True
            if size > MIB and frames == 1 and not due:
                # Unless an ID is due, a large number is probably not a size.
                return False
            last_id = correlation_id
            hop += SIZE_BYTES + size
        return False
