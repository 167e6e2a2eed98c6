"""Summaries of record sets: ``35 records 3.2k lz4``. Only batch headers are read, nothing is decompressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from captures.meaning import words
from captures.meaning.exchange import Body
from captures.meaning.plans import paths, plan, walk
from dissectors import wire
from dissectors.codec import CODEC_LABELS, CODEC_MASK
from dissectors.left_out import original_size
from dissectors.records import Batch, record_set
from dissectors.sides import Side


class Payload(msgspec.Struct):
    """Totals of the ``records`` fields of a message.

    :ivar records: records announced by batch headers, without control records
    :ivar uncounted: compressed legacy messages, which have no record count
    :ivar markers: control records: transaction markers and KRaft's own
    :ivar size: bytes of all fields, incomplete batches at their ends included
    :ivar batches: complete batches
    :ivar partial: bytes of incomplete batches
    :ivar left_out: bytes of records that the source of the capture lacks
    :ivar codecs: names of the codecs found, in order
    :ivar magics: message formats found, in order
    :ivar damaged: record sets that could not be read to their end
    :ivar in_words: the text, if it is already known
    """

    records: int = 0
    uncounted: int = 0
    markers: int = 0
    size: int = 0
    batches: int = 0
    partial: int = 0
    left_out: int = 0
    codecs: list[str] = []
    magics: list[int] = []
    damaged: int = 0
    in_words: str = ""

    def text(self) -> str:
        """Return the text; empty if there are no bytes."""
        if self.in_words:
            return self.in_words
        if not self.size:
            return ""
        if self.left_out and not self.batches:
            return f"records {words.size(self.size)}"
        if not self.batches:
            return (
                f"damaged records {words.size(self.size)}"
                if self.damaged
                else f"part of a batch {words.size(self.size)}"
            )
        parts = []
        if self.records or not (self.uncounted or self.markers):
            parts.append(words.counted(self.records, "record"))
        if self.uncounted:
            parts.append(words.counted(self.uncounted, "compressed set"))
        if self.markers:
            parts.append(words.counted(self.markers, "marker"))
        shown = [" + ".join(parts), words.size(self.size)]
        if self.codecs != ["none"]:
            shown.append("+".join(self.codecs))
        if self.magics != [2]:
            shown.append(f"magic {'+'.join(map(str, self.magics))}")
        if self.damaged:
            shown.append("damaged")
        return " ".join(shown)


def headers(data: Any) -> list[Batch]:
    """Return the complete batches of a records field; empty for null, absent, or already decoded ones."""
    return record_set(data).batches if data and isinstance(data, bytes) else []


def _records_fields(struct: wire.Struct) -> tuple[str, ...]:
    return tuple(
        member.name
        for member in struct.all_members
        if isinstance(member.con, wire.Records) or member.field.type.content == "unaligned_records"
    )


def record_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the records fields of a message."""
    return paths(_records_fields, key, version, side)


def record_fields(key: int, version: int, body: Body | None, side: Side) -> Iterator[Any]:
    """Yield the values of a body's records fields: bytes, null, or batches prepared for display."""
    if body:
        for struct, fields in walk(plan(_records_fields, key, version, side), body):
            for name in fields:
                yield struct.get(name)


class Tally(NamedTuple):
    """Totals of the headers of record batches.

    :ivar records: announced records, without control records, and without those in compressed legacy messages
    :ivar batches: complete batches
    :ivar size: bytes of these batches
    """

    records: int
    batches: int
    size: int


def tally(fields: Iterable[Any]) -> Tally:
    """Sum up the complete batches of records fields."""
    records = batches = size = 0
    for data in fields:
        found = headers(data)
        batches += len(found)
        for batch in found:
            size += batch.end - batch.start
            if batch.count and not batch.control:
                records += batch.count
    return Tally(records, batches, size)


class RecordsPlaceholder(bytes):
    """Placeholder for records of which only the summary is known, which it contains."""


def payload(fields: Iterable[Any]) -> Payload:
    """Sum up records fields: bytes or None; anything else is skipped."""
    out = Payload()
    for data in fields:
        if type(data) is RecordsPlaceholder:
            out.in_words = data.decode()
        elif data and isinstance(data, bytes):
            _add(out, data)
    return out


def _add(out: Payload, data: bytes) -> None:
    found = record_set(data)
    out.size += original_size(data)
    out.batches += len(found.batches)
    if found.problems:
        out.damaged += 1
    if found.trailing is not None and found.trailing.kind == "left_out":
        out.left_out += found.trailing.size
    elif found.trailing is not None:
        out.partial += found.trailing.size
    for batch in found.batches:
        if batch.control:
            out.markers += batch.count or 0
        elif batch.count is None:
            out.uncounted += 1
        else:
            out.records += batch.count
        codec = CODEC_LABELS[batch.attributes & CODEC_MASK]
        if codec not in out.codecs:
            out.codecs.append(codec)
        if batch.magic not in out.magics:
            out.magics.append(batch.magic)
