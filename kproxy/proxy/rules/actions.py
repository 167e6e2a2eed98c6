"""Fault actions: one class for each, with everything about it.

A class defines the syntax of its action, what it does to a frame, its documentation and its completion. Defining it
adds it to :data:`ACTIONS`, from which parser, completion, help and docs/faults.md are made.

Offsets and lengths count from the first byte of the frame, its size field included, as everywhere in kproxy.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import ClassVar, NamedTuple, Self

from captures.filters import values
from captures.filters.errors import did_you_mean
from captures.interventions import Change
from dissectors.apis import api
from dissectors.error_codes import BY_NAME, ErrorCode, error_name
from dissectors.headers import (
    request_body_start,
    request_header_version,
    response_body_start,
    response_header_version,
)
from kproxy.proxy.framing import SIZE_BYTES
from kproxy.proxy.rules import edits
from kproxy.proxy.rules.answers import error_response, with_error
from kproxy.proxy.rules.arguments import Argument, bytes_text, duration_text
from kproxy.proxy.rules.errors import AnswerError
from kproxy.proxy.verdicts import Frame, Then, Verdict

_CORRELATION_ID_END = {"request": 12, "response": 8}
_P99 = 2.3263478740408408  # of the standard normal distribution: statistics.NormalDist().inv_cdf(0.99)
_CALL = re.compile(r"([A-Za-z]+)\s*\((.*)\)", re.DOTALL)
_INT16 = range(-(1 << 15), 1 << 15)
LONGEST_DELAY = 3600 * 1_000_000_000
"""ns; a distribution with a long tail is cut off here."""

ACTIONS: dict[str, type[Action]] = {}
"""All actions by name, in the order in which they are documented."""


class ActionResult(NamedTuple):
    """What becomes of a frame.

    :ivar words: what was done to it: ``delayed by 200ms``
    :ivar changed: values that were replaced
    """

    verdict: Verdict
    words: str
    changed: tuple[Change, ...] = ()


class Action(ABC):
    """What a rule does to a frame. ``str()`` of an action is how it is written in a rule.

    :cvar name: the first word of the action, in lower case
    :cvar forms: what may follow the name, by example -> what then happens to the frame
    """

    __slots__ = ()
    name: ClassVar[str]
    forms: ClassVar[Mapping[str, str]]

    def __init_subclass__(cls) -> None:
        ACTIONS[cls.name] = cls

    def __str__(self) -> str:
        return self.name

    @classmethod
    def read(cls, argument: Argument) -> Self:
        """Return the action with what stands behind its name, which is nothing unless a class says otherwise.

        :raises FilterError: at what makes no sense
        """
        if argument.text:
            raise argument.error(f"{cls.name} takes nothing behind it")
        return cls()

    @classmethod
    def offers(cls) -> Mapping[str, str]:
        """Return what completion offers behind the name, with a line about each."""
        return {}

    @abstractmethod
    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        """Return what becomes of a frame.

        :raises AnswerError: if it cannot be done to this frame, which then continues as it is
        """


# ---------------------------------------------------------------- time
class Distribution(ABC):
    """How long delays are, in ns.

    :cvar example: one as it is written
    :cvar meaning: the delay, in words
    """

    __slots__ = ()
    example: ClassVar[str]
    meaning: ClassVar[str]

    def __str__(self) -> str:
        given = ", ".join(duration_text(getattr(self, each.name)) for each in fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__.lower()}({given})"

    @abstractmethod
    def draw(self, chance: Random) -> float:
        """Return one delay; it may come out negative, which means none."""


@dataclass(frozen=True, slots=True)
class ConstantDelay(Distribution):
    """Always the same delay."""

    value: int
    example = "200ms"
    meaning = "it waits, and what follows it in its direction of the connection waits behind it"

    def __str__(self) -> str:
        return duration_text(self.value)

    def draw(self, chance: Random) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    """Any delay between two bounds."""

    low: int
    high: int
    example = "100ms..500ms"
    meaning = "any time between the two"

    def __str__(self) -> str:
        return f"{duration_text(self.low)}..{duration_text(self.high)}"

    def draw(self, chance: Random) -> float:
        return chance.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Normal(Distribution):
    """The normal distribution; a negative delay is none."""

    mean: int
    deviation: int
    example = "normal(200ms, 50ms)"
    meaning = "normal distribution: mean, standard deviation; never less than nothing"

    def draw(self, chance: Random) -> float:
        return chance.gauss(self.mean, self.deviation)


@dataclass(frozen=True, slots=True)
class Exponential(Distribution):
    """The exponential distribution: waiting for something that comes at random."""

    mean: int
    example = "exponential(50ms)"
    meaning = "exponential distribution: mean"

    def draw(self, chance: Random) -> float:
        return chance.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class LogNormal(Distribution):
    """The log-normal distribution, as latencies tend to be: half are shorter than the median, 1% longer than p99."""

    median: int
    p99: int
    example = "lognormal(20ms, 300ms)"
    meaning = "log-normal, as latencies tend to be: median and 99th percentile"

    def draw(self, chance: Random) -> float:
        return chance.lognormvariate(math.log(self.median), math.log(self.p99 / self.median) / _P99)


_CALLS: dict[str, type[Normal | Exponential | LogNormal]] = {
    each.__name__.lower(): each for each in (Normal, Exponential, LogNormal)
}


def _possible(argument: Argument) -> int:
    """Return a duration that a delay may have.

    :raises RuleError: if it is longer, or none
    """
    found = argument.duration()
    if found > LONGEST_DELAY:
        raise argument.error(f"a delay is at most {duration_text(LONGEST_DELAY)}")
    return found


def _distribution(argument: Argument) -> Distribution:
    call = _CALL.fullmatch(argument.text)
    if call is None:
        low, dots, high = argument.text.partition("..")
        if not dots:
            return ConstantDelay(_possible(argument))
        first, last = argument.part(0, len(low)).duration(), _possible(argument.part(len(low) + 2))
        if last < first:
            raise argument.error("the end of the range is before its beginning", f"write {high}..{low}")
        return Uniform(first, last)
    name = call[1].lower()
    made = _CALLS.get(name)
    if made is None:
        hint = did_you_mean(call[1], _CALLS) or f"there are {', '.join(_CALLS)}"
        raise argument.part(0, call.end(1)).error(f"there is no distribution {call[1]}", hint)
    inside = argument.part(*call.span(2))
    pieces, meanings = inside.split(), [each.name for each in fields(made)]
    if len(pieces) != len(meanings):
        hint = f"write {name}({', '.join(meanings)})"
        raise inside.error(f"{call[1]} takes {' and '.join(meanings)}", hint)
    drawn = [_possible(piece) for piece in pieces]
    # a deviation of 0 is a fixed delay; a mean or a median of 0 has no distribution
    if not drawn[0]:
        raise pieces[0].error(f"the {meanings[0]} must be above 0")
    if made is LogNormal and drawn[1] <= drawn[0]:
        raise pieces[1].error("p99 must be above the median")
    return made(*drawn)


@dataclass(frozen=True, slots=True)
class Delay(Action):
    """The frame waits, and all that follows it in its direction of the connection waits behind it."""

    by: Distribution
    name = "delay"
    forms: ClassVar[Mapping[str, str]] = {
        each.example: each.meaning for each in (ConstantDelay, Uniform, Normal, Exponential, LogNormal)
    }

    def __str__(self) -> str:
        return f"{self.name} {self.by}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        if not argument.text:
            raise argument.error("how long is missing after delay", f"such as {', '.join(cls.forms)}")
        return cls(_distribution(argument))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        delay = min(max(round(self.by.draw(chance)), 0), LONGEST_DELAY)
        return ActionResult(Verdict(delay=delay), f"delayed by {duration_text(delay - delay % 1000)}")


@dataclass(frozen=True, slots=True)
class Throttle(Action):
    """The frame is sent piece by piece.

    :ivar rate: bytes a second
    """

    rate: int
    name = "throttle"
    forms: ClassVar[Mapping[str, str]] = {"100kB/s": "it is sent at this rate"}

    def __str__(self) -> str:
        return f"{self.name} {bytes_text(self.rate)}/s"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        rate, slash, per = argument.text.partition("/")
        size = values.size("".join(rate.split()))
        if not slash or per.strip() != "s" or size is None or size < 1:
            raise argument.error(f"{argument.text!r} is not a bandwidth", "such as 100kB/s, 1.5MiB/s")
        return cls(int(size))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(rate=float(self.rate)), f"throttled to {bytes_text(self.rate)}/s")


# ---------------------------------------------------------------- answers
@dataclass(frozen=True, slots=True)
class Error(Action):
    """A request is answered with an error, and the broker never sees it; a response has the error put in.

    A Produce with acks=0 has no answer; brokers close the connection where such a one fails, and so does this.
    """

    code: int
    name = "error"
    forms: ClassVar[Mapping[str, str]] = {
        "NOT_LEADER_OR_FOLLOWER": "a request is answered with this error, the broker never sees it; "
        "a response has the error put in",
        "6": "the same, by the error's number",
    }

    def __str__(self) -> str:
        named = error_name(self.code)
        return f"{self.name} {self.code if named.startswith('UNKNOWN_CODE_') else named}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        known = BY_NAME.get(argument.text.upper())
        number = values.number(argument.text)
        if known is None and (number is None or number.denominator != 1 or int(number) not in _INT16):
            hint = did_you_mean(argument.text, BY_NAME) or f"such as {', '.join(cls.forms)}"
            what = f"there is no error {argument.text}" if argument.text else "which error is missing"
            raise argument.error(what, hint)
        code = int(known) if known is not None else int(number or 0)
        if not code:
            raise argument.error("0 is not an error")
        return cls(code)

    @classmethod
    def offers(cls) -> Mapping[str, str]:
        return {error.name: error.advice for error in ErrorCode if error}

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        said = error_name(self.code)
        if frame.side == "response":
            data = with_error(frame.data, frame.api_key, frame.version, self.code)
            return ActionResult(Verdict(data=data), f"{said} put in", edits.differences(frame, data))
        answer = error_response(frame.data, self.code)
        if answer is None:
            verdict = Verdict(data=b"", then=Then.CLOSE)
            return ActionResult(verdict, f"not sent on, connection closed: how {said} shows with acks=0")
        return ActionResult(Verdict(data=b"", answer=answer), f"answered with {said}")


# ---------------------------------------------------------------- the connection
@dataclass(frozen=True, slots=True)
class Drop(Action):
    """The connection is closed instead of the frame."""

    name = "drop"
    forms: ClassVar[Mapping[str, str]] = {"": "the connection is closed in its place"}

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(data=b"", then=Then.CLOSE), "not sent on, connection closed")


@dataclass(frozen=True, slots=True)
class Reset(Action):
    """The connection is reset instead of the frame."""

    name = "reset"
    forms: ClassVar[Mapping[str, str]] = {"": "the connection is reset (RST) in its place"}

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(data=b"", then=Then.RESET), "not sent on, connection reset")


@dataclass(frozen=True, slots=True)
class Blackhole(Action):
    """From this frame on nothing continues in either direction, and nothing is closed."""

    name = "blackhole"
    forms: ClassVar[Mapping[str, str]] = {
        "": "from then on, forward nothing in either direction, and close nothing"
    }

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(data=b"", then=Then.SWALLOW), "swallowed, with all that follows")


# ---------------------------------------------------------------- bytes
@dataclass(frozen=True, slots=True)
class Truncate(Action):
    """Only the first bytes are sent, then the connection is closed."""

    length: int
    name = "truncate"
    forms: ClassVar[Mapping[str, str]] = {
        "100": "its first 100 bytes are sent, then the connection is closed"
    }

    def __str__(self) -> str:
        return f"{self.name} {self.length}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        return cls(argument.byte_count("how many bytes are sent"))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        sent = min(self.length, len(frame.data))
        verdict = Verdict(data=frame.data[:sent], then=Then.CLOSE)
        return ActionResult(verdict, f"truncated to {sent} of {len(frame.data)} bytes, connection closed")


@dataclass(frozen=True, slots=True)
class Corrupt(Action):
    """One byte is changed.

    :ivar offset: which, None for any behind the header
    """

    offset: int | None = None
    name = "corrupt"
    forms: ClassVar[Mapping[str, str]] = {
        "": "one byte is changed, any behind the header",
        "17": "the byte at this offset is changed",
    }

    def __str__(self) -> str:
        return self.name if self.offset is None else f"{self.name} {self.offset}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        return cls(argument.byte_count("the offset") if argument.text else None)

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
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
        return ActionResult(Verdict(data=bytes(data)), words)


def _body_start(frame: Frame) -> int:
    """Offset of the first byte of the body; behind the correlation ID where the header cannot be read."""
    known, start = api(frame.api_key), None
    payload = frame.data[SIZE_BYTES:]
    if known is not None and frame.side == "request":
        version = request_header_version(known.request, frame.version)
        start = request_body_start(payload, version)
    elif known is not None:
        start = response_body_start(payload, response_header_version(known.response, frame.version))
    return _CORRELATION_ID_END[frame.side] if start is None else start + SIZE_BYTES
