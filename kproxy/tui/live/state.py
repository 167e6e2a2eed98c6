"""The state of a running proxy, from the answers of its control socket (docs/faults.md), and texts about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from captures.time_format import span
from dissectors.units import SECOND
from kproxy.addresses import address_text
from kproxy.session.published import HeldMessage


@dataclass(frozen=True, slots=True)
class FaultRule:
    """A fault rule of the proxy.

    :ivar text: as entered
    :ivar side: ``request`` or ``response``
    :ivar hits: number of applications
    :ivar last_hit: ns since the epoch, None before the first
    :ivar left_count: remaining number of applications, None for no limit
    :ivar until: ns since the epoch, to the second, when it expires; None for never
    :ivar ended: why it has ended, ``count`` or ``time``; empty if it has not
    :ivar failures: number of times that it could not be applied
    :ivar failure: reason of the last failure
    """

    number: int
    text: str
    side: str
    hits: int
    last_hit: int | None
    left_count: int | None
    until: int | None
    ended: str
    failures: int
    failure: str


class Connection(msgspec.Struct, frozen=True):
    """An open connection through the proxy.

    :ivar client: ``host:port``
    :ivar broker: ``host:port``
    :ivar in_flight: number of unanswered requests
    :ivar held: number of its held messages
    :ivar age: ns
    """

    number: int = msgspec.field(name="connection")
    client: str
    client_id: str | None
    broker: str
    in_flight: int = msgspec.field(name="requests_in_flight")
    held: int
    age: int = msgspec.field(name="age_ns")


@dataclass(frozen=True, slots=True)
class LiveState:
    """The state of a proxy.

    :ivar version: increases with every change
    :ivar gone: why the proxy cannot be reached any more, empty while it can
    :ivar controls: whether commands may change the proxy
    :ivar forwarding: whether it forwards requests
    :ivar connections: number of open connections
    :ivar in_flight: number of unanswered requests
    :ivar dropped: bytes that were forwarded but not recorded
    :ivar unrecorded: what is wrong with the recording, in words; empty if nothing is
    :ivar listeners: addresses that clients connect to, the first listener first
    :ivar hold_filters: hold filters by side
    :ivar held: the held messages, the oldest first
    :ivar passed: matches of a hold filter that were not held: too many were, or their clients' time was over
    :ivar hold_failures: messages that were forwarded because a hold filter failed
    """

    version: int = 0
    gone: str = ""
    controls: bool = False
    forwarding: bool = True
    connections: int = 0
    in_flight: int = 0
    dropped: int = 0
    unrecorded: str = ""
    listeners: tuple[str, ...] = ()
    hold_filters: Mapping[str, str] = field(default_factory=dict)
    held: tuple[HeldMessage, ...] = ()
    passed: int = 0
    hold_failures: int = 0
    rules: tuple[FaultRule, ...] = ()


def of_status(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of :class:`LiveState` in the answer to ``status``."""
    return {
        "forwarding": answer["forwarding"],
        "connections": answer["connections"]["open"],
        "in_flight": answer["requests_in_flight"],
        "dropped": sum(answer["recording"].get(name, 0) for name in ("dropped_bytes", "lost_bytes")),
        "unrecorded": _unrecorded(answer["recording"]),
        "listeners": tuple(answer["listeners"]),
    }


def _unrecorded(recording: Mapping[str, Any]) -> str:
    if not recording["on"] or recording.get("up", True):
        return ""
    return "nothing is recorded at the moment"


def of_holds(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of :class:`LiveState` in the answer to ``holds``."""
    return {
        "hold_filters": dict(answer["filters"]),
        "held": tuple(_held(each) for each in answer["held"]),
        "passed": answer["passed"],
        "hold_failures": answer["failures"],
    }


def of_rules(answer: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Return the fields of :class:`LiveState` in the answer to ``rules``.

    :param now: ns since the epoch
    """
    return {"rules": tuple(_rule(each, now) for each in answer["rules"])}


def connections_of(answer: list[Mapping[str, Any]]) -> tuple[Connection, ...]:
    """Return the connections in an answer to ``connections``, the oldest first."""
    return msgspec.convert(answer, tuple[Connection, ...])


def _held(answer: Mapping[str, Any]) -> HeldMessage:
    since = answer["held_since_ns"]
    return HeldMessage(
        number=answer["number"],
        side=answer["side"],
        api=answer["api"],
        version=answer["version"],
        correlation_id=answer["correlation_id"],
        connection=answer["connection"],
        client=address_text(*answer["client"]),
        client_id=answer["client_id"],
        broker=address_text(*answer["broker"]),
        size=answer["size"],
        since=since,
        until=since + answer["held_ns"] + answer["released_in_ns"],
        waiting_behind=answer["waiting_behind"],
    )


def _until(rule: Mapping[str, Any], now: int) -> int | None:
    left = rule["left_ns"]
    if rule["ended"] or left is None:
        return 0 if rule["ended"] else None
    return int(round((now + left) / SECOND) * SECOND)


def _rule(rule: Mapping[str, Any], now: int) -> FaultRule:
    return FaultRule(
        number=rule["number"],
        text=rule["rule"],
        side=rule["side"] or "broker",
        hits=rule["hits"],
        last_hit=rule["last_hit_ns"],
        left_count=rule["left_count"],
        # rounded, so that it stays the same from one query to the next
        until=_until(rule, now),
        ended=rule["ended"] or "",
        failures=rule["failures"],
        failure=rule["failure"] or "",
    )


def held_words(held: HeldMessage) -> str:
    """Return a short description of a held message: ``request 3: Fetch v12 of app-1 to 10.0.0.2:9092``."""
    direction = "to" if held.side == "request" else "from"
    return f"{held.side} {held.number}: {held.api} v{held.version} of {who(held)} {direction} {held.broker}"


def who(held: HeldMessage) -> str:
    """Return the client of a held message."""
    return f"{held.client_id} ({held.client})" if held.client_id else held.client


def left_words(held: HeldMessage, now: int) -> str:
    """Return the time until a message is released automatically: ``18 s``.

    :param now: ns since the epoch
    """
    return seconds(held.until - now)


def seconds(nanoseconds: int) -> str:
    """Return a remaining time in full seconds, so that its text does not flicker."""
    left = -(-nanoseconds // SECOND)
    return span(left * SECOND) if left > 0 else "0 s"


def left_of(rule: FaultRule, now: int) -> str:
    """Return how much longer a rule applies: ``5 times, 9 min 58 s``.

    :param now: ns since the epoch
    """
    if rule.ended:
        return "ended: applied often enough" if rule.ended == "count" else "ended: its time is over"
    times = f"{rule.left_count:,} times, " if rule.left_count is not None else ""
    return f"{times}{'for ever' if rule.until is None else seconds(rule.until - now)}"
