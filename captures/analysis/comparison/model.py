"""What a comparison says: differences, how large and how sure they are, and examples of both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from captures.exchanges import rfc3339


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
class Shown:
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

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/diff.md``."""
        return {
            "text": self.text,
            "value": self.value,
            "count": self.count,
            "low": self.low,
            "high": self.high,
            "examples": list(self.examples),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs.

    :ivar subject: what it is about, such as ``Produce`` or ``group orders``
    :ivar what: which of its figures, such as ``p95`` or ``requests``
    :ivar sentence: in plain words
    :ivar ratio: bad to good, as measured; None where it is no number, or one of them is 0
    :ivar sure: at least so many times (or at most, if below 1), at 99.9 %; 1 if it may be none;
        None where it is no number
    :ivar certain: whether the data prove it; if not, it is told after the others
    :ivar score: what they are sorted by: the size of the sure difference, by its weight (``docs/diff.md``)
    """

    aspect: Aspect
    subject: str
    what: str
    sentence: str
    good: Shown
    bad: Shown
    score: float
    ratio: float | None = None
    sure: float | None = None
    certain: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/diff.md``."""
        return {
            "aspect": self.aspect,
            "subject": self.subject,
            "what": self.what,
            "sentence": self.sentence,
            "certain": self.certain,
            "ratio": self.ratio,
            "sure_ratio": self.sure,
            "score": round(self.score, 3),
            "good": self.good.to_json(),
            "bad": self.bad.to_json(),
        }


@dataclass(frozen=True, slots=True)
class SideFacts:
    """One side as a whole.

    :ivar label: what it is called
    :ivar first: ns since the epoch, where it begins; None if there is nothing
    :ivar seconds: how long it goes on; 0 if it is one moment
    """

    label: str
    first: int | None
    last: int
    seconds: float
    exchanges: int
    clients: int

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/diff.md``."""
        there = self.first is not None
        return {
            "label": self.label,
            "first": rfc3339(self.first) if self.first is not None else None,
            "last": rfc3339(self.last) if there else None,
            "seconds": self.seconds,
            "exchanges": self.exchanges,
            "clients": self.clients,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that differs.

    :ivar sentence: the gist of it
    :ivar differences: the largest first; those that the data do not prove at the end
    :ivar notes: what limits it, such as little data
    """

    good: SideFacts
    bad: SideFacts
    sentence: str
    differences: list[Difference]
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the shape documented in ``docs/diff.md``."""
        return {
            "sentence": self.sentence,
            "good": self.good.to_json(),
            "bad": self.bad.to_json(),
            "notes": self.notes,
            "differences": [each.to_json() for each in self.differences],
        }
