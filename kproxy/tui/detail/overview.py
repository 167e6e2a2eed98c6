"""An overview of an exchange, shown above its fields: how its time was spent, and its neighbours on the connection."""

from __future__ import annotations

import numpy as np

from captures.analysis.round_trips import RoundTrips
from captures.exchanges import Exchange
from captures.exchanges.broker_logs import Lack
from captures.export.packets import frame_numbers
from captures.meaning import words
from captures.packets.joined_source import JoinedSource
from captures.time_format import latency as duration
from captures.time_format import span
from kproxy.session.access import Access
from kproxy.text.tree import broker_times


def overview(exchange: Exchange, access: Access) -> tuple[str, str]:
    """Return lines about its time and its place on the connection; runs in the engine thread."""
    return _time(exchange, access), _place(exchange, access)


def _time(exchange: Exchange, access: Access) -> str:
    took = exchange.latency
    if took is None:
        logged = (
            "" if exchange.broker_log is None else f"; in the broker: {broker_times(exchange.broker_log)}"
        )
        return f"its latency is not known: one of its sides was not seen{logged}"
    parts = []
    if exchange.wait:
        reason = f" ({exchange.wait_reason})" if exchange.wait_reason else ""
        parts.append(f"designed wait {duration(exchange.wait)}{reason}")
        parts.append(f"excess {duration(max(took - exchange.wait, 0))}")
    trip = RoundTrips(access.capture).of(exchange.connection)
    if trip:  # the packets that kproxy's proxy records have none
        share = f" ({min(100 * trip / took, 100):.0f} %)" if took > 0 else ""
        parts.append(f"network {duration(trip)}{share}")
    if exchange.kproxy_time:
        parts.append(f"in kproxy {duration(exchange.kproxy_time)}, not counted")
    if exchange.broker_log is not None:
        parts.append(f"in the broker: {broker_times(exchange.broker_log)}")
    return f"latency {duration(took)}{': ' if parts else ''}{', '.join(parts)}"


def _place(exchange: Exchange, access: Access) -> str:
    parts = [f"connection {exchange.connection}"]
    capture = access.capture
    if not (isinstance(capture.source, JoinedSource) or Lack.PACKETS in capture.notes.broker_logs.lacks):
        numbers = frame_numbers(capture, exchange.row)
        first = f"first frame {exchange.frame}"
        parts.append(first if numbers is None else f"frames {words.ranges(numbers)}")
    at, reader = access.index(exchange.number), access.reader
    rows = reader.rows
    neighbours = np.flatnonzero(capture.table.column("connection")[rows] == exchange.connection)
    index = int(np.searchsorted(neighbours, at))
    if index:
        before = reader.bare(int(neighbours[index - 1]))
        parts.append(f"{span(exchange.time - before.time)} after #{before.number} {before.api}")
    if index + 1 < len(neighbours):
        after = reader.bare(int(neighbours[index + 1]))
        parts.append(f"{span(after.time - exchange.time)} before #{after.number} {after.api}")
    return ", ".join(parts)
