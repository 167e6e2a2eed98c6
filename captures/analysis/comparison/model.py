"""Results of a comparison: differences with size and certainty, and examples of both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from captures.json_objects import OrNull, Rounded, Time


class Aspect(StrEnum):
    """The subject of a difference. The words are stable."""

    FINDINGS = "findings"
    ERRORS = "errors"
    LATENCY = "latency"
    REBALANCES = "rebalances"
    CLIENTS = "clients"
    SETTINGS = "settings"
    VERSIONS = "versions"
    RATES = "rates"


@dataclass(frozen=True, slots=True)
class SideValue:
    """The value of one side.

    :ivar text: in words, with figures
    :ivar value: a rate in 1/s, a time in ns, or None if it is not a number
    :ivar count: number of its exchanges, errors, or rebalances
    :ivar low: lower bound of the value at 99.9 %; None if there is none
    :ivar high: upper bound of the value at 99.9 %; None if there is none
    :ivar examples: numbers of exchanges that show it
    """

    text: str
    value: float | None = None
    count: int = 0
    low: float | None = None
    high: float | None = None
    examples: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One difference.

    :ivar subject: its subject, such as ``Produce`` or ``group orders``
    :ivar what: figure of the subject, such as ``p95`` or ``requests``
    :ivar sentence: in plain words
    :ivar ratio: bad to good, as measured; None if there is no number, or one of them is 0
    :ivar sure: ratio of at least so many times (or at most, if below 1), at 99.9 %; 1 if there may be no difference;
        None if there is no number
    :ivar certain: whether the data prove it; otherwise it is listed after the others
    :ivar score: sort key: the size of the certain difference, multiplied by its weight (``docs/diff.md``)
    """

    JSON = "aspect subject what sentence certain ratio sure_ratio=sure score good bad"

    aspect: Aspect
    subject: str
    what: str
    sentence: str
    good: SideValue
    bad: SideValue
    score: Rounded
    ratio: float | None = None
    sure: float | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class SideFacts:
    """One side as a whole.

    :ivar label: its label
    :ivar first: its start, ns since the epoch; None if it is empty
    :ivar seconds: its duration; 0 if it has only one moment
    """

    label: str
    first: Time | None
    last: OrNull[Time]
    seconds: float
    exchanges: int
    clients: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences.

    :ivar sentence: summary
    :ivar differences: the largest first; unproven ones at the end
    :ivar notes: limitations, such as little data
    """

    JSON = "sentence good bad notes differences"

    good: SideFacts
    bad: SideFacts
    sentence: str
    differences: list[Difference]
    notes: list[str] = field(default_factory=list)
