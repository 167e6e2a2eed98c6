"""Paths and bytes that are masked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kproxy.tui.detail import ByteBuffer, FieldNode, Role
from kproxy.tui.detail.secrets import Masks, merged, zeroed

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)).map(sorted).map(tuple), max_size=8)


def test_what_holds_a_secret() -> None:
    masks = Masks(["request.auth_bytes.password"])
    assert "request.auth_bytes.password" in masks
    assert "request.auth_bytes" not in masks
    assert masks.within("request.auth_bytes")
    assert not masks.within("request.auth")
    assert not masks.within("request.auth_bytes.password")


@given(RANGES)
def test_exactly_what_is_masked_is_zero(ranges: list[tuple[int, int]]) -> None:
    masked = merged(ranges)
    data = zeroed(b"\xff" * 50, masked)
    wanted = {offset for start, end in ranges for offset in range(start, end)}
    assert [byte == 0 for byte in data] == [offset in wanted for offset in range(50)]
    root = FieldNode("", "", Role.FIELD, "frame", None, 0, 0, 50)
    buffer = ByteBuffer("frame", data, root, masked)
    assert [buffer.is_masked(offset) for offset in range(50)] == [offset in wanted for offset in range(50)]
