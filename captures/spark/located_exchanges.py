"""Exchanges as typed rows that hold headers and the locations of the frames, which are read from the files in place.

Exchanges can thus be distributed among tasks while their payload stays in the files. Rows carry only those frames that
cannot be read in place: of encrypted connections, of compressed files, and the rest of damaged frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.exchanges import Exchange, ExchangeReader, ExchangeTable
from captures.exchanges.capture import FrameBytes
from captures.exchanges.notes import Note
from captures.exchanges.payloads import Places, places_of, read_at
from captures.exchanges.prefetch import PrefetchedRow
from captures.exchanges.table import COLUMNS
from captures.faults import Faults
from captures.interventions import Interventions
from captures.names import Names
from captures.packets import CaptureError, JoinedSource
from captures.packets.joined_source import PLACE_BITS
from captures.packets.source import KEPT
from captures.ranges.exchanges import NotesOfRows, RangeExchanges
from captures.ranges.headers import HeaderCapture
from captures.tables.schema import arrow_type
from dissectors.headers import SIZE_BYTES
from dissectors.session_context import SessionContext, SessionFacts
from dissectors.sides import SIDES, Side

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER = tuple(
    name
    for name in COLUMNS
    if name not in ("connection", "client_id", "request_position", "response_position")
)
_SQL = {np.int16: "smallint", np.uint16: "int", np.int32: "int", np.int64: "bigint"}
_FRAME = (
    "struct<offsets:array<bigint>,lengths:array<int>,payload:binary,have:int,complete:boolean,reason:string>"
)
_COLUMNS = {
    "number": "bigint",
    "connection": "int",
    "client": "string",
    "broker": "string",
    "client_id": "string",
    "has_client_id": "boolean",
    **{name: _SQL[COLUMNS[name][0]] for name in _HEADER},
    "file": "int",
    "request": _FRAME,
    "response": _FRAME,
    "noted": "string",
}
LOCATED = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
"""The columns of a row, as Spark SQL declares them.

``number`` and ``connection`` are those of the whole capture. A frame is a list of pieces in the files (offsets of
:class:`~captures.packets.joined_source.JoinedSource`), or a ``payload``, with the offset of its first missing byte and
the reason. ``file`` is the number of the file with the first byte, -1 if unknown. ``client_id`` is null if the request
has none; if it was not captured, ``has_client_id`` is false. ``noted`` is JSON: comment, mark and interventions.
"""


class _Annotations(NamedTuple):
    """Note and interventions of an exchange."""

    note: Note
    interventions: Interventions


def located_schema() -> pa.Schema:
    """Return the columns of :data:`LOCATED` as an Arrow schema."""
    import pyarrow as pa

    return pa.schema([(name, arrow_type(kind)) for name, kind in _COLUMNS.items()])


# ---------------------------------------------------------------- from a range
def located(part: RangeExchanges, indexes: Int64s) -> pa.RecordBatch:
    """Return exchanges of a range as rows.

    :param indexes: of the exchanges, in the order of their numbers
    """
    import pyarrow as pa

    table, rows = part.capture.table, part.rows[indexes]
    connections, client_ids = (
        table.column("connection")[rows],
        table.column("client_id")[rows].astype(np.int64),
    )
    texts = pa.array([*table.client_ids, None], pa.string())
    ends = [part.capture.endpoints(connection) for connection in distinct_values(connections).tolist()]
    which = np.searchsorted(distinct_values(connections), connections)
    columns = {
        "number": pa.array(part.numbers[indexes], pa.int64()),
        "connection": pa.array(part.connections[indexes], pa.int32()),
        "client": pa.array([client for client, _ in ends], pa.string()).take(pa.array(which)),
        "broker": pa.array([broker for _, broker in ends], pa.string()).take(pa.array(which)),
        "client_id": texts.take(pa.array(client_ids % len(texts))),
        "has_client_id": pa.array(client_ids >= 0),
    }
    for name in _HEADER:
        kind = pa.int32() if COLUMNS[name][0] is np.uint16 else pa.from_numpy_dtype(COLUMNS[name][0])
        columns[name] = pa.array(table.column(name)[rows]).cast(kind)
    files = np.full(len(rows), -1, np.int64)
    frames: dict[str, pa.Array] = {side: _frames(part, rows, side, files) for side in SIDES}
    for at in np.flatnonzero(files < 0).tolist():  # such as damaged frames
        files[at] = part.capture.first_byte(int(rows[at])) >> PLACE_BITS
    columns["file"] = pa.array(files, pa.int32())
    columns.update(frames)
    columns["noted"] = pa.array(_noted(part, rows), pa.string())
    return pa.RecordBatch.from_pydict(columns)


def _frames(part: RangeExchanges, rows: Int64s, side: Side, files: Int64s) -> pa.Array:
    """Return the locations, or else the payloads, of the frames of one side.

    :param files: file number of each exchange, filled in where it is still -1
    """
    import pyarrow as pa

    capture = part.capture
    sizes = capture.table.column(f"{side}_size")[rows]
    there = np.flatnonzero(sizes > 0)
    counts = np.zeros(len(rows), np.int64)
    frame, offsets, lengths = places_of(capture, rows[there], side)
    in_files = np.ones(len(there), np.bool_)
    in_files[frame[offsets >= KEPT]] = False
    order = np.argsort(frame, kind="stable")
    order = order[in_files[frame[order]]]
    frame, offsets, lengths = frame[order], offsets[order], lengths[order]
    first = np.flatnonzero(np.diff(frame, prepend=-1))
    at = there[frame[first]]
    files[at] = np.where(files[at] < 0, offsets[first] >> PLACE_BITS, files[at])
    if part.in_place:
        counts[there] = np.bincount(frame, minlength=len(there))
    else:
        offsets = lengths = offsets[:0]
    payloads: list[FrameBytes | None] = [None] * len(rows)
    for at in there[counts[there] == 0].tolist():
        row = capture.table.row(int(rows[at]))
        payloads[at] = capture.frame(row["connection"], side, row[f"{side}_position"], row[f"{side}_size"])
    begins = pa.array(np.append(0, np.cumsum(counts)).astype(np.int32))
    frames = [None if each is None else each for each in payloads]
    return pa.StructArray.from_arrays(
        [
            pa.ListArray.from_arrays(begins, pa.array(offsets, pa.int64())),
            pa.ListArray.from_arrays(begins, pa.array(lengths, pa.int32())),
            pa.array([None if each is None else each.payload for each in frames], pa.binary()),
            pa.array([None if each is None else each.have for each in frames], pa.int32()),
            pa.array([None if each is None else each.complete for each in frames], pa.bool_()),
            pa.array([None if each is None else each.reason for each in frames], pa.string()),
        ],
        ["offsets", "lengths", "payload", "have", "complete", "reason"],
        mask=pa.array(sizes <= 0),
    )


def _noted(part: RangeExchanges, rows: Int64s) -> list[str | None]:
    notes, table = part.capture.notes, part.capture.table
    annotated = {*notes.all(), *notes.intervened(), *(notes.given if isinstance(notes, NotesOfRows) else ())}
    found: list[str | None] = [None] * len(rows)
    for at, row in enumerate(rows.tolist()) if annotated else ():
        if row in annotated:
            noted = _Annotations(notes.of(row), notes.interventions(row, table.row(row)))
            found[at] = msgspec.json.encode(noted).decode()
    return found


# ---------------------------------------------------------------- back to exchanges
class LocatedCapture(HeaderCapture):
    """Exchanges received as rows; connections have the ids of the whole capture.

    :param source: all files
    :param rows: as :func:`located` returns them
    :ivar numbers: numbers of the exchanges, by row of the table
    """

    def __init__(self, source: JoinedSource, rows: pa.RecordBatch, names: Names) -> None:
        self._ends_of: dict[int, tuple[str, str]] = {}
        super().__init__(_table(rows), ())
        self.source = source
        self.names = names
        self.numbers = rows.column("number").to_numpy()
        ends = zip(
            *(rows.column(name).to_pylist() for name in ("connection", "client", "broker")), strict=True
        )
        self._ends_of.update((connection, (client, broker)) for connection, client, broker in ends)
        given = {
            at: msgspec.json.decode(text, type=_Annotations)
            for at, text in enumerate(rows.column("noted").to_pylist())
            if text is not None
        }
        self.notes = notes = NotesOfRows(self.notes)
        notes.given.update(given)
        self.faults = Faults()
        self._rows = rows

    def endpoints(self, connection: int) -> tuple[str, str]:
        return self._ends_of[connection]

    def frames(self, side: Side) -> list[FrameBytes | None]:
        """Return the frames of one side, by row of the table.

        :raises CaptureError: if a file can no longer be read
        """
        column = self._rows.column(side)
        offsets, lengths = column.field("offsets"), column.field("lengths")
        counts = np.diff(offsets.offsets.to_numpy())
        indexes = Places(
            np.repeat(np.arange(len(counts)), counts),
            offsets.flatten().to_numpy(zero_copy_only=False),
            lengths.flatten().to_numpy(zero_copy_only=False).astype(np.int64),
        )
        sizes = self.table.column(f"{side}_size").astype(np.int64) - SIZE_BYTES
        found = read_at(self.source, indexes, sizes)
        names = ("payload", "have", "complete", "reason")
        rows = zip(*(column.field(name).to_pylist() for name in names), strict=True)
        made: list[FrameBytes | None] = []
        for there, count, read, (payload, have, complete, reason) in zip(
            column.is_valid().to_pylist(), counts.tolist(), found, rows, strict=True
        ):
            if not there:
                made.append(None)
            elif not count:
                made.append(FrameBytes(payload, complete, have, reason))
            elif read is None:
                raise CaptureError(
                    self.path_of(len(made)), 0, "bytes that were there cannot be read any more"
                )
            else:
                made.append(FrameBytes(read, True, SIZE_BYTES + len(read)))
        return made

    def path_of(self, row: int) -> str:
        """Return the file with the first byte of the exchange in `row`; empty if unknown."""
        number = self._rows.column("file")[row].as_py()
        return self.source.files[number].path if number >= 0 else ""

    def file_of(self, number: int) -> str:
        """Return the file with the first byte of exchange `number`; empty if unknown."""
        at = int(np.searchsorted(self.numbers, number))
        return self.path_of(at) if at < len(self.numbers) and self.numbers[at] == number else ""

    def exchanges(self, facts: SessionFacts, rows: Sequence[int] | None = None) -> Iterator[Exchange]:
        """Decode exchanges, in the order of the rows.

        :param facts: session facts of the whole capture
        :param rows: rows of the table; default: all
        :raises CaptureError: if a file can no longer be read
        """
        known = SessionContext()
        known.add(facts)
        return _LocatedReader(self, knowledge=known).several(range(len(self.table)) if rows is None else rows)


class _LocatedReader(ExchangeReader):
    def __init__(self, capture: LocatedCapture, **options: Any) -> None:
        stand_in: Any = capture
        super().__init__(stand_in, live=True, annotate=False, summary=False, **options)
        self.extend(np.arange(len(capture.numbers)))
        self._numbers = capture.numbers.tolist()
        rows = capture.table.rows(np.arange(len(capture.numbers)))
        frames = (capture.frames(side) for side in SIDES)
        rows_with_frames: Any = [PrefetchedRow(*each) for each in zip(rows, *frames, strict=True)]
        self._ahead = rows_with_frames  # nothing is left to prefetch

    def number(self, index: int) -> int:
        return int(self._numbers[index])

    def several(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        return map(self.exchange, indexes)


def _table(rows: pa.RecordBatch) -> ExchangeTable:
    table = ExchangeTable()
    codes = rows.column("client_id").dictionary_encode()
    numbers = [table.client_number(text.encode()) for text in codes.dictionary.to_pylist()]
    which = codes.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
    unnamed = table.client_number(None) if codes.null_count else -1
    client_ids = np.array([*numbers, unnamed], np.int64)[which]
    client_ids[~rows.column("has_client_id").to_numpy(zero_copy_only=False)] = -1
    columns = {name: rows.column(name).to_numpy(zero_copy_only=False) for name in ("connection", *_HEADER)}
    table.append(rows.num_rows, client_id=client_ids, **columns)
    return table
