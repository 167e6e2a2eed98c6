"""Record sets in words: ``35 records 3.2k lz4``. Only batch headers are read, nothing is decompressed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from captures.meaning import words
from dissectors.records import Batch, Codec, record_set

_CODECS = [codec.name.lower() for codec in Codec]


@dataclass(slots=True)
class Payload:
    """What the ``records`` fields of a message add up to.

    :ivar records: records announced by batch headers, without control records
    :ivar uncounted: compressed legacy messages, which do not tell how many are in them
    :ivar markers: control records: transaction markers and KRaft's own
    :ivar size: bytes of all fields, incomplete batches at their ends included
    :ivar batches: complete batches
    :ivar partial: bytes of incomplete batches
    :ivar codecs: names of the codecs met, in order
    :ivar magics: message formats met, in order
    :ivar damaged: record sets that could not be read to their end
    """

    records: int = 0
    uncounted: int = 0
    markers: int = 0
    size: int = 0
    batches: int = 0
    partial: int = 0
    codecs: list[str] = field(default_factory=list)
    magics: list[int] = field(default_factory=list)
    damaged: int = 0

    def text(self) -> str:
        """Put it into words; empty if there are no bytes."""
        if not self.size:
            return ""
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
        said = [" + ".join(parts), words.size(self.size)]
        if self.codecs != ["none"]:
            said.append("+".join(self.codecs))
        if self.magics != [2]:
            said.append(f"magic {'+'.join(map(str, self.magics))}")
        if self.damaged:
            said.append("damaged")
        return " ".join(said)


def headers(data: Any) -> list[Batch]:
    """Return the complete batches of a records field; empty for null, absent, or already decoded ones."""
    return record_set(data).batches if data and isinstance(data, bytes) else []


def payload(fields: Iterable[Any]) -> Payload:
    """Add up records fields: bytes, None, or whatever else, which is skipped."""
    out = Payload()
    for data in fields:
        if data and isinstance(data, bytes):
            _add(out, data)
    return out


def _add(out: Payload, data: bytes) -> None:
    found = record_set(data)
    out.size += len(data)
    out.batches += len(found.batches)
    if found.problems:
        out.damaged += 1
    if found.trailing is not None:
        out.partial += found.trailing.size
    for batch in found.batches:
        if batch.control:
            out.markers += batch.count or 0
        elif batch.count is None:
            out.uncounted += 1
        else:
            out.records += batch.count
        codec = _CODECS[batch.attributes & 7]
        if codec not in out.codecs:
            out.codecs.append(codec)
        if batch.magic not in out.magics:
            out.magics.append(batch.magic)
