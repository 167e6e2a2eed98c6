"""Holds and rules of a running proxy in words, for lists, dialogs and messages. Texts are as they came, not cleaned."""

from __future__ import annotations

from captures.time_format import span
from dissectors.units import SECOND
from kproxy.session.published import HeldMessage
from kproxy.tui.live.state import FaultRule


def held_words(held: HeldMessage) -> str:
    """Return a held message in a few words: ``request 3: Fetch v12 of app-1 to 10.0.0.2:9092``."""
    direction = "to" if held.side == "request" else "from"
    return f"{held.side} {held.number}: {held.api} v{held.version} of {who(held)} {direction} {held.broker}"


def who(held: HeldMessage) -> str:
    """Return whose message it is."""
    return f"{held.client_id} ({held.client})" if held.client_id else held.client


def left_words(held: HeldMessage, now: int) -> str:
    """Return the time until a message goes on by itself: ``18 s``.

    :param now: ns since the epoch
    """
    return seconds(held.until - now)


def seconds(nanoseconds: int) -> str:
    """Return a stretch of time that counts, in full seconds, so that it does not flicker."""
    left = -(-nanoseconds // SECOND)
    return span(left * SECOND) if left > 0 else "0 s"


def left_of(rule: FaultRule, now: int) -> str:
    """Return how much longer a rule is applied: ``5 times, 9 min 58 s``.

    :param now: ns since the epoch
    """
    if rule.ended:
        return "ended: applied often enough" if rule.ended == "count" else "ended: its time is over"
    times = f"{rule.left_count:,} times, " if rule.left_count is not None else ""
    return f"{times}{'for ever' if rule.until is None else seconds(rule.until - now)}"
