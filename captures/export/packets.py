"""Original packets of a selection: copied whole, in their order, with their times, link types and comments.

Of a connection whose exchanges are all selected every packet is copied; of another those that carry a byte of a
selected frame (sent again or not), those that acknowledge one, and those that open and close the connection. A
packet may hold bytes of neighbouring frames too: it is copied as it was captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from captures.export.passes import UNKNOWN, Passes, Placed, is_control
from captures.export.selection import SIDES, Bools, Int64s, Selection
from captures.packets.records import Interface
from captures.packets.source import KEPT

#: returns the frame of a packet as it shall be written; arguments are the packets and which of them
Rewrite = Callable[[Placed, int], bytes]


class Original(NamedTuple):
    """A packet to be copied.

    :ivar interface: 0-based number in the capture
    :ivar time: ns since the epoch
    :ivar data: the frame, as far as it was captured
    :ivar wire: bytes it had on the wire
    :ivar comment: text, or empty
    """

    interface: int
    time: int
    data: bytes
    wire: int
    comment: str


def original_packets(
    selection: Selection,
    *,
    rewrite: Rewrite | None = None,
    marks: Mapping[int, str] | None = None,
) -> Iterator[tuple[list[Interface], list[Original], int]]:
    """Yield the packets of a selection, block by block of the file.

    With them come the interfaces declared so far, and the bytes of the file that were gone through.

    Connections in ``selection.elsewhere`` have no packets that could be copied; they are left out.

    :param rewrite: makes the frame to be written, in place of the captured one
    :param marks: row of the exchange table -> text, put on the packet with the first byte of the exchange
    """
    pending = _Marks(selection, marks or {})
    chosen = _Chosen(selection)
    for placed in Passes(selection.capture):
        block, records = placed.packets, placed.records
        found: list[Original] = []
        comments = block.comments
        for at in np.flatnonzero(chosen.of(placed)).tolist():
            row = int(placed.row[at])
            data = placed.frame(at) if rewrite is None else rewrite(placed, at)
            texts = [comments.get(int(block.number[at]), ""), *pending.take(placed, at)]
            found.append(
                Original(
                    int(records.interface[row]),
                    int(records.time[row]),
                    data,
                    int(records.wire[row]),
                    "\n".join(filter(None, texts)),
                )
            )
        yield placed.interfaces, found, block.file_offset + block.size


class _Chosen:
    """Tells which packets belong to a selection."""

    def __init__(self, selection: Selection) -> None:
        size = len(selection.capture.connections)
        self._any = np.zeros(size, np.bool_)
        self._any[selection.connections] = True
        self._any[list(selection.elsewhere)] = False
        self._whole = np.zeros(size, np.bool_)
        self._whole[selection.whole] = True
        self._ranges = selection.ranges
        self._fin: Int64s = selection.capture.connections.streams.fin_position

    def of(self, placed: Placed) -> Bools:
        """Return a mask over the packets of a block."""
        block, stream, position = placed.packets, placed.stream, placed.position
        connection = stream >> 1
        mine = self._any[connection] & (block.offset < KEPT)  # the last of several IP fragments shows nothing
        taken = mine & (self._whole[connection] | is_control(block.flags))
        rest = np.flatnonzero(mine & ~taken)
        if len(rest):
            taken[rest] = self._carries(stream[rest], position[rest], block.length[rest].astype(np.int64))
            silent = rest[(block.length[rest] == 0) & (placed.acknowledged[rest] != UNKNOWN)]
            taken[silent] = self._acknowledges(stream[silent], placed.acknowledged[silent])
        return np.asarray(taken, np.bool_)

    def _carries(self, stream: Int64s, position: Int64s, length: Int64s) -> Bools:
        touched: Bools = self._ranges.touches(stream, position, position + length) & (position != UNKNOWN)
        return touched

    def _acknowledges(self, stream: Int64s, acknowledged: Int64s) -> Bools:
        """Tell which bare acknowledgments are of selected bytes, of the handshake or of a FIN."""
        other = stream ^ 1
        touched = self._ranges.touches(other, acknowledged - 1, acknowledged)
        fin = self._fin[other]
        closing: Bools = (fin >= 0) & (acknowledged > fin)
        found: Bools = touched | closing | (acknowledged == 0)
        return found


class _Marks:
    """Texts that wait for the packet with the first byte of their exchange."""

    def __init__(self, selection: Selection, marks: Mapping[int, str]) -> None:
        capture = selection.capture
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        for index, text in marks.items():
            row = capture.table.row(index)
            side = 0 if row["request_size"] else 1
            stream = capture.client_stream(row["connection"]) ^ side
            self._waiting.setdefault(stream, []).append((row[f"{SIDES[side]}_position"], text))

    def take(self, placed: Placed, at: int) -> list[str]:
        """Return the texts for a packet; each is given once."""
        waiting = self._waiting.get(int(placed.stream[at]))
        start = int(placed.position[at])
        if not waiting or start == UNKNOWN:
            return []
        end = start + int(placed.packets.length[at])
        here = [entry for entry in waiting if start <= entry[0] < end]
        for entry in here:
            waiting.remove(entry)
        return [text for _, text in here]
