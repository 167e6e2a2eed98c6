"""Differences of rates: requests by API, errors, requests without an answer, rebalances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from captures.analysis.comparison.model import Aspect, Difference, SideValue
from captures.analysis.comparison.side import ErrorKind, Side
from captures.analysis.comparison.time_slices import Key, TimeSlicedCounts
from captures.analysis.comparison.uncertainty import Interval, dispersion, rate_ratio, share_interval
from captures.meaning import words

NOTABLE = 2.0
"""Ratio from which on an unproven difference is reported."""
_LEAST_COUNT = 3
"""Unproven differences with smaller counts are not reported."""
_SMALL_SHARE = 0.05
"""Share of all requests per second: a difference of that size has half its weight."""
_ZERO = 0.5
"""Stands for a count of 0 in a ratio that is shown or weighted."""
_ERROR_WEIGHT, _EXPECTED_WEIGHT, _UNANSWERED_WEIGHT = 2.0, 0.3, 1.5


@dataclass(frozen=True, slots=True)
class EventCount:
    """Number of events on one side.

    :ivar slices: their distribution over time
    """

    total: int
    seconds: float
    slices: list[int]
    examples: tuple[int, ...]

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.total / self.seconds

    @property
    def spread(self) -> float:
        """Dispersion in comparison with a Poisson process."""
        return dispersion(self.slices)

    def shown(self, noun: str, plural: str = "") -> SideValue:
        """Return it in words, with the interval of its rate."""
        worth = self.total / self.spread
        # a Poisson count is a share of a very long time
        low, high = _poisson(worth)
        factor = self.spread / self.seconds
        return SideValue(
            f"{words.counted(self.total, noun, plural)}, {rate(self.rate)}",
            value=self.rate,
            count=self.total,
            low=low * factor,
            high=high * factor,
            examples=self.examples,
        )


def counted(side: Side, rhythm: TimeSlicedCounts[Key], key: Key) -> EventCount:
    """Return the number of events of a side."""
    return EventCount(rhythm.total(key), side.seconds, rhythm.slices(key), rhythm.examples(key))


def ratio_of(good: EventCount, bad: EventCount) -> Interval:
    """Return the interval of the ratio of two rates, bad to good."""
    spread = max(good.spread, bad.spread)
    return rate_ratio(good.total, good.seconds, bad.total, bad.seconds, spread)


def rate(per_second: float, beside: float = 0.0) -> str:
    """Return a rate as text: ``12/s``, ``3.5/min``.

    :param beside: a rate it is compared with, which determines the unit if it is larger
    """
    largest = max(per_second, beside)
    factor, unit = next(
        ((factor, unit) for factor, unit in ((1, "s"), (60, "min")) if largest * factor >= 1), (3600, "h")
    )
    value = per_second * factor
    return f"{value:,.0f}/{unit}" if value >= 999.5 else f"{value:.3g}/{unit}"


def times(ratio: float) -> str:
    """Return a ratio as the number of times more or less."""
    value = ratio if ratio >= 1 else 1 / ratio
    return f"{value:.2f}" if value < 1.95 else f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def compare(
    good: EventCount,
    bad: EventCount,
    *,
    aspect: Aspect,
    subject: str,
    what: str,
    noun: tuple[str, str],
    weight: Callable[[float], float],
) -> Difference | None:
    """Compare two rates; return None if they do not differ, or not notably.

    :param noun: singular and plural of the events
    :param weight: returns the weight of a difference of rates in 1/s
    """
    if not (good.seconds and bad.seconds) or not (good.total or bad.total):
        return None
    sure = ratio_of(good, bad).sure
    certain = sure != 1.0
    measured = (max(bad.total, _ZERO) / bad.seconds) / (max(good.total, _ZERO) / good.seconds)
    if not certain and (
        abs(math.log(measured)) < math.log(NOTABLE) or max(good.total, bad.total) < _LEAST_COUNT
    ):
        return None
    return Difference(
        aspect=aspect,
        subject=subject,
        what=what,
        sentence=_sentence(subject, noun[1], good, bad, sure),
        good=good.shown(*noun),
        bad=bad.shown(*noun),
        ratio=measured if good.total and bad.total else None,
        sure=sure,
        certain=certain,
        score=abs(math.log2(sure if certain else measured)) * weight(abs(bad.rate - good.rate)),
    )


def _sentence(subject: str, plural: str, good: EventCount, bad: EventCount, sure: float) -> str:
    if not good.total:
        text = f"{subject}: {plural} in bad only, {rate(bad.rate)}"
    elif not bad.total:
        text = f"{subject}: {plural} in good only, {rate(good.rate)}"
    else:
        more = "more" if bad.rate > good.rate else "fewer"
        ratio = times(bad.rate / good.rate)
        both = f"{rate(good.rate, bad.rate)} in good and {rate(bad.rate, good.rate)} in bad"
        text = f"{subject}: {ratio} times {more} {plural} a second, {both}"
    return f"{text}{proof(sure)}"


def proof(sure: float) -> str:
    """Return a clause about the certainty of a ratio."""
    if sure == 1.0:
        return "; too little data to be sure"
    return "" if math.isinf(sure) or not sure else f" (at least {times(sure)} times, at 99.9 %)"


def rate_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the differences of requests, errors, and requests without an answer."""
    total = max(
        _per_second(sum(side.requests.total(api) for api in side.requests.kinds()), side)
        for side in (good, bad)
    )
    found = [
        *(
            _of_requests(good, bad, api, total)
            for api in sorted(good.requests.kinds() | bad.requests.kinds())
        ),
        *(_of_errors(good, bad, kind) for kind in _sorted(good.errors.kinds() | bad.errors.kinds())),
        *(_of_unanswered(good, bad, api) for api in sorted(good.unanswered.kinds() | bad.unanswered.kinds())),
    ]
    return [each for each in found if each is not None]


def _of_requests(good: Side, bad: Side, api: str, total: float) -> Difference | None:
    return compare(
        counted(good, good.requests, api),
        counted(bad, bad.requests, api),
        aspect=Aspect.RATES,
        subject=api,
        what="requests",
        noun=("request", "requests"),
        weight=lambda size: size / (size + _SMALL_SHARE * total) if size else 0.0,
    )


def _of_errors(good: Side, bad: Side, kind: ErrorKind) -> Difference | None:
    return compare(
        counted(good, good.errors, kind),
        counted(bad, bad.errors, kind),
        aspect=Aspect.ERRORS,
        subject=f"{kind.name} of {kind.api}",
        what="expected_errors" if kind.expected else "errors",
        noun=("response", "responses"),
        weight=lambda _: _EXPECTED_WEIGHT if kind.expected else _ERROR_WEIGHT,
    )


def _of_unanswered(good: Side, bad: Side, api: str) -> Difference | None:
    return compare(
        counted(good, good.unanswered, api),
        counted(bad, bad.unanswered, api),
        aspect=Aspect.ERRORS,
        subject=f"{api} without an answer",
        what="unanswered",
        noun=("request", "requests"),
        weight=lambda _: _UNANSWERED_WEIGHT,
    )


def _sorted(kinds: set[ErrorKind]) -> list[ErrorKind]:
    return sorted(kinds, key=lambda kind: (kind.api, kind.name, kind.expected))


def _per_second(count: int, side: Side) -> float:
    return count / side.seconds if side.seconds else 0.0


_LONG = 1e9


def _poisson(count: float) -> tuple[float, float]:
    """Return the interval of a Poisson count (Garwood 1936): the limit of binomial ones with many trials."""
    share = share_interval(count, _LONG)
    return share.low * _LONG, share.high * _LONG
