"""Growing and ragged arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.exchanges.columns.arrays import (
    Dictionary,
    GrowingArray,
    GrowingRagged,
    RaggedArray,
    without_repeats,
)

LISTS = st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=30)


def ragged(lists):
    offsets = np.concatenate(([0], np.cumsum([len(each) for each in lists]))).astype(np.int64)
    return RaggedArray(np.array([value for each in lists for value in each], np.int32), offsets)


def lists_of(made):
    return [made[row].tolist() for row in range(len(made))]


@given(st.lists(st.lists(st.integers(0, 9), max_size=100), max_size=8))
def test_what_was_appended_is_there(parts):
    growing = GrowingArray(np.int32)
    views = []
    for part in parts:
        growing.append(part)
        views.append((growing.array, growing.array.tolist()))
    assert growing.array.tolist() == [value for part in parts for value in part]
    assert all(view.tolist() == before for view, before in views)


@pytest.mark.slow
@given(st.lists(LISTS, max_size=5), st.randoms())
def test_ragged_rows(blocks, random):
    growing = GrowingRagged(np.int32)
    for block in blocks:
        growing.append([value for row in block for value in row], [len(row) for row in block])
    rows = [row for block in blocks for row in block]
    made = growing.ragged
    assert lists_of(made) == rows
    assert made.counts.tolist() == [len(row) for row in rows]
    assert made.filled.tolist() == [bool(row) for row in rows]
    assert made.rows.tolist() == [number for number, row in enumerate(rows) for _ in row]
    assert made.any(made.values > 2).tolist() == [any(value > 2 for value in row) for row in rows]
    some = [random.randrange(len(rows)) for _ in range(4)] if rows else []
    assert lists_of(made.take(np.array(some, np.int64))) == [rows[row] for row in some]


@given(LISTS)
def test_repeats_within_a_row_are_found(rows):
    made = ragged(rows)
    once = without_repeats(made, made.values)
    assert [made.values[once].tolist()] == [[value for row in rows for value in dict.fromkeys(row)]]
    pairs = without_repeats(made, made.values, np.abs(made.values))
    assert pairs.tolist() == once.tolist()


def test_texts_have_codes():
    texts = Dictionary()
    assert [texts["a"], texts["b"], texts["a"]] == [0, 1, 0]
    assert texts.texts == ["a", "b"]
