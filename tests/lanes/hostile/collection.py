"""The collection of hostile files, by name."""

from __future__ import annotations

from tests.lanes.hostile import crowds, files, messages, packets, records, request_logs
from tests.lanes.hostile.attack import ATTACKS, Attack

__all__ = ["ATTACKS", "PARTS", "Attack"]

#: modules that declare the files of the collection
PARTS = (packets, files, messages, records, crowds, request_logs)
