"""What ``kproxy replay`` shows: the plan before, each exchange as it comes, and what it adds up to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from captures.analysis.percentiles import Percentiles
from captures.meaning.words import clipped, counted
from captures.names import Names
from kproxy.cli.printing import style
from kproxy.cli.tables import Column, Row, Table
from kproxy.cli.times import milliseconds, span
from kproxy.replay.comparing import HAS_TO_DIFFER
from kproxy.replay.differences import ABSENT, Difference
from kproxy.replay.plan import Plan, PlanRow
from kproxy.replay.results import ApiResult, Group, Outcome, Results

_VALUE_LENGTH = 60
_TROUBLE = "red"
_ODD = "yellow"


# ------------------------------------------------------------ the plan
def plan_table(plan: Plan, names: Names) -> Table:
    """Requests by connection and API."""
    columns = [
        Column("connection", right=True),
        Column("client", least=15, rank=2),
        Column("client ID", least=8, rank=1),
        Column("API", least=16),
        Column("send", right=True),
        Column("version", rank=3),
        Column("to", least=20),
        Column("leave out", right=True),
        Column("why", least=21),
    ]
    rows = [_plan_row(row, names) for row in sorted(plan.rows.values(), key=lambda row: row.connection)]
    return Table("Plan", columns, rows, "requests by recorded connection and API")


def _plan_row(row: PlanRow, names: Names) -> Row:
    left_out = row.left_out.total()
    return Row(
        [
            str(row.connection),
            names.shown(row.client),
            row.client_id or "",
            row.api,
            f"{row.sent:,}" if row.sent else "-",
            ", ".join(
                f"{before}" if before == after else f"{before} as {after}"
                for before, after in sorted(row.versions)
            ),
            _several(row.targets),
            f"{left_out:,}" if left_out else "-",
            _several(row.left_out),
        ],
        color=None if row.sent else _ODD,
    )


def _several(found: dict[str, int]) -> str:
    if len(found) < 2:
        return next(iter(found), "")
    return "; ".join(f"{text} ({count:,})" for text, count in found.items())


def plan_sentences(plan: Plan, speed: float | None) -> Iterator[str]:
    """What is going to be done, in words."""
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
def outcome_lines(outcome: Outcome, *, color: bool) -> Iterator[str]:
    """An exchange with both responses, and what differs."""
    version = f"v{outcome.version}"
    if outcome.sent_version != outcome.version:
        version += f" as v{outcome.sent_version}"
    head = f"{outcome.number}  {outcome.api} {version}  {outcome.asked}".rstrip()
    yield style(head, bold=True) if color else head
    if outcome.comparable or outcome.recorded:
        yield f"    recorded {_latency(outcome.recorded_latency)}  {outcome.recorded}".rstrip()
    if outcome.failure:
        line = f"    new      {outcome.failure}"
        yield style(line, fg=_TROUBLE) if color else line
    elif outcome.latency is not None:
        yield f"    new      {_latency(outcome.latency)}  {outcome.new}".rstrip()
    for each in outcome.differences:
        line = f"    {each.path}: {_shown(each.recorded)} → {_shown(each.new)}"
        yield style(line, fg=_ODD) if color else line


def _latency(latency: int | None) -> str:
    return f"{'-' if latency is None else milliseconds(latency):>8} ms"


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    if value is None:
        return "null"
    if isinstance(value, str):
        return clipped(value, _VALUE_LENGTH) or '""'
    return clipped(msgspec.json.encode(value).decode(), _VALUE_LENGTH)


# ------------------------------------------------------------ what it adds up to
def api_table(results: Results) -> Table:
    """Exchanges by API."""
    columns = [
        Column("API", least=16),
        Column("sent", right=True),
        Column("same", right=True),
        Column("differ", right=True),
        Column("other errors", right=True, rank=2),
        Column("no answer", right=True),
        Column("not compared", right=True, rank=3),
        Column("recorded p50", right=True),
        Column("p95", right=True, rank=1),
        Column("new p50", right=True),
        Column("p95", right=True, rank=1),
    ]
    rows = [_api_row(row) for row in results.apis.values()]
    return Table("Responses", columns, rows, "recorded and new; latency in ms, waits by design included")


def _api_row(row: ApiResult) -> Row:
    return Row(
        [
            row.api,
            f"{row.sent:,}",
            *(
                f"{count:,}" if count else "-"
                for count in (row.same, row.differing, row.other_errors, row.failed, row.not_compared)
            ),
            *_times(row.recorded_latency.percentiles()),
            *_times(row.latency.percentiles()),
        ],
        color=_TROUBLE if row.failed or row.other_errors else _ODD if row.differing else None,
    )


def _times(times: Percentiles | None) -> list[str]:
    return ["-", "-"] if times is None else [milliseconds(times.p50), milliseconds(times.p95)]


def difference_table(results: Results) -> Table:
    """Differences by API and field, the most frequent first."""
    columns = [
        Column("API", least=10),
        Column("field", least=16),
        Column("count", right=True),
        Column("exchange", right=True),
        Column("recorded", least=12),
        Column("new", least=12),
    ]
    groups = sorted(results.groups.values(), key=lambda group: (-group.count, group.exchange))
    return Table("Differences", columns, [_group_row(group) for group in groups], "with the first of each")


def _group_row(group: Group) -> Row:
    example = group.example
    return Row(
        [
            group.api,
            example.field,
            f"{group.count:,}",
            str(group.exchange),
            _shown(example.recorded),
            _shown(example.new),
        ]
    )


def closing_sentences(results: Results, planned: int) -> Iterator[str]:
    """What came of it, in words."""
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


# ------------------------------------------------------------ JSON
def difference_json(difference: Difference) -> dict[str, Any]:
    """One difference; a side that has no value has no key."""
    sides = {"recorded": difference.recorded, "new": difference.new}
    told = {side: value for side, value in sides.items() if value is not ABSENT}
    return {"path": difference.path, "field": difference.field, **told}


def outcome_json(outcome: Outcome, recorded: Any, new: Any) -> dict[str, Any]:
    """One exchange, in the documented shape (``docs/replay.md``).

    :param recorded: body of the recorded response, ready to be shown
    :param new: that of the new one
    """
    return {
        "type": "exchange",
        "number": outcome.number,
        "connection": outcome.connection,
        "api": outcome.api,
        "api_key": outcome.api_key,
        "version": outcome.version,
        "sent_version": outcome.sent_version,
        "broker": outcome.broker or None,
        "recorded_latency_ns": outcome.recorded_latency,
        "latency_ns": outcome.latency,
        "recorded_errors": outcome.recorded_errors,
        "errors": outcome.errors,
        "same": outcome.same if outcome.comparable else None,
        "differences": [difference_json(each) for each in outcome.differences],
        "expected_differences": sorted(outcome.expected),
        "failure": outcome.failure or None,
        "recorded": recorded,
        "new": new,
    }


def plan_json(plan: Plan, speed: float | None) -> dict[str, Any]:
    """The plan, in the documented shape."""
    return {
        "type": "plan",
        "requests": len(plan.steps),
        "left_out": plan.left_out,
        "duration_ns": None if speed is None else round(plan.duration / speed),
        "rows": [row.to_json() for row in plan.rows.values()],
    }


def summary_json(results: Results, planned: int) -> dict[str, Any]:
    """What came of it, in the documented shape."""
    return {
        "type": "summary",
        "planned": planned,
        "sent": results.sent,
        "differing": results.differing,
        "failed": results.failed,
        "apis": [row.to_json() for row in results.apis.values()],
        "expected_differences": {
            name: {"exchanges": count, "reason": HAS_TO_DIFFER.get(name, "times")}
            for name, count in sorted(results.expected.items())
        },
        "failures": dict(results.failures),
    }
