"""What a comparison says: differences, how large and how sure they are, and examples of both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from captures.json_objects import OrNull, Rounded, Time


class Aspect(StrEnum):
    """What differs. The words are stable."""

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
    """What there was on one side.

    :ivar text: in words, with figures
    :ivar value: a rate in 1/s, a time in ns, or None where it is no number
    :ivar count: what it rests on: exchanges, errors, rebalances
    :ivar low: bound of the value at 99.9 %; None if there is none
    :ivar high: likewise
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
    """One thing that differs.

    :ivar subject: what it is about, such as ``Produce`` or ``group orders``
    :ivar what: which of its figures, such as ``p95`` or ``requests``
    :ivar sentence: in plain words
    :ivar ratio: bad to good, as measured; None where it is no number, or one of them is 0
    :ivar sure: at least so many times (or at most, if below 1), at 99.9 %; 1 if it may be none;
        None where it is no number
    :ivar certain: whether the data prove it; if not, it is listed after the others
    :ivar score: what they are sorted by: the size of the sure difference, by its weight (``docs/diff.md``)
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

    :ivar label: what it is called
    :ivar first: ns since the epoch, where it begins; None if there is nothing
    :ivar seconds: how long it goes on; 0 if it is one moment
    """

    label: str
    first: Time | None
    last: OrNull[Time]
    seconds: float
    exchanges: int
    clients: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that differs.

    :ivar sentence: the summary of it
    :ivar differences: the largest first; those that the data do not prove at the end
    :ivar notes: what limits it, such as little data
    """

    JSON = "sentence good bad notes differences"

    good: SideFacts
    bad: SideFacts
    sentence: str
    differences: list[Difference]
    notes: list[str] = field(default_factory=list)
