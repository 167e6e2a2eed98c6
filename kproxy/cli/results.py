"""The ``--json`` output of commands, if it is more than a result of :mod:`captures.analysis`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from captures.json_objects import OrNull, Time

if TYPE_CHECKING:  # each result is imported only by the command that prints it
    from captures.analysis.api_stats import ApiRow
    from captures.analysis.client_stats import ClientRow
    from captures.analysis.client_trace.model import TracedClient
    from captures.analysis.clients.inventory import Client
    from captures.analysis.comparison.model import Comparison
    from captures.analysis.compat import BrokerFit, ClientVerdict, Target
    from captures.analysis.connection_stats import ConnectionRow
    from captures.analysis.error_stats import ErrorRow
    from captures.analysis.findings.finding import Finding
    from captures.analysis.incidents.model import Incident
    from captures.analysis.journey.journeys import JourneyResult
    from captures.analysis.lag import LagRow
    from captures.analysis.negotiation import Matrix
    from captures.analysis.records import CapturedRecord, LoggedRecord
    from captures.analysis.throttling import ThrottleRow
    from captures.analysis.time_shares import ShareRow
    from captures.analysis.topic_stats import TopicRow
    from kproxy.cli.config import Setting
    from kproxy.doctor.examination import Check, Examination
    from kproxy.replay.plan import PlanRow
    from kproxy.replay.results import ApiResult, Outcome

Captures = tuple[str, ...]
"""Files, folders and patterns, as given."""


@dataclass(slots=True)
class Statistics:
    """The output of ``kproxy stats``; tables that were not requested have no key."""

    captures: Captures
    names: dict[str, list[str]]
    exchanges: int | UnsetType = UNSET
    first: Time | UnsetType | None = UNSET
    last: OrNull[Time] | UnsetType = UNSET
    apis: list[ApiRow] | UnsetType = UNSET
    errors: list[ErrorRow] | UnsetType = UNSET
    clients: list[ClientRow] | UnsetType = UNSET
    topics: list[TopicRow] | UnsetType = UNSET
    connections: list[ConnectionRow] | UnsetType = UNSET
    throttling: list[ThrottleRow] | UnsetType = UNSET
    time_shares: list[ShareRow] | UnsetType = UNSET

    JSON = "captures exchanges first last names apis errors clients topics connections throttling time_shares"


class InconclusiveRule(NamedTuple):
    """A rule that could not judge."""

    rule: str
    why: str


class DiagnosisResult(NamedTuple):
    """The output of ``kproxy diagnose``."""

    captures: Captures
    exchanges: int
    first: Time | None
    last: OrNull[Time]
    complete: bool
    rules: list[str]
    findings: list[Finding]
    blind: list[InconclusiveRule]
    intervened: int
    incidents: list[Incident]


@dataclass(frozen=True, slots=True)
class Versions:
    """The output of ``kproxy api-versions``."""

    JSON = "captures brokers=matrix.brokers clients=matrix.clients warnings=matrix.warnings"

    captures: Captures
    matrix: Matrix


class ClientsResult(NamedTuple):
    """The output of ``kproxy clients``."""

    captures: Captures
    clients: list[Client]


class TargetResult(NamedTuple):
    """The output of ``kproxy compat --broker-version``."""

    captures: Captures
    target: Target
    clients: list[ClientVerdict]
    brokers_left_out: list[str]


class BrokersResult(NamedTuple):
    """The output of ``kproxy compat --client-version``."""

    captures: Captures
    client: str
    brokers: list[BrokerFit]


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The output of ``kproxy diff``."""

    JSON = (
        "captures sentence=comparison.sentence good=comparison.good bad=comparison.bad "
        "notes=comparison.notes differences=comparison.differences"
    )

    captures: Captures
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class PartyResult:
    """The first line of ``kproxy follow``."""

    JSON = (
        "what captures asked_by=party.question.by asked=party.question.text client_ids=party.client_ids "
        "addresses=party.hosts members=party.members instance_ids=party.instances groups=party.groups "
        "transactional_ids=party.transactional_ids producer_ids=party.producer_ids "
        "unclaimed_connections=party.unclaimed ties=party.all_ties"
    )

    captures: Captures
    party: TracedClient
    what: Literal["party"] = "party"


@dataclass(frozen=True, slots=True)
class JourneysResult:
    """The output of ``kproxy journey``."""

    JSON = (
        "captures first last sought=result.query partitions=result.partitions journeys=result.journeys "
        "more=result.more waits=result.waits"
    )

    captures: Captures
    first: Time | None
    last: Time | None
    result: JourneyResult


class GroupLag(NamedTuple):
    """The lag of a group over all partitions whose lag is known.

    :ivar cluster_id: its cluster (:mod:`captures.analysis.clusters`), if the capture shows several
    """

    group: str
    lag: int
    unknown_partitions: int
    cluster_id: str | UnsetType = UNSET


class LagResult(NamedTuple):
    """The output of ``kproxy lag``."""

    captures: Captures
    first: Time | None
    last: OrNull[Time]
    groups: list[GroupLag]
    partitions: list[LagRow]


class HeaderResult(NamedTuple):
    """A header of a record."""

    key: str
    value: Any
    format: str


_RECORD_BEGIN = (
    "topic=record.tp.topic partition=record.tp.partition offset=record.offset "
    "timestamp=record.timestamp timestamp_type=record.timestamp_type origin=origin "
)
_RECORD_CONTENT = (
    "key key_format value value_format schema problem headers "
    "control=record.control committed=record.committed "
)
_RECORD_END = "masked=record.masked batch=record.batch"


@dataclass(frozen=True, slots=True)
class _RecordContent:
    """Key, value and headers of a record, decoded."""

    key: Any
    key_format: str
    value: Any
    value_format: str
    schema: OrNull[str]
    problem: OrNull[str]
    headers: list[HeaderResult]


@dataclass(frozen=True, slots=True)
class RecordResult(_RecordContent):
    """A line of ``kproxy records`` about a capture."""

    JSON = (
        f"{_RECORD_BEGIN}exchange=record.number time=record.time connection=record.connection "
        f"client=record.client broker=record.broker client_id=record.client_id "
        f"{_RECORD_CONTENT}error=record.error {_RECORD_END}"
    )

    record: CapturedRecord

    @property
    def origin(self) -> str:
        """How the exchange came to carry the record."""
        return self.record.origin.value


@dataclass(frozen=True, slots=True)
class LoggedRecordResult(_RecordContent):
    """A line of ``kproxy records`` about log segments."""

    JSON = f"{_RECORD_BEGIN}file=record.file position=record.position {_RECORD_CONTENT}{_RECORD_END}"

    record: LoggedRecord

    @property
    def origin(self) -> str:
        """Always ``log``."""
        return self.record.origin.value


@dataclass(frozen=True, slots=True)
class AreaCheck:
    """A check and its area."""

    JSON = "area name=check.name state=check.state found=check.found about=check.about command=check.command"

    area: str
    check: Check


@dataclass(frozen=True, slots=True)
class DoctorResult:
    """The output of ``kproxy doctor``."""

    JSON = (
        "kproxy=found.version python=found.python executable=found.executable system=found.system "
        "works=found.works checks"
    )

    found: Examination

    @property
    def checks(self) -> list[AreaCheck]:
        return [AreaCheck(area, check) for area, checks in self.found.areas.items() for check in checks]


class ConfigurationResult(NamedTuple):
    """The output of ``kproxy config``."""

    file: str | None
    profile: OrNull[str]
    settings: list[Setting]


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The first line of ``kproxy replay``."""

    requests: int
    left_out: int
    duration_ns: int | None
    rows: list[PlanRow]
    type: Literal["plan"] = "plan"

    JSON = "type requests left_out duration_ns rows"


@dataclass(frozen=True, slots=True)
class OutcomeResult:
    """A line of ``kproxy replay``.

    :ivar recorded: body of the recorded response, prepared for display
    :ivar new: body of the new response, prepared for display
    """

    JSON = (
        "type number=outcome.number connection=outcome.connection api=outcome.api api_key=outcome.api_key "
        "version=outcome.version sent_version=outcome.sent_version broker=outcome.broker "
        "recorded_latency_ns=outcome.recorded_latency latency_ns=outcome.latency "
        "recorded_errors=outcome.recorded_errors errors=outcome.errors same differences=outcome.differences "
        "expected_differences=outcome.expected failure=outcome.failure recorded new"
    )

    outcome: Outcome
    recorded: dict[str, Any] | None
    new: dict[str, Any] | None
    type: Literal["exchange"] = "exchange"

    @property
    def same(self) -> bool | None:
        """Whether there are no unexpected differences; None if there are not two responses."""
        return self.outcome.same if self.outcome.comparable else None


class ExpectedDifference(NamedTuple):
    """A difference that is expected, and the number of exchanges with it."""

    exchanges: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """The last line of ``kproxy replay``."""

    planned: int
    sent: int
    differing: int
    failed: int
    apis: list[ApiResult]
    expected_differences: dict[str, ExpectedDifference]
    failures: dict[str, int]
    type: Literal["summary"] = "summary"

    JSON = "type planned sent differing failed apis expected_differences failures"
