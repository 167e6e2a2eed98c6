"""What a rule does to a frame: one class for each kind of fault.

An action is told a frame and a source of chance; it says what the session is to do, and what that was in words. It
raises :class:`~kproxy.proxy.rules.errors.AnswerError` where it cannot be done to this frame, which then goes on as it
is. ``str()`` of an action is how it is written in a rule.

Offsets and lengths count from the first byte of the frame, its size field included, as everywhere in kproxy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import ClassVar, NamedTuple, Protocol

from captures.interventions import Change
from dissectors.apis import api
from dissectors.error_codes import error_name
from dissectors.headers import (
    request_body_start,
    request_header_version,
    response_body_start,
    response_header_version,
)
from kproxy.proxy.rules import editing
from kproxy.proxy.rules.answers import error_response, with_error
from kproxy.proxy.rules.errors import AnswerError
from kproxy.proxy.rules.units import bytes_text, duration_text
from kproxy.proxy.verdicts import Frame, Then, Verdict

_SIZE_BYTES = 4
_CORRELATION_ID_END = {"request": 12, "response": 8}
_P99 = 2.3263478740408408  # of the standard normal distribution: statistics.NormalDist().inv_cdf(0.99)
LONGEST_DELAY = 3600 * 1_000_000_000
"""ns; a distribution with a long tail is cut off here."""


class Applied(NamedTuple):
    """What becomes of a frame.

    :ivar words: what was done to it: ``delayed by 200ms``
    :ivar changed: values that were replaced
    """

    verdict: Verdict
    words: str
    changed: tuple[Change, ...] = ()


class Action(Protocol):
    """What a rule does."""

    name: ClassVar[str]

    def apply(self, frame: Frame, chance: Random) -> Applied:
        """Return what becomes of a frame.

        :raises AnswerError: if it cannot be done to this one
        """


# ---------------------------------------------------------------- time
class Distribution(Protocol):
    """How long delays are, in ns."""

    def draw(self, chance: Random) -> float:
        """Return one delay; it may come out negative, which means none."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    value: int

    def __str__(self) -> str:
        return duration_text(self.value)

    def draw(self, chance: Random) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Anything between two bounds."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{duration_text(self.low)}..{duration_text(self.high)}"

    def draw(self, chance: Random) -> float:
        return chance.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Normal:
    """The normal distribution; what would be less than nothing is no delay."""

    mean: int
    deviation: int

    def __str__(self) -> str:
        return f"normal({duration_text(self.mean)}, {duration_text(self.deviation)})"

    def draw(self, chance: Random) -> float:
        return chance.gauss(self.mean, self.deviation)


@dataclass(frozen=True, slots=True)
class Exponential:
    """The exponential distribution: waiting for something that comes at random."""

    mean: int

    def __str__(self) -> str:
        return f"exponential({duration_text(self.mean)})"

    def draw(self, chance: Random) -> float:
        return chance.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """The log-normal distribution, as latencies tend to be: half are shorter than the median, 1% longer than p99."""

    median: int
    p99: int

    def __str__(self) -> str:
        return f"lognormal({duration_text(self.median)}, {duration_text(self.p99)})"

    def draw(self, chance: Random) -> float:
        return chance.lognormvariate(math.log(self.median), math.log(self.p99 / self.median) / _P99)


@dataclass(frozen=True, slots=True)
class Delay:
    """The frame waits, and all that follows it in its direction of the connection waits behind it."""

    by: Distribution
    name: ClassVar[str] = "delay"

    def __str__(self) -> str:
        return f"{self.name} {self.by}"

    def apply(self, frame: Frame, chance: Random) -> Applied:
        delay = min(max(round(self.by.draw(chance)), 0), LONGEST_DELAY)
        return Applied(Verdict(delay=delay), f"delayed by {duration_text(delay - delay % 1000)}")


@dataclass(frozen=True, slots=True)
class Throttle:
    """The frame is sent piece by piece.

    :ivar rate: bytes a second
    """

    rate: int
    name: ClassVar[str] = "throttle"

    def __str__(self) -> str:
        return f"{self.name} {bytes_text(self.rate)}/s"

    def apply(self, frame: Frame, chance: Random) -> Applied:
        return Applied(Verdict(rate=float(self.rate)), f"throttled to {bytes_text(self.rate)}/s")


# ---------------------------------------------------------------- the connection
@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed in place of the frame."""

    name: ClassVar[str] = "drop"

    def __str__(self) -> str:
        return self.name

    def apply(self, frame: Frame, chance: Random) -> Applied:
        return Applied(Verdict(data=b"", then=Then.CLOSE), "not sent on, connection closed")


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset in place of the frame."""

    name: ClassVar[str] = "reset"

    def __str__(self) -> str:
        return self.name

    def apply(self, frame: Frame, chance: Random) -> Applied:
        return Applied(Verdict(data=b"", then=Then.RESET), "not sent on, connection reset")


@dataclass(frozen=True, slots=True)
class Blackhole:
    """From this frame on nothing goes on in either direction, and nothing is closed."""

    name: ClassVar[str] = "blackhole"

    def __str__(self) -> str:
        return self.name

    def apply(self, frame: Frame, chance: Random) -> Applied:
        return Applied(Verdict(data=b"", then=Then.SWALLOW), "swallowed, with all that follows")


# ---------------------------------------------------------------- bytes
@dataclass(frozen=True, slots=True)
class Truncate:
    """Only the first bytes are sent, then the connection is closed."""

    length: int
    name: ClassVar[str] = "truncate"

    def __str__(self) -> str:
        return f"{self.name} {self.length}"

    def apply(self, frame: Frame, chance: Random) -> Applied:
        sent = min(self.length, len(frame.data))
        verdict = Verdict(data=frame.data[:sent], then=Then.CLOSE)
        return Applied(verdict, f"truncated to {sent} of {len(frame.data)} bytes, connection closed")


@dataclass(frozen=True, slots=True)
class Corrupt:
    """One byte is changed.

    :ivar offset: which, None for any behind the header
    """

    offset: int | None = None
    name: ClassVar[str] = "corrupt"

    def __str__(self) -> str:
        return self.name if self.offset is None else f"{self.name} {self.offset}"

    def apply(self, frame: Frame, chance: Random) -> Applied:
        at = self.offset
        if at is None:
            start = min(_body_start(frame), len(frame.data) - 1)
            at = chance.randrange(start, len(frame.data))
        if at >= len(frame.data):
            raise AnswerError(f"there is no offset {at} in a frame of {len(frame.data)} bytes")
        data = bytearray(frame.data)
        before = data[at]
        data[at] ^= chance.randrange(1, 256)
        words = f"byte at offset {at} changed from 0x{before:02x} to 0x{data[at]:02x}"
        return Applied(Verdict(data=bytes(data)), words)


def _body_start(frame: Frame) -> int:
    """Offset of the first byte of the body; behind the correlation ID where the header cannot be read."""
    known, start = api(frame.api_key), None
    payload = frame.data[_SIZE_BYTES:]
    if known is not None and frame.side == "request":
        version = request_header_version(known.request, frame.version)
        start = request_body_start(payload, version)
    elif known is not None:
        start = response_body_start(payload, response_header_version(known.response, frame.version))
    return _CORRELATION_ID_END[frame.side] if start is None else start + _SIZE_BYTES


# ---------------------------------------------------------------- answers
@dataclass(frozen=True, slots=True)
class Error:
    """A request is answered with an error, and the broker never sees it; a response has the error put in.

    A Produce with acks=0 has no answer; brokers close the connection where such a one fails, and so does this.
    """

    code: int
    name: ClassVar[str] = "error"

    def __str__(self) -> str:
        named = error_name(self.code)
        return f"{self.name} {self.code if named.startswith('UNKNOWN_CODE_') else named}"

    def apply(self, frame: Frame, chance: Random) -> Applied:
        said = error_name(self.code)
        if frame.side == "response":
            data = with_error(frame.data, frame.api_key, frame.version, self.code)
            return Applied(Verdict(data=data), f"{said} put in", editing.differences(frame, data))
        answer = error_response(frame.data, self.code)
        if answer is None:
            verdict = Verdict(data=b"", then=Then.CLOSE)
            return Applied(verdict, f"not sent on, connection closed: how {said} shows with acks=0")
        return Applied(Verdict(data=b"", answer=answer), f"answered with {said}")
