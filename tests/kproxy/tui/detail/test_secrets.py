from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kproxy.tui.detail import ByteBuffer, FieldNode, Role
from kproxy.tui.detail.secrets import merged, zeroed

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted).map(tuple), max_size=8)


@given(RANGES)
def test_exactly_what_is_masked_is_zero(ranges: list[tuple[int, int]]) -> None:
    masked = merged(ranges)
    data = zeroed(b"\xff" * 50, masked)
    wanted = {offset for start, end in ranges for offset in range(start, end)}
    assert [byte == 0 for byte in data] == [offset in wanted for offset in range(50)]
    root = FieldNode("", "", Role.FIELD, "frame", None, 0, 0, 50)
    buffer = ByteBuffer("frame", data, root, masked)
    assert [buffer.is_masked(offset) for offset in range(50)] == [offset in wanted for offset in range(50)]
