"""The base class of rules: a rule sees exchanges, and reports findings.

A rule is asked for findings repeatedly while a capture grows, so that must not change its state. Its state is bounded
by the number of clients, connections, topics and groups, never by the number of exchanges.

It finds problems, not peculiarities: a capture of healthy clients and brokers has no finding above ``low``. Thresholds
are declared, and named in findings. If a capture lacks what a rule needs, :meth:`Rule.blind` says so, and the rule
finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import msgspec

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import plain
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.shared_followers import SharedFollowers
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.record_traffic import RecordTraffic
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange
from captures.exchanges.broker_logs import Lack
from captures.meaning import Names, words

MOST_CONNECTIONS = 20
"""Most connections that a finding names: the first ones."""


class Unit(Enum):
    """The unit of a threshold. The value is the suffix of the number."""

    COUNT = ""
    MS = "ms"
    BYTES = "B"
    PERCENT = "%"
    A_SECOND = "/s"


class Threshold(NamedTuple):
    """A bound that users may set.

    :ivar name: within its rule: ``share`` for ``heartbeat_gaps.share``
    :ivar about: what it bounds
    """

    name: str
    default: float
    unit: Unit
    about: str

    def shown(self, value: float) -> str:
        """Return a value with its unit, the largest that divides it."""
        if self.unit is Unit.MS:
            return words.duration(round(value))
        if self.unit is Unit.BYTES:
            for name, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
                if value and not value % size:
                    return f"{value / size:,.0f} {name}"
        figure = f"{value:,.0f}" if value == int(value) else f"{value:,}"
        return f"{figure}{' ' if self.unit.value.isalpha() else ''}{self.unit.value}"


@dataclass(slots=True, kw_only=True)
class RuleContext:
    """What rules may use besides exchanges.

    :ivar capture: the capture; only for facts about it as a whole, such as its connections
    :ivar names: resolves topic IDs
    :ivar timelines: returns the groups' timelines; only for use in :meth:`Rule.findings`
    :ivar limits: thresholds set by the user: ``rule.name`` -> value
    :param traffic: contents of Produce and Fetch exchanges, if shared with the groups' histories
    :ivar records: contents of Produce and Fetch exchanges
    :ivar shared: followers that several rules share
    """

    capture: Capture
    names: Names
    timelines: Callable[[], Sequence[GroupTimeline]]
    limits: Mapping[str, float] = field(default_factory=dict)
    traffic: InitVar[RecordTraffic | None] = None
    records: RecordTraffic = field(init=False)
    shared: SharedFollowers = field(init=False)

    def __post_init__(self, traffic: RecordTraffic | None) -> None:
        self.records = traffic or RecordTraffic(self.names)
        self.shared = SharedFollowers(self.capture, self.names)

    @property
    def groups(self) -> Sequence[GroupTimeline]:
        """The groups' current timelines."""
        return self.timelines()


class Rule(msgspec.Struct, eq=False):
    """Looks for one kind of finding. What it has seen is in its fields.

    :param context: what it may use besides exchanges
    :cvar name: name for programs; stable
    :cvar title: what it finds, as a heading
    :cvar about: what that means and the source of the facts (KIP, Kafka source path), in a few sentences
    :cvar severity: severity of its findings, unless they set another
    :cvar apis: keys of the APIs whose exchanges it needs; None for all, empty for none
    :cvar key: key of its state: instances that see only some of its values find the same together
    :cvar thresholds: bounds that it depends on
    :cvar of_groups: whether it examines the groups' timelines
    :cvar needs: what it needs that a request log lacks
    :cvar effect_of: kind of incidents that may explain its findings
    :cvar only_after: errors without which no exchange decides anything, and with which all do; empty if that is not so
    :cvar unseen: why it cannot judge if :attr:`saw_any` stays false, in words
    :ivar saw_any: whether it saw anything that it judges
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    severity: ClassVar[Severity] = Severity.MEDIUM
    apis: ClassVar[frozenset[int] | None] = frozenset()
    key: ClassVar[Key] = Key.CLUSTER
    thresholds: ClassVar[tuple[Threshold, ...]] = ()
    of_groups: ClassVar[bool] = False
    needs: ClassVar[Lack | None] = None
    effect_of: ClassVar[EffectOf | None] = None
    only_after: ClassVar[Collection[int]] = ()
    unseen: ClassVar[str] = ""

    context: RuleContext
    saw_any: bool = False
    _settings: dict[str, float] = {}

    def __post_init__(self) -> None:
        self._settings = {
            threshold.name: self.context.limits.get(f"{self.name}.{threshold.name}", threshold.default)
            for threshold in self.thresholds
        }

    @property
    def kind(self) -> type[Rule]:
        """The class with the facts about the rule."""
        return type(self)

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        """Return a mask of the deciding exchanges of a whole capture, among those of its APIs; None for all.

        With these alone, its findings and its blindness are the same. Exchanges in which kproxy intervened are always
        shown.
        """
        return rows.all_if_met(self.only_after) if self.only_after else None

    def counted(self) -> Mapping[str, Any]:
        """Return what :meth:`deciding` counted instead of showing it, by value of the key, for another instance."""
        return {}

    def merge(self, counted: Mapping[str, Any]) -> None:
        """Add what other instances have :meth:`counted` in a part of the capture, in the order of the parts."""

    def add(self, exchange: Exchange) -> None:
        """Add one exchange."""

    def intervened(self, exchange: Exchange) -> None:
        """Add an exchange that says nothing about the cluster, because kproxy answered it or forwarded something else.

        Anything a rule measures from such an exchange to the next is caused by kproxy.
        """

    def findings(self) -> Iterator[Finding]:
        """Yield the findings so far."""
        raise NotImplementedError

    def blind(self) -> str:
        """Return why it could not judge, or not everything, in words; empty if it could, whatever it found."""
        return "" if self.saw_any else self.unseen

    def lacking(self) -> str:
        """Return what it needs and the source of the capture lacks, in words; empty if nothing."""
        found = self.context.capture.notes.broker_logs.lacks
        return self.needs.value if self.needs is not None and self.needs in found else ""

    def limit(self, name: str) -> float:
        """Return the value of a threshold."""
        return self._settings[name]

    def finding(
        self,
        subject: str,
        sentence: str,
        advice: str,
        seen: Occurrences,
        *,
        filter_text: str = "",
        severity: Severity | None = None,
        certainty: Certainty = Certainty.OBSERVED,
        connections: Sequence[int] = (),
        **more: Any,
    ) -> Finding:
        """Make a finding of this rule, with its thresholds, and texts made safe to display."""
        return Finding(
            rule=self.name,
            severity=self.severity if severity is None else severity,
            subject=plain(subject),
            sentence=plain(sentence),
            advice=plain(advice),
            count=seen.count,
            first=seen.first,
            last=seen.last,
            certainty=certainty,
            evidence=seen.numbers,
            filter=filter_text,
            connections=tuple(connections[:MOST_CONNECTIONS]),
            effect_of=self.effect_of,
            thresholds={
                f"{self.name}.{threshold.name}": threshold.shown(self.limit(threshold.name))
                for threshold in self.thresholds
            },
            **more,
        )


def times(count: int) -> str:
    """Return a number of times in words: ``once``, ``twice``, ``1,234 times``."""
    return {1: "once", 2: "twice"}.get(count) or f"{words.counted(count, 'time')}"
