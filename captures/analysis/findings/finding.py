"""The model of a diagnosis: findings, their severity, and their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from msgspec import UNSET, UnsetType

from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Int64s, distinct_values
from captures.exchanges import Exchange
from captures.json_objects import OrNull, Time, Word

MOST_EVIDENCE = 10
"""Most exchanges that are named as evidence of a finding: the first ones, and the last."""


class Severity(IntEnum):
    """How severe a finding is."""

    INFO = 0
    """Good to know; nothing is wrong."""
    LOW = 1
    """Costs something, or may cost something later."""
    MEDIUM = 2
    """Something does not work as it should, and users may notice."""
    HIGH = 3
    """Data is lost, duplicated or unavailable, or a client cannot work."""

    @property
    def word(self) -> str:
        """Its name for programs."""
        return self.name.lower()


class EffectOf(StrEnum):
    """The kind of incidents that may explain a finding."""

    MEMBERS = "members"
    """Incidents of members of its group, or of their broker."""
    BROKERS = "brokers"
    """Outages of a broker, or of the network to it."""
    CONTROLLERS = "controllers"
    """Moves of the controller, or outages of a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem, or a fact worth knowing.

    :ivar rule: name of the rule that found it; stable
    :ivar subject: what it concerns, such as ``group orders``; unique within a rule
    :ivar sentence: in plain words, with figures
    :ivar advice: what to do
    :ivar count: number of occurrences
    :ivar first: time of the first occurrence, ns since the epoch
    :ivar last: time of the last occurrence, ns since the epoch
    :ivar evidence: numbers of exchanges that show it, in order, at most :data:`MOST_EVIDENCE`
    :ivar filter: shows all of them (``docs/filters.md``); empty if there are none, as for what TCP shows
    :ivar connections: IDs of the connections that it concerns, if no exchange shows it
    :ivar thresholds: thresholds that it depends on: name -> value with unit
    :ivar because_of: ID of the incident that explains it (:mod:`captures.analysis.incidents`); empty if none is known
    :ivar effect_of: kind of incidents that may explain it; None if none may
    :ivar group: ID of the group that it concerns; empty if it concerns none
    :ivar cluster: its cluster (:mod:`captures.analysis.clusters`), if the capture shows several and its rule examines
        each by itself
    """

    JSON = (
        "rule severity certainty subject sentence advice count first last evidence filter "
        "connections thresholds because_of cluster_id=cluster"
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
    cluster: str | UnsetType = UNSET

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies it while a capture grows."""
        return self.rule, self.subject, str(self.cluster or "")


class Occurrences:
    """Number, times and evidence of something that was seen.

    :ivar count: number of occurrences
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

    @classmethod
    def of(cls, seen: Iterable[tuple[int, int]]) -> Occurrences:
        """Return occurrences by number of the exchange and time, as for :meth:`note`."""
        found = cls()
        for number, time in seen:
            found.note(number, time)
        return found

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self.note(exchange.number, exchange.time)

    def note(self, number: int, time: int) -> None:
        """Count an occurrence in an exchange.

        :param number: number of the exchange; 0 or less if it has none yet, because it is incomplete in a live capture
        :param time: ns since the epoch
        """
        self.first = min(self.first, time) if self.count else time
        self.last = max(self.last, time)
        self.count += 1
        self.show(number)

    def note_shown(self, evidence: Sequence[int], time: int) -> None:
        """Count one occurrence, in ns since the epoch, that several exchanges show, or none."""
        self.note(evidence[0] if evidence else 0, time)
        for number in evidence[1:]:
            self.show(number)

    def note_all(self, numbers: Int64s, times: Int64s) -> None:
        """Count occurrences like repeated calls of :meth:`note`; numbers are ascending, from 1 on."""
        if not len(numbers):
            return
        first = int(times.min())
        self.first = min(self.first, first) if self.count else first
        self.last = max(self.last, int(times.max()))
        self.count += len(numbers)
        for number in distinct_values(numbers)[:MOST_EVIDENCE].tolist():
            self.show(number)
        self.show(int(numbers[-1]))

    def include(self, later: Occurrences) -> None:
        """Add what was seen after this."""
        if not later:
            return
        self.first = min(self.first, later.first) if self.count else later.first
        self.last = max(self.last, later.last)
        self.count += later.count
        for number in (*later._early, later._latest):
            self.show(number)

    def show(self, number: int) -> None:
        """Add an exchange as evidence without counting it."""
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
