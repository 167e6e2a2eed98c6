"""Find the next frame in bytes that begin anywhere: after a gap, mid-stream, behind garbage.

The search goes by evidence, smallest offset first. A candidate is a header that looks right; it is taken when
enough speaks for it, dropped when its chain of frames breaks, and otherwise waits for the bytes that decide,
at most :attr:`Limits.resync_window` of them. What speaks for a candidate:

* it stands where a frame is likely to begin: the first byte after a gap, or of the capture (the anchor);
* the chain: its size leads to another header that looks right, and so on;
* requests: a printable client ID, one that this connection used before, a correlation ID a little above the last;
* responses: correlation IDs that are due, in their order; or, if requests were lost, IDs that count upwards;
* the last frame ends exactly where the bytes end for good.

Every decision depends on the bytes from the candidate on and on what is due, never on segmentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from dissectors.conversation.events import SIZE_BYTES
from dissectors.conversation.limits import MIB, Limits
from dissectors.conversation.plausible import (
    IMPLAUSIBLE,
    MIN_RESPONSE,
    REQUEST_START,
    RESPONSE_START,
    STRONG,
    judge_request,
)

#: frames that convince without further evidence
CHAIN = 3
LONG_CHAIN = 4

#: how far correlation IDs of one client are believed to rise between two requests that were seen
MAX_ID_STEP = 65_536
#: and between two neighbours of a chain of responses: requests with acks=0 leave holes
MAX_CHAIN_STEP = 64

#: a due ID this large is not met by chance: counts and lengths in bodies are mostly small
DISTINCTIVE_ID = 65_536

# int32 size up to 128 MiB, API key below 128, version below 48, correlation ID, length of client_id below 512 or
# -1; or ControlledShutdown v0, the one request without client_id. Lookahead, because candidates may overlap.
_REQUEST = re.compile(
    rb"(?s)(?!\x00\x00\x00[\x00-\x07])"
    rb"(?=[\x00-\x07]...\x00[\x00-\x7f]\x00[\x00-\x2f]....(?:[\x00\x01].|\xff\xff)"
    rb"|\x00\x00\x00\x0c\x00\x07\x00\x00....)"
)
# int32 size up to 16 MiB and any correlation ID that is not negative
_RESPONSE = re.compile(rb"(?s)(?=\x00...[\x00-\x7f]...)(?!\x00\x00\x00[\x00-\x03])")


@dataclass(slots=True)
class Found:
    """A frame begins at `at`, an offset into the data."""

    at: int


@dataclass(slots=True)
class More:
    """Undecided: nothing before `keep_from` is of use; ask again with `need` bytes from there."""

    keep_from: int
    need: int


@dataclass(slots=True)
class Requests:
    """What is known for a search among the client's bytes.

    :ivar known: highest known version by API key
    :ivar believed: highest version to believe by API key
    :ivar client_ids: those seen on this connection
    :ivar last_id: last correlation ID seen, None if none
    """

    known: Mapping[int, int]
    believed: Mapping[int, int]
    limits: Limits
    client_ids: Collection[bytes] = ()
    last_id: int | None = None

    def judge(self, data: bytes, at: int) -> int:
        """Judge the header at `at`; see :func:`judge_request`."""
        return judge_request(data, at, self.known, self.believed, self.limits.max_request_size)

    def familiar(self, data: bytes, at: int) -> bool:
        """Tell whether the header's client ID was seen before and its correlation ID continues the last one."""
        _, _, _, correlation_id, length = REQUEST_START.unpack_from(data, at)
        start = at + REQUEST_START.size
        return (
            self.last_id is not None
            and 0 < correlation_id - self.last_id <= MAX_ID_STEP
            and data[start : start + max(length, 0)] in self.client_ids
        )


@dataclass(slots=True)
class Responses:
    """What is known for a search among the broker's bytes.

    :ivar due: correlation IDs in flight, each with its place in the queue
    :ivar open: whether responses to requests that were not seen may come
    """

    limits: Limits
    due: Mapping[int, int] = field(default_factory=dict)
    open: bool = False


#: verdict on a candidate: True to take it, False to drop it, or the bytes needed from it to tell
Verdict = bool | int


def find_request(data: bytes, start: int, anchor: int, about: Requests, *, final: bool) -> Found | More:
    """Find the first request at or after `start`.

    :param anchor: offset at which a frame is likely to begin, -1 if there is none
    :param final: no byte will follow `data`
    """

    def weigh(at: int) -> Verdict:
        return _weigh_request(data, at, at == anchor, about, final)

    found = _search(data, start, _REQUEST, weigh, final=final)
    return found or More(max(start, len(data) - REQUEST_START.size + 1), REQUEST_START.size)


def find_response(data: bytes, start: int, anchor: int, about: Responses, *, final: bool) -> Found | More:
    """Find the first response at or after `start`; see :func:`find_request`."""

    def weigh(at: int) -> Verdict:
        return _weigh_response(data, at, at == anchor, about, final)

    found: Found | More | None = None
    if about.open:
        found = _search(data, start, _RESPONSE, weigh, final=final)
    elif about.due:
        ids = b"|".join(re.escape(due.to_bytes(4, "big", signed=True)) for due in about.due)
        pattern = re.compile(b"(?s)(?=[\\x00-\\x7f]...(?:" + ids + b"))")
        found = _search(data, start, pattern, weigh, final=final)
    return found or More(max(start, len(data) - RESPONSE_START.size + 1), RESPONSE_START.size)


def _search(
    data: bytes, start: int, pattern: re.Pattern[bytes], weigh: Callable[[int], Verdict], *, final: bool
) -> Found | More | None:
    for match in pattern.finditer(data, start):
        at = match.start()
        verdict = weigh(at)
        if verdict is True:
            return Found(at)
        if verdict is not False and not final:
            return More(at, verdict)
    return None


def _weigh_request(data: bytes, at: int, anchored: bool, about: Requests, final: bool) -> Verdict:
    grade = about.judge(data, at)
    if grade <= IMPLAUSIBLE:
        return -grade if grade else False
    if grade == STRONG and (anchored or about.familiar(data, at)):
        return True
    frames = 1
    strong = grade == STRONG
    # A connection whose requests are known gives itself away; a stranger's may be data, such as a capture in a record.
    enough = 2 if about.last_id is None else CHAIN
    end = len(data)
    hop = at
    while True:
        hop += SIZE_BYTES + int.from_bytes(data[hop : hop + SIZE_BYTES], "big")
        if hop - at > about.limits.resync_window:
            return False
        if final and hop == end:
            return frames + strong >= enough
        grade = about.judge(data, hop) if hop <= end else -SIZE_BYTES
        if grade == IMPLAUSIBLE:
            return False
        if grade < 0:
            return hop - at - grade
        frames += 1
        strong = strong or grade == STRONG
        if frames >= (enough if strong else CHAIN) or (grade == STRONG and about.familiar(data, hop)):
            return True


def _weigh_response(data: bytes, at: int, anchored: bool, about: Responses, final: bool) -> Verdict:
    end = len(data)
    hop = at
    frames = due = 0
    last_id = last_place = -1
    while True:
        if hop - at > about.limits.resync_window:
            return False
        if hop + RESPONSE_START.size > end:
            if final and (hop == end or (hop < end and data[hop] == 0 and due)):
                # Whole up to the end, but for a beginning of the next that may be a size.
                return due > 0 or frames >= 2
            return hop - at + RESPONSE_START.size
        size, correlation_id = RESPONSE_START.unpack_from(data, hop)
        if not MIN_RESPONSE <= size <= about.limits.max_response_size:
            return False
        place = about.due.get(correlation_id, -1)
        if place > last_place:
            due += 1
            last_place = place
            if anchored or correlation_id >= DISTINCTIVE_ID:
                return True
        elif not about.open or (frames and not 0 < correlation_id - last_id <= MAX_CHAIN_STEP):
            return False
        frames += 1
        if due >= 2 or frames >= (CHAIN if anchored else LONG_CHAIN):
            return True
        if size > MIB and frames == 1 and not due:
            # Without an ID that is due, a large size is most likely not one.
            return False
        last_id = correlation_id
        hop += SIZE_BYTES + size
