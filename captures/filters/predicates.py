"""Tests of one value, in the two forms that the compilers need.

A :class:`Predicate` is a Python expression over ``v``, for generated code; :meth:`Predicate.holds` compiles that
expression to a function, for distinct values of a column. Predicates of integers are also unions of closed intervals,
which numpy compares by column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures.arrays import Bools
from captures.filters.nodes import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL
from captures.filters.regex import BytesRegex, TextRegex
from captures.filters.values import Moment

Interval = tuple[int | None, int | None]
"""Lowest and highest matching value, both included; None is unbounded."""

Mask = Bools


@dataclass(frozen=True)
class Predicate:
    """A test of one value.

    :ivar source: expression over ``v`` and ``{0}``, ``{1}`` ... for the constants; never evaluated for None
    :ivar constants: constants of the expression
    :ivar intervals: the same test for integers, if it is one for them; sorted or not
    """

    source: str
    constants: tuple[Any, ...] = ()
    intervals: tuple[Interval, ...] | None = None

    @cached_property
    def holds(self) -> Callable[[Any], bool]:
        """The test as a function."""
        names = [f"k{index}" for index in range(len(self.constants))]
        made: Callable[[Any], bool] = eval(  # noqa: S307  generated source: user input is in the constants
            f"lambda v: bool({self.source.format(*names)})", dict(zip(names, self.constants, strict=True))
        )
        return made

    def intervals_at(self, start: int | None) -> tuple[Interval, ...] | None:
        """Return the intervals, for a capture that starts at ``start``."""
        return self.intervals


@dataclass(frozen=True)
class TimePredicate(Predicate):
    """A test of a time; the intervals of moments are known once the capture is.

    :ivar moments: operator and moment, or ``in`` and the two ends of a range; any may hold
    """

    moments: tuple[tuple[str, Moment, Moment], ...] = ()
    _known: dict[int | None, tuple[Interval, ...]] = field(default_factory=dict, compare=False, repr=False)

    def intervals_at(self, start: int | None) -> tuple[Interval, ...]:
        known = self._known.get(start)
        if known is None:
            made: list[Interval] = []
            for operator, low, high in self.moments:
                if operator == "in":
                    made.append((low.resolve(start), high.resolve(start)))
                else:
                    made.extend(compare(operator, Fraction(low.resolve(start))))
            known = self._known[start] = tuple(made)
        return known

    def fits(self, value: int, start: int | None) -> bool:
        return any(
            (low is None or low <= value) and (high is None or value <= high)
            for low, high in self.intervals_at(start)
        )


def time(moments: Sequence[tuple[str, Moment, Moment]]) -> TimePredicate:
    """Return a test of times."""
    made = TimePredicate("{0}(v, c.start)", (), None, tuple(moments))
    return TimePredicate(made.source, (made.fits,), None, made.moments)


ANY = Predicate("True", (), ((None, None),))
"""Holds for every value."""
NOT_EMPTY = Predicate("v")


# ---------------------------------------------------------------- numbers
def compare(operator: str, value: Fraction) -> list[Interval]:
    """Return the integers for which a comparison holds."""
    match operator:
        case "==":
            return [(int(value), int(value))] if value.denominator == 1 else []
        case "<":
            return [(None, math.ceil(value) - 1)]
        case "<=":
            return [(None, math.floor(value))]
        case ">":
            return [(math.floor(value) + 1, None)]
        case _:
            return [(math.ceil(value), None)]


def integers(intervals: Sequence[Interval]) -> Predicate:
    """Return a test of integers: whether one of the intervals contains them."""
    sources: list[str] = []
    constants: list[int] = []

    def put(end: int) -> str:
        constants.append(end)
        return f"{{{len(constants) - 1}}}"

    for low, high in intervals:
        if low is None and high is None:
            return ANY
        if low is not None and low == high:
            sources.append(f"v == {put(low)}")
        elif low is not None and high is not None:
            sources.append(f"{put(low)} <= v <= {put(high)}")
        elif low is not None:
            sources.append(f"v >= {put(low)}")
        elif high is not None:
            sources.append(f"v <= {put(high)}")
    source = f"({' or '.join(sources)})" if sources else "False"
    return Predicate(source, tuple(constants), tuple(intervals))


def mask(values: NDArray[Any], intervals: Sequence[Interval]) -> Mask:
    """Return a mask of the elements of an integer column that are in one of the intervals."""
    limits = np.iinfo(values.dtype)
    out: Mask | None = None
    for low, high in intervals:
        # numpy does not accept integers outside the column's type
        if (low is not None and low > limits.max) or (high is not None and high < limits.min):
            continue
        above = None if low is None or low <= limits.min else low
        below = None if high is None or high >= limits.max else high
        if above is not None and above == below:
            found: Mask = values == above
        elif above is None and below is None:
            return np.ones(len(values), np.bool_)
        elif above is None:
            found = values <= below
        else:
            found = values >= above
            if below is not None:
                found &= values <= below
        out = found if out is None else out | found
    return np.zeros(len(values), np.bool_) if out is None else out


def scalar(operator: str, value: Fraction) -> tuple[str, int | float]:
    """Return Python's operator and number for a comparison of any number, floats included."""
    assert operator in (EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL)
    return operator, int(value) if value.denominator == 1 else float(value)


# ---------------------------------------------------------------- text and bytes
def equal(value: object) -> Predicate:
    """Return a test of equality."""
    return Predicate("v == {0}", (value,))


def contains(value: str | bytes) -> Predicate:
    """Return a test of containing `value`."""
    return Predicate("{0} in v", (value,))


def matches(pattern: TextRegex | BytesRegex) -> Predicate:
    """Return a test of a match anywhere in the value."""
    return Predicate("{0}(v)", (pattern.found,))


def called(test: Callable[[Any], bool]) -> Predicate:
    """Return a test that calls a function."""
    return Predicate("{0}(v)", (test,))


def either(predicates: Sequence[Predicate]) -> Predicate:
    """Return a test that holds if one of several does; for texts, which have no intervals."""
    if len(predicates) == 1:
        return predicates[0]
    sources: list[str] = []
    constants: list[Any] = []
    for one in predicates:
        sources.append(_shifted(one.source, len(constants), len(one.constants)))
        constants.extend(one.constants)
    return Predicate(f"({' or '.join(sources)})" if sources else "False", tuple(constants))


def both(one: Predicate, other: Predicate) -> Predicate:
    """Return a test that holds if two others do."""
    source = f"({one.source} and {_shifted(other.source, len(one.constants), len(other.constants))})"
    return Predicate(source, one.constants + other.constants)


def guarded(condition: str, inner: Predicate) -> Predicate:
    """Return a test that holds only if a condition over ``v`` does too."""
    return Predicate(f"({condition} and {inner.source})", inner.constants)


def _shifted(source: str, by: int, count: int) -> str:
    return source.format(*(f"{{{by + index}}}" for index in range(count)))
