from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.packets import MissingBytes, SegmentBlock, SegmentIndex, open_source
from captures.packets.table import Gaps, Int64s

NONE = np.empty(0, np.int64)
NO_GAPS = Gaps(NONE, NONE, NONE, NONE.astype(np.uint8), NONE)
CONTENT = bytes(range(251)) * 40


def segment_block(rows: list[tuple[int, int, int, int, int]]) -> SegmentBlock:
    """Rows of (stream, position, offset, length, time)."""
    columns: list[Int64s] = list(np.array(rows, np.int64).reshape(-1, 5).T)
    stream, position, offset, length, time = columns
    flags = np.zeros(len(rows), np.uint8)
    return SegmentBlock(
        stream, position, offset, length, time, time, time, flags, NO_GAPS, range(0), None, None
    )


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "content"
    path.write_bytes(CONTENT)
    return path


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(1, 40)), max_size=8), max_size=6
    ),
    st.data(),
)
@settings(deadline=None)
def test_index_against_a_plain_map(
    content: Path, blocks: list[list[tuple[int, int, int]]], data: st.DataObject
) -> None:
    """Blocks of (stream, hole before it, length): every byte is found where it is."""
    index = SegmentIndex(open_source(content))
    ends, truth, offset = [0] * 4, dict[tuple[int, int], tuple[int, int]](), 0
    for number, block in enumerate(blocks):
        rows = []
        for stream, hole, length in sorted(block, key=lambda row: row[0]):
            position = ends[stream] + hole
            rows.append((stream, position, offset, length, number * 100 + len(rows)))
            for step in range(length):
                truth[stream, position + step] = offset + step, rows[-1][4]
            ends[stream] = position + length
            offset += length
        index.append(segment_block(rows))
    stream = data.draw(st.integers(0, 4))
    start = data.draw(st.integers(0, 300))
    end = data.draw(st.integers(start, 320))
    found = [
        (at + step, place + step)
        for at, place, length in zip(
            *(part.tolist() for part in index.pieces(stream, start, end)), strict=True
        )
        for step in range(length)
    ]
    assert found == [(at, truth[stream, at][0]) for at in range(start, end) if (stream, at) in truth]
    missing = [at for at in range(start, end) if (stream, at) not in truth]
    if missing:
        with pytest.raises(MissingBytes) as caught:
            index.read(stream, start, end)
        assert (caught.value.stream, caught.value.position) == (stream, missing[0])
        with pytest.raises(MissingBytes):
            index.time_at(stream, missing[0])
    else:
        assert index.read(stream, start, end) == bytes(
            CONTENT[truth[stream, at][0]] for at in range(start, end)
        )
    for at in range(start, end):
        if (stream, at) in truth:
            assert index.time_at(stream, at) == truth[stream, at][1]


def test_holes_of_gigabytes(content: Path) -> None:
    index = SegmentIndex(open_source(content))
    index.append(segment_block([(0, number << 31, number * 10, 10, number) for number in range(9)]))
    for number in range(9):
        assert index.read(0, number << 31, (number << 31) + 10) == CONTENT[number * 10 : number * 10 + 10]
        assert index.time_at(0, (number << 31) + 9) == number
    assert index.pieces(0, 0, 9 << 31)[2].tolist() == [10] * 9


def test_a_file_that_shrank(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    index = SegmentIndex(open_source(path))
    index.append(segment_block([(0, 0, 5, 5, 1)]))
    assert index.read(0, 0, 5) == b"56789"
    path.write_bytes(b"0123456")
    with pytest.raises(MissingBytes) as caught:
        index.read(0, 0, 5)
    assert caught.value.position == 2
