"""What a rule is: it looks at exchanges, and says what it has found. One file for each.

A rule is asked again and again while a capture goes on, so that asking it must not change what it knows. What it keeps
is bounded by how many clients, connections, topics and groups there are, never by how many exchanges.

It finds what is wrong, not what is unusual: a capture of clients and brokers that do their work has no finding above
``low``. Where it rests on a threshold, that is declared, and named in the finding. Where a capture lacks what it
needs, it says so in :meth:`Rule.blind`, and finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

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


class Unit(Enum):
    """What a threshold is counted in. The value is what stands behind the number."""

    COUNT = ""
    MILLISECONDS = "ms"
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
        """Return a value of it with its unit, the largest one that it is a multiple of."""
        if self.unit is Unit.MILLISECONDS:
            return words.duration(round(value))
        if self.unit is Unit.BYTES:
            for name, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
                if value and not value % size:
                    return f"{value / size:,.0f} {name}"
        figure = f"{value:,.0f}" if value == int(value) else f"{value:,}"
        return f"{figure}{' ' if self.unit.value.isalpha() else ''}{self.unit.value}"


@dataclass(slots=True, kw_only=True)
class Scene:
    """What rules may look at beside the exchanges they are shown.

    :ivar capture: the capture; only what concerns it as a whole, such as its connections
    :ivar names: tells names of topic IDs
    :ivar told: asks for the groups' timelines; not to be used before rules are asked for findings
    :ivar limits: thresholds that the user has set: ``rule.name`` -> value
    :param traffic: what Produce and Fetch exchanges carry, if groups are followed by it, too
    :ivar records: likewise
    :ivar shared: what several rules follow
    """

    capture: Capture
    names: Names
    told: Callable[[], Sequence[GroupTimeline]]
    limits: Mapping[str, float] = field(default_factory=dict)
    traffic: InitVar[RecordTraffic | None] = None
    records: RecordTraffic = field(init=False)
    shared: SharedFollowers = field(init=False)

    def __post_init__(self, traffic: RecordTraffic | None) -> None:
        self.records = traffic or RecordTraffic(self.names)
        self.shared = SharedFollowers(self.capture, self.names)

    @property
    def groups(self) -> Sequence[GroupTimeline]:
        """The groups' timelines as of now."""
        return self.told()

    def endpoints(self, connection: int) -> tuple[str, str]:
        """Return client and broker of a connection as they are to be shown."""
        return self.capture.shown_endpoints(connection)


class Rule:
    """Looks for one kind of finding.

    :param scene: what else it may look at
    :cvar name: of the rule, as programs see it; stable
    :cvar title: what it finds, as a heading
    :cvar about: what that means and where the facts come from (KIP, Kafka source path), in a few sentences
    :cvar severity: of what it finds, unless it says otherwise
    :cvar apis: keys of the APIs whose exchanges it is shown; None for all, empty for none
    :cvar key: what its state is kept by: it finds the same where each of several sees only some values of it
    :cvar thresholds: bounds that it depends on
    :cvar of_groups: whether it looks at the groups' timelines
    :cvar needs: what a capture has to have, and a request log has not
    :cvar effect_of: of which incidents its findings may be effects
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

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._set_to = {
            threshold.name: scene.limits.get(f"{self.name}.{threshold.name}", threshold.default)
            for threshold in self.thresholds
        }

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        """Return which exchanges of a whole capture it has to be shown, of those of its APIs; None for all of them.

        What it finds, and what it is blind to, are the same then. Exchanges in which kproxy intervened are shown in any
        case.
        """
        return None

    def add(self, exchange: Exchange) -> None:
        """Look at one exchange."""

    def intervened(self, exchange: Exchange) -> None:
        """Take note of one that says nothing of the cluster, since kproxy answered it or let something else go on.

        What a rule measures from such an exchange to the next is of kproxy's making.
        """

    def findings(self) -> Iterator[Finding]:
        """Yield what was found so far."""
        raise NotImplementedError

    def blind(self) -> str:
        """Return why it could not judge, or not all there is, in words; empty if it could, whatever it found."""
        return ""

    def lacking(self) -> str:
        """Return what it needs and the source of the capture does not have, in words; empty if it has."""
        found = self.scene.capture.notes.broker_logs.lacks
        return self.needs.value if self.needs is not None and self.needs in found else ""

    def limit(self, name: str) -> float:
        """Return a threshold as it is set."""
        return self._set_to[name]

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
        """Make a finding of this rule; the thresholds are put in, and texts made fit to be shown anywhere."""
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
            connections=tuple(connections),
            effect_of=self.effect_of,
            thresholds={
                f"{self.name}.{threshold.name}": threshold.shown(self.limit(threshold.name))
                for threshold in self.thresholds
            },
            **more,
        )


def times(count: int) -> str:
    """Return how often: ``once``, ``twice``, ``1,234 times``."""
    return {1: "once", 2: "twice"}.get(count) or f"{words.counted(count, 'time')}"
