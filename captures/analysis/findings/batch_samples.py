"""Which batches are looked into where looking into all of them would cost too much."""

from __future__ import annotations

_FIRST = 16


def worth_a_look(count: int) -> bool:
    """Tell whether the batch of this number (from 1) is one: the first 16, then ever fewer (32nd, 64th, 128th ...)."""
    return count <= _FIRST or not count & (count - 1)
