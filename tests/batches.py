"""Batches for tests; what builds them is :func:`dissectors.records.build.build_batch`."""

from __future__ import annotations

from dissectors.records import Batch, record_set


def batches(data: bytes) -> list[Batch]:
    """The complete batches of a records field before the first fault; headers only."""
    return record_set(data).batches
