"""The data plane's events as sentences: on the terminal of ``kproxy proxy`` and of ``kproxy attach``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from captures.meaning import words
from dissectors.printable import printable

_LONGEST_ADDRESS = 280
"""Most characters of an address: a host name has at most 253 (RFC 1035)."""

_LONGEST_REASON = 1000


def sentence_of(event: dict[str, Any]) -> str | None:
    """Return a sentence about an event of the data plane; None if it is not for users."""
    made = _SENTENCES.get(event["event"])
    return None if made is None else made(event)


def _broker(event: dict[str, Any]) -> str:
    what = f"{event['role']} {event['node_id']}"
    if event["before"]:
        moved = f"{what} is now at {_address(event)}, not at {_address(event, 'before')}"
        return f"{moved}; clients find it at {event['at']}"
    dialled = f", dialled at {_address(event, 'dialled')}," if event["dialled"] else ""
    return f"{what} at {_address(event)}{dialled} is behind {event['at']}"


def _unreachable(event: dict[str, Any]) -> str:
    why = printable(str(event["why"]), _LONGEST_REASON)
    return f"{event['role']} {event['node_id']} cannot be reached from here: {why}"


def _address(event: dict[str, Any], name: str = "address") -> str:
    """Return an address for display: brokers choose their host names, which may be very long."""
    return printable(str(event[name]), _LONGEST_ADDRESS)


_SENTENCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "listening": lambda event: f"listening on {_address(event)}",
    "broker": _broker,
    "unreachable": _unreachable,
    "escaped": lambda event: (
        f"the address of broker {event['node_id']}, {_address(event)}, went to {event['client']} in a response to "
        f"{event['api']}: connections there go past kproxy"
    ),
    "dropped": lambda event: (
        f"{words.counted(event['bytes'], 'byte')} were forwarded but not recorded: recording is slower than traffic "
        f"({event['total']:,} of {words.counted(event['connections'], 'connection')} so far)"
    ),
    "recorder_recovered": lambda event: (
        f"recording goes on: {words.counted(event['lost_packets'], 'packet')} with "
        f"{words.counted(event['lost_bytes'], 'byte')} were not recorded meanwhile"
    ),
    "forwarding": lambda event: "forwarding is on again" if event["on"] else "forwarding is off",
    "note": lambda event: str(event["text"]),
    "warning": lambda event: str(event["text"]),
    "lost": lambda event: f"{event['count']:,} messages of the proxy were missed",
}
