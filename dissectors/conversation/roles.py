"""Identification of the client's stream among two, from their bytes alone.

Ports and SYN flags are better evidence; this is for captures that have neither. Requests are recognised by
their client ID. Responses can look like requests by accident (a small correlation ID reads as Produce in that
version), but then without a client ID; they are recognised by correlation IDs that count upwards. Both functions
work on one direction alone, on streams that start inside a frame, and examine only the start of the stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from dissectors.apis import version_limits
from dissectors.conversation.limits import Limits
from dissectors.conversation.plausible import (
    IMPLAUSIBLE,
    MIN_RESPONSE,
    RESPONSE_START,
    STRONG,
    highest,
    judge_request,
)
from dissectors.conversation.resync import (
    MAX_CHAIN_STEP,
    Requests,
    Responses,
    find_first,
)
from dissectors.headers import SIZE_BYTES

#: bytes and frames examined
_SAMPLE = 256 * 1024
_MAX_FRAMES = 32

#: score of a frame that could be a request but has no client ID
_WITHOUT_CLIENT_ID = 0.25
#: score of a single frame that could be a response
_SINGLE_RESPONSE = 0.25
#: required lead of one reading over the other
_REQUIRED_LEAD = 0.25


def looks_like_requests(data: bytes, versions: Mapping[int, tuple[int, int]] | None = None) -> float:
    """Return how much the bytes look like a client's, from 0 (not at all) to 1."""
    versions = version_limits() if versions is None else versions
    about = Requests(*highest(versions), Limits())
    data = data[:_SAMPLE]
    at = find_first(data, about) or 0
    score = 0.0
    frames = 0
    while at < len(data) and frames < _MAX_FRAMES:
        grade = about.judge(data[at:])
        if grade < IMPLAUSIBLE:
            break
        frames += 1
        if grade == IMPLAUSIBLE:
            break
        score += 1 if grade == STRONG else _WITHOUT_CLIENT_ID
        at += SIZE_BYTES + int.from_bytes(data[at : at + SIZE_BYTES], "big")
    return score / frames if frames else 0.0


def looks_like_responses(data: bytes) -> float:
    """Return how much the bytes look like a broker's, from 0 (not at all) to 1."""
    data = data[:_SAMPLE]
    limits = Limits()
    at = 0
    if len(_correlation_ids(data, 0, limits)) < 2:
        at = find_first(data, Responses(limits, open=True)) or 0
    ids = _correlation_ids(data, at, limits)
    if len(ids) < 2:
        return _SINGLE_RESPONSE if ids else 0.0
    steps = [after - before for before, after in itertools.pairwise(ids)]
    return sum(0 < step <= MAX_CHAIN_STEP for step in steps) / len(steps)


def client_stream(
    first: bytes, second: bytes, versions: Mapping[int, tuple[int, int]] | None = None
) -> int | None:
    """Return which of a connection's two streams is the client's: 0, 1, or None if unknown.

    Either may be empty: a capture may contain only one direction.
    """
    forward = looks_like_requests(first, versions) + looks_like_responses(second)
    backward = looks_like_requests(second, versions) + looks_like_responses(first)
    if abs(forward - backward) < _REQUIRED_LEAD:
        return None
    return 0 if forward > backward else 1


def starts_with_request(data: bytes, versions: Mapping[int, tuple[int, int]]) -> bool | None:
    """Return whether the first byte starts a request with a client ID; None if more bytes are needed to decide."""
    known, _ = highest(versions)
    grade = judge_request(data, 0, known, known, Limits().max_request_size)
    return None if grade < 0 else grade == STRONG


def _correlation_ids(data: bytes, at: int, limits: Limits) -> list[int]:
    """Return the correlation IDs of the consecutive frames from `at` on."""
    ids: list[int] = []
    while at + RESPONSE_START.size <= len(data) and len(ids) < _MAX_FRAMES:
        size, correlation_id = RESPONSE_START.unpack_from(data, at)
        if not MIN_RESPONSE <= size <= limits.max_response_size:
            return ids if len(ids) > 1 else []
        ids.append(correlation_id)
        at += SIZE_BYTES + size
    return ids
