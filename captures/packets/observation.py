"""The time until which each connection was observed: no later than the end of the files that may have its packets."""

from __future__ import annotations

import numpy as np

from captures.arrays import Int64s, distinct_values
from captures.packets.joined_source import PLACE_BITS
from captures.packets.source import KEPT
from dissectors.units import SECOND

NO_FILE = -1
_DISORDER = SECOND
"""ns by which a file's first packet may precede the last one of the file that it continues."""


class Observation:
    """The time spans of a capture's files, and which file continues another.

    A file continues another if it starts where the other ends, and a connection has packets in both, as in the files
    of one rotated capture. Files of other hosts, or of another day, do not.

    :ivar spans: number of a file -> times of its first and its last packet, ns since the epoch
    :ivar links: pairs of files: a connection has packets in the first and, next, in the second
    """

    def __init__(self) -> None:
        self.spans: dict[int, tuple[int, int]] = {}
        self.links: set[tuple[int, int]] = set()
        self._ends: dict[int, int] | None = None

    def take(self, offsets: Int64s, times: Int64s, before: Int64s) -> Int64s:
        """Add packets; return the number of the file of each.

        :param offsets: offsets of their payload in the source
        :param before: number of the file in which each packet's connection was seen last
        """
        files = np.where(offsets < KEPT, offsets >> PLACE_BITS, NO_FILE)
        files = np.where(files < 0, before, files)
        for file in distinct_values(files[files >= 0]).tolist():
            of_file = times[files == file]
            self._span(file, int(of_file.min()), int(of_file.max()))
        moved = np.flatnonzero((files != before) & (before != NO_FILE))
        self.links.update(zip(before[moved].tolist(), files[moved].tolist(), strict=True))
        return files

    def add(self, other: Observation) -> None:
        """Add the observations of another part of the capture."""
        for file, span in other.spans.items():
            self._span(file, *span)
        self.links |= other.links
        self._ends = None

    def ends(self, files: Int64s | np.int64, latest: int) -> Int64s:
        """Return until when connections were observed, ns since the epoch.

        :param files: files in which they were seen last; a single number returns a zero-dimensional array
        :param latest: latest time of the whole capture, for connections whose file is unknown
        """
        if self._ends is None:
            self._ends = self._found()
        known = self._ends
        if not np.ndim(files):
            return np.array(known.get(int(files), latest), np.int64)
        distinct, which = np.unique(files, return_inverse=True)
        found = np.array([known.get(file, latest) for file in distinct.tolist()], np.int64)
        return found[which]

    def _found(self) -> dict[int, int]:
        """Return the end of each file, including the files that continue it."""
        ends = {file: last for file, (_, last) in self.spans.items()}
        continued: dict[int, list[int]] = {}
        for file, later in self.links:
            if file in ends and later in ends and self._continues(file, later):
                continued.setdefault(file, []).append(later)
        for file in sorted(continued, key=ends.__getitem__, reverse=True):
            ends[file] = max(ends[later] for later in continued[file])
        return ends

    def _span(self, file: int, first: int, last: int) -> None:
        known = self.spans.get(file, (first, last))
        self.spans[file] = min(known[0], first), max(known[1], last)
        self._ends = None

    def _continues(self, file: int, later: int) -> bool:
        end, (begin, later_end) = self.spans[file][1], self.spans[later]
        return end - _DISORDER <= begin and end < later_end
