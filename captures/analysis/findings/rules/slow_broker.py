"""Brokers with slow responses, beyond designed waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, RuleContext, Threshold, Unit
from captures.analysis.throttling import Throttles
from captures.arrays import Bools
from captures.exchanges import Exchange, Flag
from captures.filters.lexer import quoted
from captures.interventions import BrokerLog
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.units import MS

_ADMIN = frozenset({
    ApiKey.CONTROLLED_SHUTDOWN, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS,
    ApiKey.CREATE_PARTITIONS, ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS, ApiKey.UPDATE_FEATURES,
    ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER,
})  # fmt: skip
"""Answered when it is done: ControlledShutdown, CreateTopics, DeleteTopics, DeleteRecords (by all replicas, KIP-107),
CreatePartitions, ElectLeaders, reassignments, UpdateFeatures, AddRaftVoter and RemoveRaftVoter (KIP-853)."""


_NETWORK = "network"
_PARTS = {
    "request_queue": (
        "waiting for a handler thread",
        "All handler threads were busy: raise num.io.threads, or look for what keeps them busy (local time).",
    ),
    "local": (
        "work of the handler thread",
        "The leader worked for that long: check its disks, page cache, garbage collection and CPU.",
    ),
    "remote": (
        "waiting for others",
        (
            "The broker waited for replicas, the controller or other members: check the followers (findings "
            "slow_followers and isr_changes) and the controller."
        ),
    ),
    "throttle": ("held back by a quota", "Check the quotas of this client and user."),
    "response_queue": (
        "waiting for a network thread",
        "The network threads of the listener were busy: raise num.network.threads.",
    ),
    _NETWORK: (
        "outside the times that the broker measured",
        (
            "Requests waited before the broker had read them, or in the network: check num.network.threads, the load "
            "of the broker's host, and packet loss."
        ),
    ),
}
"""Parts of the time until the response (:attr:`BrokerLog.TIMES` without sending it), in words, and what helps."""


class _Answers(msgspec.Struct):
    """Responses of a broker for one API. Counting suffices to know whether a percentile is above a limit.

    :ivar parts: part of the time -> ns in all, of the slow responses in the broker's request log
    :ivar logged: number of these
    """

    all: int = 0
    longest: int = 0
    slow: Occurrences = msgspec.field(default_factory=Occurrences)
    parts: Counter[str] = msgspec.field(default_factory=Counter)
    logged: int = 0

    def split(self, exchange: Exchange, latency: int) -> None:
        """Add where the time of a slow response went, if the broker's request log has it.

        :param latency: in ns, without the time before the request could be read by design
        """
        logged = exchange.broker_log
        if logged is None:
            return
        self.logged += 1
        spent = {name: getattr(logged, name) for name in BrokerLog.TIMES if name in _PARTS}
        inside = sum(spent.values())
        spent["remote"] = max(logged.remote - exchange.wait, 0)
        if logged.captured and not exchange.flag & (Flag.REQUEST_LOGGED | Flag.RESPONSE_LOGGED):
            spent[_NETWORK] = max(latency - inside, 0)
        self.parts.update(spent)

    @property
    def longest_part(self) -> str | None:
        """The part that took most of the time; None if no log has it."""
        return self.parts.most_common(1)[0][0] if self.logged else None


class SlowBroker(Rule):
    """Finds brokers with many slow responses, without designed waits."""

    name = "slow_broker"
    effect_of = EffectOf.BROKERS
    title = "Slow responses"
    about = (
        "The time from the end of a request to the start of its response, without the waits that the protocol "
        "intends: long polls and requests queued after them on the same connection, members that wait for each "
        "other, throttling and the pauses after it. The rest is the broker's work, its queues, and the network. "
        "For a Produce with acks=all it includes the followers' time, because that wait is not on the wire. If the "
        "broker's request log was read, too, the finding names the part of the time that was longest. The first "
        "requests after a start are slow in every broker."
    )
    key = Key.BROKER
    apis = None
    thresholds = (
        Threshold("latency", 500, Unit.MILLISECONDS, "longest time for a response, without designed waits"),
        Threshold("share", 5, Unit.PERCENT, "share of a broker's responses of one API that took longer"),
        Threshold("answers", 5, Unit.COUNT, "least number of responses that took longer"),
    )

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._throttles = Throttles()
        self._answers: dict[tuple[str, str], _Answers] = {}
        self._polling: dict[int, int] = {}
        """Connection -> when the latest answer came that was waited for by design."""

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        # designed waits depend on earlier exchanges
        slow = rows.columns.flat("excess") > self.limit("latency") * MS
        return None if rows.ever("slow answers", slow) else rows.nothing

    def add(self, exchange: Exchange) -> None:
        paused = self._throttles.of(exchange).paused
        if exchange.latency is None or exchange.api_key in _ADMIN or exchange.api_key is None:
            return
        answers = self._answers.setdefault((exchange.broker, exchange.api), _Answers())
        answers.all += 1
        # requests of a connection are handled one by one: those after a long poll wait for its end
        until = self._polling.get(exchange.connection, 0)
        if exchange.wait:
            self._polling[exchange.connection] = max(until, exchange.end)
        queued = max(until - exchange.time, 0)
        excess = exchange.latency - exchange.wait - max(paused, queued)
        if excess > self.limit("latency") * MS:
            answers.slow.add(exchange)
            answers.split(exchange, exchange.latency - max(paused, queued))
            answers.longest = max(answers.longest, excess)

    def findings(self) -> Iterator[Finding]:
        for (broker, api), answers in self._answers.items():
            slow = answers.slow.count
            if slow < self.limit("answers") or 100 * slow <= self.limit("share") * answers.all:
                continue
            shown = self.context.capture.names.shown(broker)
            limit = round(self.limit("latency"))
            part = answers.longest_part
            mostly = ""
            if part is not None:
                average = span(answers.parts[part] // answers.logged)
                mostly = (
                    f" By the broker's request log the largest part of it is {part.replace('_', ' ')} "
                    f"({_PARTS[part][0]}), {average} on average."
                )
            yield self.finding(
                f"broker {shown}, {api}",
                f"{slow:,} of {answers.all:,} {api} answers of {shown} took longer than {span(limit * MS)}"
                f" ({100 * slow / answers.all:.0f}%), the longest {span(answers.longest)}; designed waits are not "
                f"counted.{mostly}",
                _advice(api) if part is None else _PARTS[part][1],
                answers.slow,
                filter_text=f"broker == {quoted(broker)} and api == {api} and excess > {limit}ms",
            )


def _advice(api: str) -> str:
    own = {
        "Produce": "With acks=all check the followers too (findings slow_followers and isr_changes), and the disks of "
        "the leader and the followers.",
        "Fetch": "Records that are no longer in the page cache are read from disk: look for consumers that read old "
        "records.",
    }.get(api, "")
    return (
        "Check the broker's request metrics for this API (RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs,"
        f" ResponseQueueTimeMs), its garbage collection and its load. {own}"
    ).strip()
