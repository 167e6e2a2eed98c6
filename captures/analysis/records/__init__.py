"""The records that messages of a capture carry, one by one: where they are in the log, when, and what is in them.

:class:`~captures.analysis.records.listing.RecordListing` is shown exchanges and yields their records. What they are in
bytes is read by :mod:`captures.tables.batch_rows`, what the bytes mean is for :mod:`captures.payloads`.
"""

from captures.analysis.records.listing import CARRIERS, RecordListing
from captures.analysis.records.model import CapturedRecord, Origin, RecordSelection

__all__ = ["CARRIERS", "CapturedRecord", "Origin", "RecordListing", "RecordSelection"]
