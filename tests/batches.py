"""Batches for tests; :func:`dissectors.records.build.build_batch` builds them."""

from __future__ import annotations

from dissectors.records import Batch, record_set


def batches(data: bytes) -> list[Batch]:
    """Return the complete batches of a records field before the first fault, as headers only."""
    return record_set(data).batches
