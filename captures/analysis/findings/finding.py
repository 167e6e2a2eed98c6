"""What a diagnosis says: findings, how grave they are, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np

from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.json_objects import OrNull, Time, Word

MOST_EVIDENCE = 10
"""Exchanges that are named as evidence of a finding: the first ones, and the last."""


class Severity(IntEnum):
    """How grave a finding is."""

    INFO = 0
    """Good to know; nothing is wrong."""
    LOW = 1
    """Costs something, or may cost something later."""
    MEDIUM = 2
    """Something does not work as it should, and users may notice."""
    HIGH = 3
    """Data is lost, doubled or not available, or a client cannot work."""

    @property
    def word(self) -> str:
        """Its name as programs see it."""
        return self.name.lower()


class EffectOf(StrEnum):
    """Of which incidents a finding may be an effect."""

    MEMBERS = "members"
    """Of what befell members of its group, or their broker."""
    BROKERS = "brokers"
    """Of a broker, or the way to it, that was away."""
    CONTROLLERS = "controllers"
    """Of a controller that moved, or a broker that was away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth to know.

    :ivar rule: name of the rule that found it; the words are stable
    :ivar subject: what it is about, such as ``group orders``: one rule finds one thing about a subject
    :ivar sentence: in plain words, with figures
    :ivar advice: what to do
    :ivar count: how often it was seen
    :ivar first: ns since the epoch, when it was first seen
    :ivar last: and last
    :ivar evidence: numbers of exchanges that show it, in order, at most :data:`MOST_EVIDENCE`
    :ivar filter: shows all of them (``docs/filters.md``); empty if there are none, as with what TCP shows
    :ivar connections: ids of the connections that it is about, where it shows in no exchange
    :ivar thresholds: those that it depends on, as they were set: name -> value with unit
    :ivar because_of: ID of the incident that it is an effect of (:mod:`captures.analysis.incidents`); empty if none is
        known
    :ivar effect_of: of which incidents it may be an effect; None for those that always stand for themselves
    :ivar group: ID of the group that it is about; empty if it is about none
    """

    JSON = (
        "rule severity certainty subject sentence advice count first last evidence filter "
        "connections thresholds because_of"
    )

    rule: str
    severity: Word[Severity]
    subject: str
    sentence: str
    advice: str
    count: int
    first: Time
    last: Time
    certainty: Certainty = Certainty.OBSERVED
    evidence: tuple[int, ...] = ()
    filter: OrNull[str] = ""
    connections: tuple[int, ...] = ()
    thresholds: Mapping[str, str] = field(default_factory=dict)
    because_of: OrNull[str] = ""
    effect_of: EffectOf | None = None
    group: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same of it while a capture goes on."""
        return self.rule, self.subject


class Occurrences:
    """Where and how often something was seen.

    :ivar count: how often
    :ivar first: ns since the epoch
    :ivar last: ns since the epoch
    """

    __slots__ = ("_early", "_latest", "count", "first", "last")

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self.last = 0
        self._early: list[int] = []
        self._latest = -1

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self.note(exchange.number, exchange.time)

    def note(self, number: int, time: int) -> None:
        """Count what is seen in an exchange.

        :param number: of the exchange; 0 or less where it has none yet, as what is not complete in a live capture
        :param time: ns since the epoch
        """
        self.first = min(self.first, time) if self.count else time
        self.last = max(self.last, time)
        self.count += 1
        self.show(number)

    def note_all(self, numbers: Int64s, times: Int64s) -> None:
        """Count what is seen in some exchanges, as :meth:`note` does one after another; numbers rise, from 1 on."""
        if not len(numbers):
            return
        first = int(times.min())
        self.first = min(self.first, first) if self.count else first
        self.last = max(self.last, int(times.max()))
        self.count += len(numbers)
        for number in np.unique(numbers)[:MOST_EVIDENCE].tolist():
            self.show(number)
        self.show(int(numbers[-1]))

    def show(self, number: int) -> None:
        """Name an exchange that shows it, too, without counting it."""
        if number <= 0 or number in self._early:
            return
        if len(self._early) < MOST_EVIDENCE - 1:
            self._early.append(number)
        else:
            self._latest = number

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of exchanges that show it, in order."""
        return tuple(sorted({*self._early, *([self._latest] if self._latest >= 0 else [])}))
