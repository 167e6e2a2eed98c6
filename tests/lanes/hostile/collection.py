"""The collection: every hostile file, by its name."""

from __future__ import annotations

from tests.lanes.hostile import crowds, files, messages, packets, records, request_logs
from tests.lanes.hostile.attack import ATTACKS, Attack

__all__ = ["ATTACKS", "PARTS", "Attack"]

#: modules whose files make up the collection
PARTS = (packets, files, messages, records, crowds, request_logs)
