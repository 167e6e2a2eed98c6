"""A connection is observed until the end of its file, and of the files that continue it."""

from __future__ import annotations

import numpy as np

from captures.packets.joined_source import base_of
from captures.packets.observation import NO_FILE, Observation
from captures.packets.source import KEPT
from dissectors.units import SECOND

LATEST = 100_000 * SECOND


class Connection:
    """Sends packets, each in a file and at a second."""

    def __init__(self, seen: Observation) -> None:
        self._seen = seen
        self.file = NO_FILE

    def sends(self, *packets: tuple[int, float]) -> Connection:
        for file, second in packets:
            offset, time = np.array([base_of(file) + 24]), np.array([int(second * SECOND)])
            (self.file,) = self._seen.take(offset, time, np.array([self.file])).tolist()
        return self


def end(seen: Observation, file: int) -> float:
    return int(seen.ends(np.array(file), LATEST)) / SECOND


def test_until_the_end_of_the_file() -> None:
    seen = Observation()
    Connection(seen).sends((0, 1), (0, 9))
    Connection(seen).sends((1, 18_000), (1, 18_060))
    assert (end(seen, 0), end(seen, 1)) == (9, 18_060)


def test_a_rotated_capture_goes_on_as_long_as_connections_do() -> None:
    seen = Observation()
    Connection(seen).sends((0, 1), (0, 10), (1, 9.5), (1, 20))  # one packet came late
    Connection(seen).sends((1, 12), (2, 21), (2, 30))
    assert [end(seen, file) for file in range(3)] == [30, 30, 30]


def test_a_capture_at_the_same_time_is_another_though_connections_are_in_both() -> None:
    seen = Observation()
    Connection(seen).sends((0, 1), (1, 5), (0, 10), (1, 60))
    assert (end(seen, 0), end(seen, 1)) == (10, 60)


def test_bytes_that_are_in_no_file_are_of_the_file_before() -> None:
    seen = Observation()
    connection = Connection(seen).sends((3, 1))
    files = seen.take(
        np.array([KEPT + 5, KEPT]), np.array([2 * SECOND] * 2), np.array([connection.file, NO_FILE])
    )
    assert files.tolist() == [3, NO_FILE]
    assert seen.ends(files, LATEST).tolist() == [2 * SECOND, LATEST]


def test_parts_of_a_capture_are_put_together() -> None:
    whole, parts = Observation(), [Observation(), Observation()]
    Connection(whole).sends((0, 1), (0, 10), (1, 11), (1, 20))
    Connection(parts[0]).sends((0, 1), (0, 10))
    Connection(parts[1]).sends((1, 11), (1, 20))
    parts[0].add(parts[1])
    assert (end(whole, 0), end(parts[0], 0)) == (20, 10)
    parts[0].links.add((0, 1))  # only known where the connection is reassembled
    parts[0].add(Observation())
    assert end(parts[0], 0) == 20
