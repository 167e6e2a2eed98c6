"""The results of a replay: the outcome of each exchange, and totals."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from captures.analysis.percentiles import Percentiles, Times
from captures.json_objects import OrNull
from dissectors.apis import api_name
from kproxy.replay.differences import Difference


@dataclass(slots=True)
class Outcome:
    """The outcome of one exchange.

    :ivar number: of the exchange in the capture
    :ivar version: of the recorded request
    :ivar sent_version: of the request that was sent
    :ivar asked: summary of the request
    :ivar broker: the broker it was sent to, empty if it was not sent
    :ivar recorded_latency: ns, None if there is no recorded response
    :ivar latency: ns from handing the request to the system until the response is there, None without one
    :ivar recorded_errors: error codes of the recorded response, in order
    :ivar errors: error codes of the live response, in order
    :ivar recorded: summary of the recorded response
    :ivar new: summary of the live response
    :ivar expected: fields whose difference is expected
    :ivar failure: why an expected live response is missing; empty if it is not
    :ivar comparable: whether there are two responses
    """

    number: int
    connection: int
    api_key: int
    version: int
    sent_version: int
    asked: str = ""
    broker: OrNull[str] = ""
    recorded_latency: int | None = None
    latency: int | None = None
    recorded_errors: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    recorded: str = ""
    new: str = ""
    differences: list[Difference] = field(default_factory=list)
    expected: frozenset[str] = frozenset()
    failure: OrNull[str] = ""
    comparable: bool = False

    @property
    def api(self) -> str:
        return api_name(self.api_key)

    @property
    def same(self) -> bool:
        """Whether there are no unexpected differences, as far as there are two responses to compare."""
        return not self.failure and not self.differences


@dataclass(slots=True)
class ApiResult:
    """The outcomes of one API.

    :ivar other_errors: exchanges whose responses have other error codes than recorded
    :ivar not_compared: answered exchanges without a recorded response, or that have none (acks=0)
    """

    JSON = (
        "api sent same differing other_errors failed not_compared recorded_latency=recorded_percentiles "
        "latency=percentiles"
    )

    api: str
    sent: int = 0
    same: int = 0
    differing: int = 0
    other_errors: int = 0
    failed: int = 0
    not_compared: int = 0
    recorded_latency: Times = field(default_factory=Times)
    latency: Times = field(default_factory=Times)

    @property
    def recorded_percentiles(self) -> Percentiles | None:
        return self.recorded_latency.percentiles()

    @property
    def percentiles(self) -> Percentiles | None:
        return self.latency.percentiles()


@dataclass(slots=True)
class Group:
    """Differences in one field of one API's responses.

    :ivar count: number of differences
    :ivar exchange: number of the first exchange with one
    :ivar example: the first
    """

    api: str
    exchange: int
    example: Difference
    count: int = 0


class Results:
    """Totals of outcomes.

    :ivar apis: by name, in order of appearance
    :ivar groups: differences by API and field
    :ivar expected: number of exchanges by field whose difference is expected
    :ivar failures: number of unanswered requests, by reason
    """

    def __init__(self) -> None:
        self.apis: dict[str, ApiResult] = {}
        self.groups: dict[tuple[str, str], Group] = {}
        self.expected: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        row = self.apis.setdefault(outcome.api, ApiResult(outcome.api))
        row.sent += 1
        if outcome.failure:
            row.failed += 1
            self.failures[outcome.failure] += 1
        elif not outcome.comparable:
            row.not_compared += 1
        elif outcome.differences:
            row.differing += 1
        else:
            row.same += 1
        if outcome.comparable:
            row.other_errors += Counter(outcome.recorded_errors) != Counter(outcome.errors)
            if outcome.recorded_latency is not None:
                row.recorded_latency.add(outcome.recorded_latency)
        if outcome.latency is not None:
            row.latency.add(outcome.latency)
        self.expected.update(outcome.expected)
        for each in outcome.differences:
            name = outcome.api, each.field
            group = self.groups.setdefault(name, Group(outcome.api, outcome.number, each))
            group.count += 1

    @property
    def sent(self) -> int:
        """The number of requests that were tried."""
        return sum(row.sent for row in self.apis.values())

    @property
    def differing(self) -> int:
        """The number of responses that differ."""
        return sum(row.differing for row in self.apis.values())

    @property
    def failed(self) -> int:
        """The number of requests that were not answered."""
        return sum(row.failed for row in self.apis.values())

    @property
    def same(self) -> bool:
        """Whether everything went as recorded."""
        return not self.differing and not self.failed
