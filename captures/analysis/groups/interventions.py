"""Rebalances that kproxy caused: a rule or a user held, refused or cut the calls between a member and its coordinator.

A member whose heartbeats are held loses its session, one that is refused rejoins. The rebalance and its course are
real; its trigger is kproxy, not the member, the network or the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from captures.analysis.groups.calls import Call, Join
from captures.analysis.groups.model import Cause, GroupMember, GroupTimeline
from captures.analysis.groups.vocabulary import Certainty, Trait, Trigger
from captures.exchanges import Exchange
from captures.meaning import words
from captures.time_format import span
from dissectors.api_keys import ApiKey

_FOLLOWS = 10_000_000_000
"""ns after an intervention within which clients react: they learn of it by the next heartbeat (3 s)."""
_REFUSED = frozenset({
    Trigger.MEMBER_JOINED, Trigger.MEMBER_LEFT, Trigger.LEADER_REJOINED, Trigger.STATIC_MEMBER_RETURNED,
    Trigger.COORDINATOR_MOVED, Trigger.INSTANCE_FENCED, Trigger.UNKNOWN,
})  # fmt: skip
"""Real or apparent reactions of clients whose calls were answered with errors or whose connection was closed."""
_MOST_KEPT = 1_000
"""Most interventions that are kept of a group."""


class IntervenedCall(msgspec.Struct, frozen=True):
    """A call of a member in which kproxy intervened.

    :ivar number: number of the exchange
    :ivar begin: ns since the epoch, time of the exchange
    :ivar end: when kproxy released the call or its response
    :ivar refused: whether kproxy answered it, put an error into the response, dropped it, or ended its connection
    :ivar joins: whether it is a JoinGroup of a new member, which causes a rebalance anyway
    """

    call: Call
    number: int
    begin: int
    end: int
    refused: bool
    joins: bool
    sentence: str


class InterventionLog:
    """The interventions in the calls of one group's members, in the order in which they were added."""

    def __init__(self) -> None:
        self._calls: list[IntervenedCall] = []
        self._left_out = 0

    def add(self, exchange: Exchange, call: Call) -> None:
        """Add a call in which kproxy intervened."""
        done = exchange.interventions
        stopped = done.has_injected_errors or done.not_forwarded or bool(done.ended)
        refused = stopped or any(each.altered for each in done.response)
        joins = exchange.api_key == ApiKey.JOIN_GROUP and not (isinstance(call, Join) and call.asked_as)
        self._left_out += len(self._calls) >= _MOST_KEPT
        if len(self._calls) < _MOST_KEPT:
            self._calls.append(
                IntervenedCall(
                    call, exchange.number, exchange.time, exchange.end, refused, joins, _action_of(exchange)
                )
            )

    def blame(self, timeline: GroupTimeline) -> None:
        """Make the interventions the causes of the rebalances that they led to."""
        if self._left_out:
            timeline.seen.append(
                f"kproxy intervened in {self._left_out:,} more calls than the {_MOST_KEPT:,} that are kept: rebalances "
                "that these led to are not marked as its doing"
            )
        members = timeline.by_id() if self._calls else {}
        for rebalance in timeline.rebalances if self._calls else ():
            for index, cause in enumerate(rebalance.causes):
                found = self._cause_of(cause, members)
                if found is not None:
                    rebalance.causes[index] = replace(
                        cause,
                        trigger=Trigger.KPROXY_INTERVENED,
                        certainty=Certainty.INFERRED,
                        sentence=f"{found.sentence}: {cause.sentence}",
                        evidence=tuple(dict.fromkeys((found.number, *cause.evidence))),
                        session_end=None,
                    )

    def _cause_of(self, cause: Cause, members: Mapping[str, GroupMember]) -> IntervenedCall | None:
        silent = Trait.SILENT in cause.trigger.traits
        if not silent and cause.trigger not in _REFUSED:
            return None
        member = members.get(cause.member)
        since = cause.time - (cause.silence or 0) - _FOLLOWS
        for each in reversed(self._calls):
            call, in_time = each.call, each.begin <= cause.time and each.end >= since
            if in_time and (silent or (each.refused and not each.joins)):
                process = call.client, call.host
                if member is None or call.member == cause.member or process == (member.client, member.host):
                    return each
        return None


def _action_of(exchange: Exchange) -> str:
    done = exchange.interventions
    both = done.request + done.response
    action = next((each.action or each.rule for each in both if each.action or each.rule), "")
    if not action:
        held = done.held_ns
        action = f"held for {span(held)}" if held else f"kept for {span(exchange.kproxy_time)}"
        if done.ended or done.not_forwarded:
            action += ", not sent on"
    return f"kproxy intervened in {exchange.api} #{exchange.number} ({words.line(action)})"
