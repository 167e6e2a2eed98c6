"""The records in the messages of a capture, one by one: their places in the log, times, and contents.

:class:`~captures.analysis.records.listing.RecordListing` takes exchanges and yields their records.
:mod:`captures.tables.batch_rows` reads them as bytes, and :mod:`captures.payloads` decodes the bytes.
"""

from captures.analysis.records.listing import CARRIERS, RecordListing
from captures.analysis.records.model import CapturedRecord, Origin, RecordSelection

__all__ = ["CARRIERS", "CapturedRecord", "Origin", "RecordListing", "RecordSelection"]
