"""Log offsets and times of fields in batches that contain only differences.

A record has its offset and timestamp relative to its batch, and a produced batch starts at offset 0: its place in the
log is in the response.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import number, rows
from captures.meaning.topic_partitions import index
from dissectors.api_keys import ApiKey
from dissectors.records.batch import LOG_APPEND
from dissectors.sides import Side
from kproxy.tui.detail.nodes import FieldNode

_FIELD = re.compile(r"request\.topic_data\[(\d+)\]\.partition_data\[(\d+)\]\.records")


class _Base(NamedTuple):
    """The base values of a batch.

    :ivar offset: log offset of the first record; None if unknown
    :ivar timestamp: base of the records' timestamps, in ms; None if there is none
    :ivar stamped: timestamp of all records in ms, if set by the broker; else None
    """

    offset: int | None
    timestamp: int | None
    stamped: int | None


class LogPlaces:
    """Log offsets and times of one side of an exchange."""

    def __init__(self, exchange: Exchange, side: Side) -> None:
        self._exchange = exchange
        self._produces = exchange.api_key == ApiKey.PRODUCE and side == "request"
        self._bases: dict[str, _Base] = {}

    def note(self, field: FieldNode) -> str:
        """Return the absolute offset or time for a field of a batch or record; empty if it has none."""
        if not isinstance(field.value, int) or field.parent is None:
            return ""
        if field.name == "base_offset" and self._produces:
            base = self.first(field.parent)
            return "" if base is None else f"offset {base:,} in the log"
        if field.name not in ("offset_delta", "timestamp_delta"):
            return ""
        records = field.parent.parent
        batch = None if records is None else records.parent
        if batch is None:
            return ""
        known = self._bases.get(batch.path)
        if known is None:
            known = self._bases[batch.path] = self._base(batch)
        if field.name == "offset_delta":
            return "" if known.offset is None else f"offset {known.offset + field.value:,}"
        if known.stamped is not None:
            return words.moment(known.stamped)
        time = None if known.timestamp is None else known.timestamp + field.value
        return words.moment(time) if time is not None and time >= 0 else ""

    def first(self, batch: FieldNode) -> int | None:
        """Return the log offset of the first record of a produced batch; None if unknown."""
        return self._log_offset(batch) if self._produces else None

    def _base(self, batch: FieldNode) -> _Base:
        values = _values(batch)
        offset = self._log_offset(batch) if self._produces else values.get("base_offset")
        timestamp, attributes = values.get("base_timestamp"), values.get("attributes", 0)
        stamped = values.get("max_timestamp") if attributes & LOG_APPEND else None
        return _Base(offset, timestamp if timestamp != -1 else None, stamped)

    def _log_offset(self, batch: FieldNode) -> int | None:
        """Return the log offset of a produced batch according to the response; None if that does not contain it."""
        field = batch.parent
        found = None if field is None else _FIELD.fullmatch(field.path)
        base = None if found is None else self._answered(int(found[1]), int(found[2]))
        if base is None or field is None:
            return None
        for before in field.children:
            if before is batch:
                return base
            base += _values(before).get("last_offset_delta", 0) + 1
        return None

    def _answered(self, at: int, position: int) -> int | None:
        exchange = self._exchange
        request = exchange.request_body
        response = exchange.response_body
        topics = rows(request, "topic_data")
        partitions = rows(topics[at], "partition_data") if at < len(topics) else []
        if position >= len(partitions):
            return None
        for holder in rows(response, "responses"):
            if any(holder.get(name) != topics[at].get(name) for name in ("name", "topic_id")):
                continue
            for row in rows(holder, "partition_responses"):
                if index(row) == index(partitions[position]) and not row.get("error_code"):
                    base = number(row, "base_offset")
                    return base if base >= 0 else None
        return None


def _values(batch: FieldNode) -> dict[str, int]:
    return {child.name: child.value for child in batch.children if isinstance(child.value, int)}
