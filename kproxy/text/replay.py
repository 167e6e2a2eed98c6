"""The output of ``kproxy replay``: the plan, each exchange as it arrives, and the totals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from captures.analysis.percentiles import Percentiles
from captures.meaning.words import clipped, counted, figure
from captures.names import Names
from captures.time_format import milliseconds, span
from kproxy.output import style
from kproxy.replay.plan import Plan, PlanRow
from kproxy.replay.results import Outcome, Results
from kproxy.text.tables import Column, Table

_VALUE_LENGTH = 60
_TROUBLE = "red"
_ODD = "yellow"


# ------------------------------------------------------------ the plan
def plan_table(plan: Plan, names: Names) -> Table:
    """Requests by connection and API."""
    return Table.of(
        "Plan",
        sorted(plan.rows.values(), key=lambda row: row.connection),
        [
            (Column("connection", right=True), lambda row: str(row.connection)),
            (Column("client", least=15, rank=2), lambda row: names.shown(row.client)),
            (Column("client ID", least=8, rank=1), lambda row: row.client_id or ""),
            (Column("API", least=16), lambda row: row.api),
            (Column("send", right=True), lambda row: figure(row.sent, "-")),
            (Column("version", rank=3), _versions),
            (Column("to", least=20), lambda row: _several(row.targets)),
            (Column("leave out", right=True), lambda row: figure(row.left_out.total(), "-")),
            (Column("why", least=21), lambda row: _several(row.left_out)),
        ],
        about="requests by recorded connection and API",
        color=lambda row: None if row.sent else _ODD,
    )


def _versions(row: PlanRow) -> str:
    pairs = sorted(row.versions)
    return ", ".join(f"{before}" if before == after else f"{before} as {after}" for before, after in pairs)


def _several(found: dict[str, int]) -> str:
    if len(found) < 2:
        return next(iter(found), "")
    return "; ".join(f"{text} ({count:,})" for text, count in found.items())


def plan_sentences(plan: Plan, speed: float | None) -> Iterator[str]:
    """The plan, in words."""
    connections = len({step.connection for step in plan.steps})
    requests = counted(len(plan.steps), "request")
    where = counted(connections, "connection")
    if not plan.steps:
        yield "nothing is sent"
    elif speed is None:
        yield f"{requests} of {where} sent as fast as answers come"
    else:
        pace = "in recorded timing" if speed == 1 else f"at {speed:g} times the recorded speed"
        yield f"{requests} of {where} sent in {span(round(plan.duration / speed))}, {pace}"
    if plan.left_out:
        yield f"{counted(plan.left_out, 'request')} left out"
    elsewhere = sum(row.led_elsewhere for row in plan.rows.values())
    if elsewhere:
        yield (
            f"{counted(elsewhere, 'partition')} in them are led by another broker than the one that leads most of the "
            "request: it will answer NOT_LEADER_OR_FOLLOWER"
        )
    if plan.producers:
        yield f"{counted(len(plan.producers), 'producer ID')} asked for, in the place of recorded ones"


# ------------------------------------------------------------ one exchange
def outcome_lines(outcome: Outcome) -> Iterator[str]:
    """An exchange with both responses, and their differences."""
    version = f"v{outcome.version}"
    if outcome.sent_version != outcome.version:
        version += f" as v{outcome.sent_version}"
    head = f"{outcome.number}  {outcome.api} {version}  {outcome.asked}".rstrip()
    yield style(head, bold=True)
    if outcome.comparable or outcome.recorded:
        yield f"    recorded {_latency(outcome.recorded_latency)}  {outcome.recorded}".rstrip()
    if outcome.failure:
        yield style(f"    new      {outcome.failure}", fg=_TROUBLE)
    elif outcome.latency is not None:
        yield f"    new      {_latency(outcome.latency)}  {outcome.new}".rstrip()
    for each in outcome.differences:
        yield style(f"    {each.path}: {_shown(each.recorded)} → {_shown(each.new)}", fg=_ODD)


def _latency(latency: int | None) -> str:
    return f"{'-' if latency is None else milliseconds(latency):>8} ms"


def _shown(value: Any) -> str:
    if value is UNSET:
        return "absent"
    if value is None:
        return "null"
    if isinstance(value, str):
        return clipped(value, _VALUE_LENGTH) or '""'
    return clipped(msgspec.json.encode(value).decode(), _VALUE_LENGTH)


# ------------------------------------------------------------ totals
def api_table(results: Results) -> Table:
    """Exchanges by API."""
    return Table.of(
        "Responses",
        results.apis.values(),
        [
            (Column("API", least=16), lambda row: row.api),
            (Column("sent", right=True), lambda row: f"{row.sent:,}"),
            (Column("same", right=True), lambda row: figure(row.same, "-")),
            (Column("differ", right=True), lambda row: figure(row.differing, "-")),
            (Column("other errors", right=True, rank=2), lambda row: figure(row.other_errors, "-")),
            (Column("no answer", right=True), lambda row: figure(row.failed, "-")),
            (Column("not compared", right=True, rank=3), lambda row: figure(row.not_compared, "-")),
            (Column("recorded p50", right=True), lambda row: _time(row.recorded_percentiles, "p50")),
            (Column("p95", right=True, rank=1), lambda row: _time(row.recorded_percentiles, "p95")),
            (Column("new p50", right=True), lambda row: _time(row.percentiles, "p50")),
            (Column("p95", right=True, rank=1), lambda row: _time(row.percentiles, "p95")),
        ],
        about="recorded and new; latency in ms, waits by design included",
        color=lambda row: _TROUBLE if row.failed or row.other_errors else _ODD if row.differing else None,
    )


def _time(times: Percentiles | None, name: str) -> str:
    return "-" if times is None else milliseconds(getattr(times, name))


def difference_table(results: Results) -> Table:
    """Differences by API and field, the most frequent first."""
    return Table.of(
        "Differences",
        sorted(results.groups.values(), key=lambda group: (-group.count, group.exchange)),
        [
            (Column("API", least=10), lambda group: group.api),
            (Column("field", least=16), lambda group: group.example.field),
            (Column("count", right=True), lambda group: f"{group.count:,}"),
            (Column("exchange", right=True), lambda group: str(group.exchange)),
            (Column("recorded", least=12), lambda group: _shown(group.example.recorded)),
            (Column("new", least=12), lambda group: _shown(group.example.new)),
        ],
        about="with the first of each",
    )


def closing_sentences(results: Results, planned: int) -> Iterator[str]:
    """The result, in words."""
    for reason, count in results.failures.most_common():
        yield f"no answer to {counted(count, 'request')}: {reason}"
    if results.expected:
        fields = ", ".join(sorted(results.expected))
        yield f"what has to differ is not counted: {fields} (docs/replay.md)"
    if results.sent < planned:
        yield f"stopped: {counted(planned - results.sent, 'request')} not sent, or their answers not waited for"
    same = sum(row.same for row in results.apis.values())
    yield (
        f"{counted(results.sent, 'request')} sent: {same:,} answered as recorded, {results.differing:,} otherwise, "
        f"{results.failed:,} not"
    )
