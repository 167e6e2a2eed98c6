"""Placeholders for bytes of known size but unknown content."""

from __future__ import annotations

import pytest

from dissectors.left_out import MARK, SIZE, is_placeholder, original_size, placeholder


@pytest.mark.parametrize("size", [0, 1, 2**31 - 1])
def test_the_size_is_read_back(size: int) -> None:
    data = placeholder(size)
    assert is_placeholder(data)
    assert (len(data), original_size(data)) == (SIZE, size)


@pytest.mark.parametrize(
    "data", [b"", MARK, MARK + b"\xff" * (SIZE - len(MARK)), placeholder(5) + b"\0", b"x" * SIZE]
)
def test_other_bytes_are_what_they_are(data: bytes) -> None:
    assert not is_placeholder(data)
    assert original_size(data) == len(data)


def test_no_size_is_negative() -> None:
    """Bytes of a client may look like a placeholder; their size must not be subtracted from sums."""
    assert original_size(MARK + b"\xff" * 4 + bytes(SIZE - len(MARK) - 4)) == 2**32 - 1
