from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.arrays import Int64s
from captures.packets import SegmentBlock, SegmentIndex, open_source
from captures.packets.table import Gaps
from tests.captures.packets import kit

NONE = np.empty(0, np.int64)
NO_GAPS = Gaps(NONE, NONE, NONE, NONE.astype(np.uint8), NONE, NONE)
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


@pytest.mark.slow
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
    ends, truth, offset = [0] * 4, dict[tuple[int, int], int](), 0
    for number, block in enumerate(blocks):
        rows = []
        for stream, hole, length in sorted(block, key=lambda row: row[0]):
            position = ends[stream] + hole
            rows.append((stream, position, offset, length, number * 100 + len(rows)))
            for step in range(length):
                truth[stream, position + step] = offset + step
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
    assert found == [(at, truth[stream, at]) for at in range(start, end) if (stream, at) in truth]
    missing = [at for at in range(start, end) if (stream, at) not in truth]
    if missing:
        with pytest.raises(kit.MissingBytesError) as caught:
            kit.read_stream(index, stream, start, end)
        assert caught.value.position == missing[0]
    else:
        assert kit.read_stream(index, stream, start, end) == bytes(
            CONTENT[truth[stream, at]] for at in range(start, end)
        )


def test_holes_of_gigabytes(content: Path) -> None:
    index = SegmentIndex(open_source(content))
    index.append(segment_block([(0, number << 31, number * 10, 10, number) for number in range(9)]))
    for number in range(9):
        assert (
            kit.read_stream(index, 0, number << 31, (number << 31) + 10)
            == CONTENT[number * 10 : number * 10 + 10]
        )
    assert index.pieces(0, 0, 9 << 31)[2].tolist() == [10] * 9


def many_blocks(content: Path, count: int) -> SegmentIndex:
    """Two streams, a hundred segments of ten bytes of each in a block; block n was captured at n."""
    index = SegmentIndex(open_source(content))
    for block in range(count):
        rows = [
            (stream, 1000 * block + 10 * at, (2000 * block + 1000 * stream + 10 * at) % 10_000, 10, block)
            for stream in (0, 1)
            for at in range(100)
        ]
        index.append(segment_block(rows))
    return index


@pytest.mark.slow
def test_chunks_are_packed_and_unpacked(content: Path) -> None:
    """More blocks than fit a chunk, and more chunks than stay unpacked."""
    count = 1000
    index = many_blocks(content, count)
    assert len(index._packed) > 2 * len(index._unpacked)
    for block in (0, count - 1, 500, 1, 40, 41):
        start = (2000 * block + 1000) % 10_000
        assert kit.read_stream(index, 1, 1000 * block, 1000 * block + 1000) == CONTENT[start : start + 1000]
    # from one block into the next
    position, offset, length = index.pieces(0, 995, 1015)
    assert (position.tolist(), offset.tolist(), length.tolist()) == (
        [995, 1000, 1010],
        [995, 2000, 2010],
        [5, 10, 5],
    )


def test_many_ranges_at_once(content: Path) -> None:
    index = many_blocks(content, 200)
    streams = np.array([1, 0, 0, 1, 5, 0], np.int64)
    starts = np.array([1995, 10, 150_000, 3, 0, 250_000], np.int64)
    ends = np.array([2005, 20, 150_025, 13, 10, 250_010], np.int64)
    ranges, offset, length = index.pieces_of_many(streams, starts, ends)
    found = sorted(zip(ranges.tolist(), offset.tolist(), length.tolist(), strict=True))
    assert found == [(1, 10, 10), (2, 0, 10), (2, 10, 10), (2, 20, 5), (3, 1003, 7), (3, 1010, 3)]


def test_what_is_old_is_forgotten(content: Path) -> None:
    index = many_blocks(content, 400)
    index.append(segment_block([(7, 0, 0, 10, 3)]))
    index.forget(200)
    kept = min(index._packed) * 40  # blocks in a chunk
    assert 150 < kept <= 200
    with pytest.raises(kit.MissingBytesError):
        kit.read_stream(index, 0, 0, 10)
    assert not len(index.pieces(1, 1000 * (kept - 1), 1000 * kept)[0])
    assert kit.read_stream(index, 0, 1000 * kept, 1000 * kept + 10) == CONTENT[:10]
    assert kit.read_stream(index, 7, 0, 10) == CONTENT[:10]
    index.forget(10_000)  # what is not packed yet stays
    assert kit.read_stream(index, 7, 0, 10) == CONTENT[:10]


@pytest.mark.slow
def test_it_is_small(content: Path) -> None:
    """Segments of full packets: less than one byte per hundred."""
    rng = np.random.default_rng(5)
    index, offset = SegmentIndex(open_source(content)), 0
    for block in range(30):
        rows = []
        for at in range(2700):
            offset += 16 + 66 * int(rng.integers(1, 4))
            rows.append((at % 20, block * 1_000_000 + at // 20 * 1448, offset, 1448, block))
            offset += 1448
        index.append(segment_block(sorted(rows)))
    assert sum(len(packed) for _, packed in index._packed.values()) < offset / 200


def test_a_file_that_shrank(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    index = SegmentIndex(open_source(path))
    index.append(segment_block([(0, 0, 5, 5, 1)]))
    assert kit.read_stream(index, 0, 0, 5) == b"56789"
    path.write_bytes(b"0123456")
    with pytest.raises(kit.MissingBytesError) as caught:
        kit.read_stream(index, 0, 0, 5)
    assert caught.value.position == 2
