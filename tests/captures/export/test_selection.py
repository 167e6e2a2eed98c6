"""Ranges of streams, and connections that are selected whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from captures.export.selection import Ranges, Selection
from tests.captures.export.files import SAMPLE, opened

stretch = st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 8))


@given(st.lists(stretch, max_size=12), st.lists(stretch, min_size=1, max_size=12))
def test_touching_is_sharing_a_byte(known: list, asked: list) -> None:
    held = {(stream, at) for stream, start, size in known for at in range(start, start + size)}
    # disjoint ranges, as made from frames
    single = sorted(held)
    ranges = Ranges(
        *(
            np.array(column, np.int64)
            for column in ([s for s, _ in single], [at for _, at in single], [at + 1 for _, at in single])
        )
    )
    stream, start, size = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    expected = [any((s, at) in held for at in range(b, b + n)) for s, b, n in asked]
    assert ranges.touches(stream, start, start + size).tolist() == expected


def test_nothing_is_touched_by_nothing() -> None:
    none, one = np.empty(0, np.int64), np.array([1])
    assert not Ranges(none, none, none).touches(one, one, one + 5).any()
    assert not Ranges(one, one, one + 5).touches(one, one, one).any()


def test_connections_and_what_is_whole() -> None:
    capture = opened(SAMPLE)
    connection = capture.table.column("connection")
    of_two = np.flatnonzero(connection == 2)
    selection = Selection(capture, [*of_two.tolist(), int(np.flatnonzero(connection == 3)[0])])
    assert selection.connections.tolist() == [2, 3]
    assert selection.whole.tolist() == [2]
    assert len(selection) == len(of_two) + 1
    assert not selection.elsewhere
    everything = Selection(capture)
    assert everything.rows.tolist() == capture.table.order().tolist()
    assert everything.whole.tolist() == everything.connections.tolist()
