"""Holds and rules of a running proxy in words, for lists, dialogs and messages. Texts are as they came, not cleaned."""

from __future__ import annotations

from kproxy.tui.live.state import SECOND, FaultRule
from kproxy.tui.session.published import Held

_MINUTE = 60


def held_words(held: Held) -> str:
    """Return a held message in a few words: ``request 3: Fetch v12 of app-1 to 10.0.0.2:9092``."""
    direction = "to" if held.side == "request" else "from"
    return f"{held.side} {held.number}: {held.api} v{held.version} of {who(held)} {direction} {held.broker}"


def who(held: Held) -> str:
    """Return whose message it is."""
    return f"{held.client_id} ({held.client})" if held.client_id else held.client


def left_words(held: Held, now: int) -> str:
    """Return the time until a message goes on by itself: ``18 s``.

    :param now: ns since the epoch
    """
    return seconds(held.until - now)


def seconds(span: int) -> str:
    """Return a stretch of ns that counts down: ``18 s``, ``2:05 min``; full seconds, so that it does not flicker."""
    left = max(-(-span // SECOND), 0)
    return f"{left} s" if left < 2 * _MINUTE else f"{left // _MINUTE}:{left % _MINUTE:02} min"


def left_of(rule: FaultRule, now: int) -> str:
    """Return how much longer a rule is applied: ``5 times, 9:58 min``.

    :param now: ns since the epoch
    """
    if rule.ended:
        return "ended: applied often enough" if rule.ended == "count" else "ended: its time is over"
    times = f"{rule.left_count:,} times, " if rule.left_count is not None else ""
    return f"{times}{seconds(rule.until - now)}"
