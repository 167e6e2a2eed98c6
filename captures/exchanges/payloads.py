"""The frames of many exchanges at a time, with few reads of the file.

Exchanges are requested in file order, so their frames are close to each other and are read together.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges.capture import Capture
from captures.packets import Source
from dissectors.headers import SIZE_BYTES
from dissectors.sides import Side

_WINDOW = 20
"""Binary logarithm of the size of a file window that is read at once."""
_NEAR = 8192
"""Bytes between two frames up to which one read is faster than two."""


class Frames(NamedTuple):
    """Frames of one side, read together; both sides may share ``data``.

    :ivar data: buffer with the frames
    :ivar starts: where each begins in ``data``, without its size field; -1 for a frame that is not simply readable,
        such as a damaged one: use :meth:`Capture.frame` for it
    :ivar ends: where it ends
    """

    data: bytearray
    starts: Int64s
    ends: Int64s

    def payload(self, index: int) -> bytes | None:
        """Return a copy of a frame; None for one that is not simply readable."""
        start = int(self.starts[index])
        return None if start < 0 else bytes(memoryview(self.data)[start : int(self.ends[index])])


def payloads(capture: Capture, rows: Int64s, side: Side) -> list[bytes | None]:
    """Return frames without their size field.

    :param rows: rows of the table that have a frame on that side
    :returns: None for a frame that is not simply readable, such as a damaged one: use :meth:`Capture.frame` for it
    """
    frames = read_frames(capture, {side: rows}, bytearray())[side]
    return [frames.payload(index) for index in range(len(rows))]


def read_frames(capture: Capture, rows: Mapping[Side, Int64s], room: bytearray) -> dict[Side, Frames]:
    """Return frames in one buffer: requests and responses are neighbours in the file, so one read returns both.

    :param rows: rows of the table that have a frame on that side
    :param room: buffer to be reused if it is large enough; its content is overwritten
    """
    column = capture.table.column
    firsts = np.cumsum([0, *map(len, rows.values())])
    found = [places_of(capture, chosen, side) for side, chosen in rows.items()]
    frame = np.concatenate([places.frame + first for places, first in zip(found, firsts, strict=False)])
    offset, length = (np.concatenate(columns) for columns in list(zip(*found, strict=True))[1:])
    sizes = np.concatenate([column(f"{side}_size")[chosen] for side, chosen in rows.items()]).astype(np.int64)
    data, starts, ends = _frames(capture.source, Places(frame, offset, length), sizes - SIZE_BYTES, room)
    return {
        side: Frames(data, starts[first:end], ends[first:end])
        for side, (first, end) in zip(rows, pairwise(firsts.tolist()), strict=True)
    }


class Places(NamedTuple):
    """Places of frames in a source, without their size fields: a row for each piece, the pieces of a frame in order.

    :ivar frame: index of the frame; a frame that is not simply readable has no piece
    """

    frame: Int64s
    offset: Int64s
    length: Int64s


def places_of(capture: Capture, rows: Int64s, side: Side) -> Places:
    """Return the places of frames.

    :param rows: rows of the table that have a frame on that side
    """
    streams = _streams(capture, rows, side)
    starts = capture.table.column(f"{side}_position")[rows] + SIZE_BYTES
    ends = starts + capture.table.column(f"{side}_size")[rows].astype(np.int64) - SIZE_BYTES
    tls = capture.decryption.tls
    decrypted = np.isin(streams >> 1, list(tls)) if tls else np.zeros(len(streams), bool)
    found = []
    for index, chosen in ((capture.index, ~decrypted), (capture.decryption.plaintext, decrypted)):
        mine = np.flatnonzero(chosen)
        frame, offset, length = index.pieces_of_many(streams[mine], starts[mine], ends[mine])
        found.append((mine[frame], offset, length))
    return Places(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def read_at(source: Source, indexes: Places, sizes: Int64s) -> list[bytes | None]:
    """Return frames by their places; None for one that has none, or can no longer be read.

    :param sizes: sizes of the frames
    """
    frames = _frames(source, indexes, sizes, bytearray())
    return [frames.payload(index) for index in range(len(sizes))]


def _frames(source: Source, indexes: Places, sizes: Int64s, room: bytearray) -> Frames:
    frame, offset, length = indexes
    found = np.full(len(sizes), -1, np.int64)
    # not the announced sizes: a damaged frame may announce gigabytes that do not exist
    total = int(length.sum())
    data = room if len(room) >= total else bytearray(total)
    if len(frame):
        first = np.flatnonzero(np.diff(frame, prepend=-1))
        into = np.cumsum(length) - length
        read = _read(source, offset, length, into, data)
        found[frame[first]] = np.where(np.logical_and.reduceat(read, first), into[first], -1)
    return Frames(data, found, np.where(found < 0, -1, found + sizes))


def _streams(capture: Capture, rows: Int64s, side: Side) -> Int64s:
    """Return the streams that carry the frames."""
    distinct, which = np.unique(capture.table.column("connection")[rows], return_inverse=True)
    clients = np.array([capture.client_stream(connection) for connection in distinct.tolist()], np.int64)
    streams: Int64s = clients[which] ^ (side == "response")
    return streams


def _read(source: Source, offset: Int64s, length: Int64s, indexes: Int64s, into: bytearray) -> Bools:
    """Read pieces of the file.

    :param indexes: where in ``into`` each is put
    :returns: a mask of the pieces that were read completely
    """
    found = np.zeros(len(offset), np.bool_)
    target = memoryview(into)
    order = np.argsort(offset, kind="stable")
    windows = np.flatnonzero(np.diff(offset[order] >> _WINDOW, prepend=-1))
    for chosen in np.split(order, windows)[1:]:
        begin, end = int(offset[chosen[0]]), int((offset[chosen] + length[chosen]).max())
        if source.held(begin) and end - begin <= int(length[chosen].sum()) + _NEAR * len(chosen):
            data = memoryview(source.read(begin, end - begin))
            chosen = chosen[offset[chosen] + length[chosen] <= begin + len(data)]
            found[chosen] = True
            first, start = offset[chosen] - begin, indexes[chosen]
            spans = (first, first + length[chosen], start, start + length[chosen])
            for first_byte, last, at, stop in zip(*(span.tolist() for span in spans), strict=True):
                target[at:stop] = data[first_byte:last]
        else:
            pieces = zip(
                offset[chosen].tolist(), length[chosen].tolist(), indexes[chosen].tolist(), strict=True
            )
            for piece, (at, size, place) in zip(chosen.tolist(), pieces, strict=True):
                data = memoryview(source.read(at, size) if source.held(at) else b"")
                if len(data) == size:
                    found[piece] = True
                    target[place : place + size] = data
    return found
