"""The connections of a capture and their two streams, as columns that grow in place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from captures.arrays import Bools, Int32s, Int64s
from captures.packets.observation import NO_FILE, Observation

_NONE = -1


class Direction(msgspec.Struct, frozen=True):
    """One direction of a :class:`Connection`; fields as the stream columns of :class:`Connections`."""

    packets: int
    end: int
    syn_seen: bool
    fin_time: int
    reset_time: int
    retransmitted: int
    reordered: int
    lost: int
    cut: int
    conflicting: int
    zero_windows: int


class Connection(msgspec.Struct, frozen=True):
    """One connection as a plain object; fields as the columns of :class:`Connections`."""

    id: int
    a: int
    b: int
    generation: int
    client_known: bool
    first_number: int
    first_time: int
    last_time: int
    handshake: int
    directions: tuple[Direction, Direction]

    @property
    def closed(self) -> str:
        """How it ended: ``reset by a``, ``closed by b`` (the side of the first FIN), or ``open``."""
        a, b = self.directions
        for what, times in (("reset", (a.reset_time, b.reset_time)), ("closed", (a.fin_time, b.fin_time))):
            by = [(time, side) for time, side in zip(times, "ab", strict=True) if time != _NONE]
            if by:
                return f"{what} by {min(by)[1]}"
        return "open"


_SHOWN = tuple(Connection.__struct_fields__)[1:-1]
"""Connection columns that :class:`Connection` copies."""


class _Default(NamedTuple):
    """Type and default value of a column."""

    dtype: type
    value: int


def _column(dtype: type, default: int = 0) -> Any:
    return _Default(dtype, default)


class _Columns:
    """Arrays of one length that grow together; capacity doubles, so growing is cheap on average.

    The attributes are views of the rows in use: read them again after rows were added.
    """

    _defaults: ClassVar[dict[str, _Default]]

    def __init_subclass__(cls) -> None:
        cls._defaults = {name: each for name, each in vars(cls).items() if isinstance(each, _Default)}

    def __init__(self) -> None:
        self._size = self._exposed = 0
        self._storage: dict[str, np.ndarray[Any, Any]] = {
            name: np.full(16, default, dtype) for name, (dtype, default) in self._defaults.items()
        }
        self._expose()

    def __len__(self) -> int:
        return self._size

    def grow(self, size: int) -> None:
        capacity = len(next(iter(self._storage.values())))
        if size > capacity:
            more = max(size, 2 * capacity) - capacity
            for name, (dtype, default) in self._defaults.items():
                self._storage[name] = np.concatenate([self._storage[name], np.full(more, default, dtype)])
        self._size = size
        if size > self._exposed:
            self._expose()

    def reserve(self, count: int) -> None:
        """Prepare for `count` rows that are added one by one: columns have them, blank, until :meth:`trim`."""
        size = self._size
        self.grow(size + count)
        self._size = size

    def trim(self) -> None:
        """Cut off reserved rows that were not added."""
        if self._exposed != self._size:
            self._expose()

    def values(self, row: int, names: Iterable[str]) -> dict[str, Any]:
        return {name: getattr(self, name).item(row) for name in names}

    def set(self, row: int, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            getattr(self, name)[row] = value

    def content(self) -> dict[str, Any]:
        """Return all columns, for :meth:`restore`."""
        return {name: getattr(self, name) for name in self._defaults}

    def restore(self, columns: Mapping[str, Any]) -> None:
        """Take the place of what another one had."""
        self._storage = {name: np.array(columns[name], dtype) for name, (dtype, _) in self._defaults.items()}
        self._size = len(next(iter(self._storage.values())))
        self._expose()

    def _expose(self) -> None:
        self._exposed = self._size
        for name, column in self._storage.items():
            setattr(self, name, column[: self._size])


class Streams(_Columns):
    """One row per stream, numbered ``2 * connection + direction``. Times in ns, -1 if not seen.

    :ivar syn_seen: position 0 is the first byte of the connection
    :ivar end: position after the last byte delivered or declared lost
    :ivar fin_time: capture time of the first FIN
    :ivar fin_position: stream position of the FIN
    :ivar reset_time: capture time of the first RST
    :ivar packets: packets, with or without payload
    :ivar retransmitted: payload bytes that were sent again
    :ivar reordered: segments that arrived before preceding bytes
    :ivar lost: bytes in gaps, except cut ones
    :ivar cut: bytes cut by the snapshot length
    :ivar conflicting: bytes sent again with other content; the first capture is kept
    :ivar outside: bytes dropped because their sequence numbers belong to no plausible window
    :ivar zero_windows: packets that announced a closed receive window
    :ivar next_seq: sequence number of the byte at `end`, -1 while unknown
    :ivar isn: initial sequence number, -1 if the SYN was not captured
    :ivar ack: last acknowledgment number sent by this side, -1 if none
    """

    syn_seen: Bools = _column(np.bool_)
    end: Int64s = _column(np.int64)
    fin_time: Int64s = _column(np.int64, _NONE)
    fin_position: Int64s = _column(np.int64, _NONE)
    reset_time: Int64s = _column(np.int64, _NONE)
    packets: Int64s = _column(np.int64)
    retransmitted: Int64s = _column(np.int64)
    reordered: Int64s = _column(np.int64)
    lost: Int64s = _column(np.int64)
    cut: Int64s = _column(np.int64)
    conflicting: Int64s = _column(np.int64)
    outside: Int64s = _column(np.int64)
    zero_windows: Int64s = _column(np.int64)
    next_seq: Int64s = _column(np.int64, _NONE)
    isn: Int64s = _column(np.int64, _NONE)
    ack: Int64s = _column(np.int64, _NONE)


class Connections(_Columns):
    """One row per connection, numbered by first packet.

    :ivar a: endpoint of direction 0: the client if `client_known`, else the sender of the first packet
    :ivar b: the other endpoint
    :ivar generation: number of earlier connections between the same endpoints
    :ivar client_known: the SYN or the SYN-ACK was captured
    :ivar first_number: number of the first packet
    :ivar first_time: capture time of the first packet
    :ivar last_time: capture time of the last packet so far
    :ivar last_file: number of the file with that packet, -1 if unknown
    :ivar syn_time: capture time of the client's first SYN, -1 if not captured
    :ivar handshake: ns from SYN to SYN-ACK, -1 unless both were captured, at different times
    :ivar streams: two rows per connection
    :ivar observation: the time spans that the files of the capture cover
    """

    a: Int32s = _column(np.int32, _NONE)
    b: Int32s = _column(np.int32, _NONE)
    generation: Int32s = _column(np.int32)
    client_known: Bools = _column(np.bool_)
    first_number: Int64s = _column(np.int64)
    first_time: Int64s = _column(np.int64)
    last_time: Int64s = _column(np.int64)
    last_file: Int64s = _column(np.int64, NO_FILE)
    syn_time: Int64s = _column(np.int64, _NONE)
    handshake: Int64s = _column(np.int64, _NONE)

    def __init__(self) -> None:
        super().__init__()
        self.streams = Streams()
        self.observation = Observation()

    def add(self, a: int, b: int, generation: int, time: int, number: int) -> int:
        new = len(self)
        self.grow(new + 1)
        self.streams.grow(2 * new + 2)
        self.a[new], self.b[new], self.generation[new] = a, b, generation
        self.first_time[new] = self.last_time[new] = time
        self.first_number[new] = number
        return new

    def reserve(self, count: int) -> None:
        super().reserve(count)
        self.streams.reserve(2 * count)

    def trim(self) -> None:
        super().trim()
        self.streams.trim()

    def closed_before(self, connections: Int64s, time: int) -> Bools:
        """Return a mask of the connections that were reset, or closed from both sides, before `time`."""
        streams = self.streams
        resets, fins = (
            np.stack((column[2 * connections], column[2 * connections + 1]))
            for column in (streams.reset_time, streams.fin_time)
        )
        ended: Bools = np.any((resets >= 0) & (resets < time), axis=0)
        ended |= np.all((fins >= 0) & (fins < time), axis=0)
        return ended

    def observed_until(self, connections: Int64s | int, latest: int) -> Int64s:
        """Return until when connections were observed, in ns since the epoch; zero-dimensional for a single one.

        :param latest: time of the latest packet of the capture
        """
        if not len(self):  # exchanges without packets
            return np.full(np.shape(connections), latest)
        return self.observation.ends(self.last_file[connections], latest)

    def __getitem__(self, connection: int) -> Connection:
        if not 0 <= connection < len(self):
            raise IndexError(connection)
        names = Direction.__struct_fields__
        one, other = (Direction(**self.streams.values(2 * connection + side, names)) for side in (0, 1))
        return Connection(id=connection, directions=(one, other), **self.values(connection, _SHOWN))
