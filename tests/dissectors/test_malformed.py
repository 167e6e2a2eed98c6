"""Malformed bytes: only DecodeError, at a sensible position, quickly, in bounded memory, keeping earlier data."""

from __future__ import annotations

import tracemalloc
from random import Random
from typing import Any

import pytest

from dissectors import apis, wire
from dissectors.errors import DecodeError
from dissectors.message_version import MessageVersion
from dissectors.trace import Node, Trace
from tests.dissectors.test_generated import by_key
from tests.dissectors.values import Values, every_layout, label

SAMPLED = 24  # truncations of a layout's message, and mutations of it
HUGE_COUNTS = (
    b"\x7f\xff\xff\xff",  # classic: 2^31 - 1 elements
    b"\x80\x00\x00\x00",  # classic: the most negative length
    b"\xff\xff\xff\xff\x07",  # compact: 2^31 - 1
    b"\xff\xff\xff\xff\x0f",  # compact: 2^32 - 1, the most that five bytes mean to Kafka
    b"\xff\xff\xff\xff\xff\xff",  # a varint that does not end
    b"\x80\x80\x00",  # zero in three bytes
)


def sample(layout: MessageVersion) -> tuple[dict[str, Any], bytes]:
    value = Values(f"{label(layout)} malformed").draw(layout.struct)
    return value, layout.build(value)


def decoded(layout: MessageVersion, data: bytes) -> Any:
    """The value, or the error, which must be well described."""
    try:
        return layout.decode(data)
    except DecodeError as error:
        fault = error
    assert fault.reason
    assert "generated decoder" not in fault.reason, f"{label(layout)} {data.hex()}"
    assert 0 <= fault.offset <= len(data), f"{label(layout)} {data.hex()}"
    return fault


def check_agreement(layout: MessageVersion, data: bytes) -> None:
    """Assert that generated and traced reading accept the same bytes with the same value, and reject the same."""
    made, traced = decoded(layout, data), layout.trace(data)
    where = f"{label(layout)} {data.hex()}"
    if isinstance(made, DecodeError):
        assert traced.error is not None, where
        assert (traced.error.reason, traced.error.offset) == (made.reason, made.offset), where
        assert incomplete(traced) == made.field_path, where
    else:
        value, end = made
        assert traced.error is None, where
        # repr: a mutated float may be NaN, which equals nothing
        assert (repr(sort_keys(traced.root.to_value())), traced.end) == (repr(sort_keys(value)), end), where


def sort_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value, key=str)}
    return [sort_keys(item) for item in value] if isinstance(value, list | tuple) else value


def incomplete(traced: Trace) -> str:
    """Path of the innermost node that has no end."""
    return [path for path, node in traced.root.walk() if node.end < 0][-1]


@pytest.mark.slow
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_truncation_says_so_and_keeps_what_came_before(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        _, data = sample(layout)
        whole = dict(layout.trace(data).root.walk())
        rng = Random(label(layout))
        cuts = range(len(data)) if len(data) < SAMPLED else sorted(rng.sample(range(len(data)), SAMPLED))
        for cut in cuts:
            error = decoded(layout, data[:cut])
            assert isinstance(error, DecodeError), f"{label(layout)} cut at {cut}"
            assert error.truncated
            check_agreement(layout, data[:cut])
            kept = dict(layout.trace(data[:cut]).root.walk())
            for path, node in whole.items():
                if 0 <= node.end <= cut and node.children is None:
                    assert same(kept[path], node), f"{label(layout)} {path} lost by a cut at {cut}"


def same(one: Node, other: Node) -> bool:
    return (one.start, one.end, one.value) == (other.start, other.end, other.value)


@pytest.mark.sample(4)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_flipped_bytes(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        _, data = sample(layout)
        rng = Random(label(layout))
        for _ in range(SAMPLED if data else 0):
            mutated = bytearray(data)
            for _ in range(rng.choice((1, 1, 2, 8))):
                at = rng.randrange(min(len(data), rng.choice((40, len(data)))))
                mutated[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, mutated[at] ^ 1 << rng.randrange(8)))
            check_agreement(layout, bytes(mutated))


@pytest.mark.sample(17)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_huge_lengths_and_noise(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        _, data = sample(layout)
        rng = Random(label(layout))
        for huge in HUGE_COUNTS:
            at = rng.randrange(min(len(data), 60) + 1)
            check_agreement(layout, data[:at] + huge + data[at + rng.choice((0, 1, 4)) :])
        for size in (1, 5, 40, 300):
            check_agreement(layout, rng.randbytes(size))
            check_agreement(layout, bytes(size))
            check_agreement(layout, b"\xff" * size)


@pytest.mark.slow
def test_bytes_left_over_are_an_error() -> None:
    for layout in every_layout():
        if layout.older:
            continue
        _, data = sample(layout)
        with pytest.raises(DecodeError, match="1 bytes left over") as caught:
            layout.parse(data + b"\x00")
        assert caught.value.offset == len(data)
        assert not caught.value.truncated


@pytest.mark.sample(3)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_announced_elements_cost_nothing_before_they_come(layouts: list[MessageVersion]) -> None:
    """An array that announces 2^31 - 1 elements and has none, at every place in the layout."""
    tracemalloc.start()
    try:
        for layout in layouts:
            decoded(layout, b"")  # the decoder is generated when it is first used, which takes memory too
            for prefix, con in array_prefixes(layout):
                huge = b"\xff\xff\xff\xff\x07" if con.compact else b"\x7f\xff\xff\xff"
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                error = decoded(layout, prefix + huge)
                peak = tracemalloc.get_traced_memory()[1] - before
                assert isinstance(error, DecodeError)
                assert error.truncated
                assert peak < 1_000_000, f"{label(layout)} allocates {peak} bytes"
    finally:
        tracemalloc.stop()


def array_prefixes(layout: MessageVersion) -> list[tuple[bytes, wire.Array]]:
    """The bytes before each array among the top-level fields."""
    value: dict[str, Any] = {}
    found = []
    data = layout.build(value)
    traced = layout.trace(data)
    for member, node in zip(layout.struct.members, traced.root.children or (), strict=False):
        if isinstance(member.con, wire.Array):
            found.append((data[: node.start], member.con))
    return found
