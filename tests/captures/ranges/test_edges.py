"""What ranges tell: columns of packets, and values as bytes."""

from __future__ import annotations

import numpy as np

from captures.ranges.edges import Packets, no_packets, pack, pair_of, unpack


def packets(numbers: list[int]) -> Packets:
    made = no_packets()
    columns = {name: np.array(numbers).astype(getattr(made, name).dtype) for name in Packets.__slots__}
    return Packets(**columns)


def test_a_pair_is_the_same_from_both_sides() -> None:
    one, other = (b"\x0a\0\0\1", 9092), (b"\x0a\0\0\1", 40000)
    assert pair_of(one, other) == pair_of(other, one) == (one, other)


def test_packets_joined_and_taken() -> None:
    joined = Packets.joined([packets([1, 2]), packets([]), packets([3])])
    assert len(joined) == 3
    for name in Packets.__slots__:
        assert getattr(joined, name).tolist() == [1, 2, 3]
        assert getattr(joined, name).dtype == getattr(no_packets(), name).dtype
        assert getattr(joined.take(np.array([2, 0])), name).tolist() == [3, 1]
    assert len(Packets.joined([])) == 0


def test_packed_values_come_back() -> None:
    back = unpack(pack(packets([5, 7])))
    assert back.number.tolist() == [5, 7]
    assert back.seq.dtype == np.uint32
