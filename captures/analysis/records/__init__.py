"""The records in the messages of a capture or in log segments, one by one: their offsets, times, and contents.

:class:`~captures.analysis.records.listing.RecordListing` takes exchanges and yields their records,
:class:`~captures.analysis.records.log_listing.LogListing` does so with logs.
:mod:`captures.tables.batch_rows` reads them as bytes, and :mod:`captures.payloads` decodes the bytes.
"""

from captures.analysis.records.listing import CARRIERS, RecordListing
from captures.analysis.records.model import (
    AnyRecord,
    CapturedRecord,
    LoggedRecord,
    Origin,
    RecordSelection,
)

__all__ = [
    "CARRIERS",
    "AnyRecord",
    "CapturedRecord",
    "LoggedRecord",
    "Origin",
    "RecordListing",
    "RecordSelection",
]
