"""Distributions of delays, as rules write them."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from random import Random
from typing import ClassVar

from captures.filters.errors import did_you_mean
from kproxy.proxy.rules.arguments import Argument, duration_text

_P99 = 2.3263478740408408  # of the standard normal distribution: statistics.NormalDist().inv_cdf(0.99)
_CALL = re.compile(r"([A-Za-z]+)\s*\((.*)\)", re.DOTALL)
LONGEST_DELAY = 3600 * 1_000_000_000
"""ns; longer delays are cut to this, because distributions may have a long tail."""


class Distribution(ABC):
    """A distribution of delays in ns.

    :cvar example: one as written in a rule
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
        """Return one delay; a negative one means no delay."""


@dataclass(frozen=True, slots=True)
class ConstantDelay(Distribution):
    """A constant delay."""

    value: int
    example = "200ms"
    meaning = "it waits, and everything after it in its direction of the connection waits too"

    def __str__(self) -> str:
        return duration_text(self.value)

    def draw(self, chance: Random) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    """The uniform distribution between two bounds."""

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
    """The normal distribution; negative values mean no delay."""

    mean: int
    deviation: int
    example = "normal(200ms, 50ms)"
    meaning = "normal distribution: mean, standard deviation; never less than nothing"

    def draw(self, chance: Random) -> float:
        return chance.gauss(self.mean, self.deviation)


@dataclass(frozen=True, slots=True)
class Exponential(Distribution):
    """The exponential distribution: the wait for a random event."""

    mean: int
    example = "exponential(50ms)"
    meaning = "exponential distribution: mean"

    def draw(self, chance: Random) -> float:
        return chance.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class LogNormal(Distribution):
    """The log-normal distribution, typical of latencies: half are shorter than the median, 1% longer than p99."""

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
    """Return the duration of a delay.

    :raises FilterError: if it exceeds the limit, or is not a duration
    """
    found = argument.duration()
    if found > LONGEST_DELAY:
        raise argument.error(f"a delay is at most {duration_text(LONGEST_DELAY)}")
    return found


def distribution(argument: Argument) -> Distribution:
    """Parse a distribution.

    :raises FilterError: if it is invalid
    """
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
    # a deviation of 0 is a fixed delay; a mean or a median of 0 is undefined
    if not drawn[0]:
        raise pieces[0].error(f"the {meanings[0]} must be above 0")
    if made is LogNormal and drawn[1] <= drawn[0]:
        raise pieces[1].error("p99 must be above the median")
    return made(*drawn)
