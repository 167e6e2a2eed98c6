"""The frames of many exchanges at a time, with few reads of the file.

Exchanges are asked for in the order of the file, so their frames lie near each other: what is near is read at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.capture import SIZE_BYTES, Capture
from captures.packets import Source

Int64s = NDArray[np.int64]
Side = Literal["request", "response"]
SIDES: tuple[Side, Side] = ("request", "response")

_WINDOW = 20
"""Bits of a file offset within the piece of the file that is read at once."""
_NEAR = 8192
"""Bytes that may lie between two frames so that one read of both is faster than one of each."""


def payloads(capture: Capture, rows: Int64s, side: Side) -> list[bytes | None]:
    """Return frames without their size field.

    :param rows: rows of the table that have a frame on that side
    :returns: None for a frame that cannot be had at a glance, such as a damaged one; :meth:`Capture.frame` tells more
    """
    table = capture.table
    streams = _streams(capture, rows, side)
    starts = table.column(f"{side}_position")[rows] + SIZE_BYTES
    sizes = table.column(f"{side}_size")[rows].astype(np.int64) - SIZE_BYTES
    ends = starts + sizes
    decrypted = np.isin(streams >> 1, list(capture.decryption.tls))
    found: list[bytes | None] = [None] * len(rows)
    for index, chosen in ((capture.index, ~decrypted), (capture.decryption.plaintext, decrypted)):
        mine = np.flatnonzero(chosen)
        if len(mine):
            frame, offset, length = index.pieces_of_many(streams[mine], starts[mine], ends[mine])
            first = np.flatnonzero(np.diff(frame, prepend=-1))
            whole = mine[frame[first]]
            data = _join(_read(capture.source, offset, length), first.tolist())
            for row, payload, size in zip(whole.tolist(), data, sizes[whole].tolist(), strict=True):
                found[row] = payload if len(payload) == size else None
    return found


def _streams(capture: Capture, rows: Int64s, side: Side) -> Int64s:
    """Return the streams that carry the frames."""
    met, which = np.unique(capture.table.column("connection")[rows], return_inverse=True)
    clients = np.array([capture.client_stream(connection) for connection in met.tolist()], np.int64)
    streams: Int64s = clients[which] ^ (side == "response")
    return streams


def _read(source: Source, offset: Int64s, length: Int64s) -> list[bytes]:
    """Return pieces of the file; one that cannot be read is empty, or cut."""
    pieces = [b""] * len(offset)
    order = np.argsort(offset, kind="stable")
    windows = np.flatnonzero(np.diff(offset[order] >> _WINDOW, prepend=-1))
    for chosen in np.split(order, windows)[1:]:
        begin, end = int(offset[chosen[0]]), int((offset[chosen] + length[chosen]).max())
        places = zip(chosen.tolist(), offset[chosen].tolist(), length[chosen].tolist(), strict=True)
        if source.held(begin) and end - begin <= int(length[chosen].sum()) + _NEAR * len(chosen):
            data = source.read(begin, end - begin)
            for piece, at, size in places:
                pieces[piece] = data[at - begin : at - begin + size]
        else:
            for piece, at, size in places:
                pieces[piece] = source.read(at, size) if source.held(at) else b""
    return pieces


def _join(pieces: list[bytes], starts: list[int]) -> Iterator[bytes]:
    """Put frames together, whose pieces follow each other."""
    for start, end in pairwise((*starts, len(pieces))):
        yield pieces[start] if end == start + 1 else b"".join(pieces[start:end])
