"""Record data: what Produce, Fetch, ShareFetch and FetchSnapshot carry in their ``records`` fields.

Message sets of magic 0 and 1, record batches of magic 2, control records, and all five codecs. Reading
has three depths: :func:`record_set` reads batch headers only, :meth:`Batch.read` and :func:`columns`
decompress and decode one batch, :func:`trace_records` notes the bytes of every field. None of them raises
on bad bytes: what is wrong stands beside what was read.
"""

from dissectors.records.batch import Batch
from dissectors.records.build import build_batch
from dissectors.records.codecs import (
    Codec,
    Inflated,
    compress,
    decompress,
    inflate,
)
from dissectors.records.columns import Columns, columns
from dissectors.records.control import ControlRecord, ControlType, control_record
from dissectors.records.record import Decoded, Record
from dissectors.records.sets import RecordSet, Trailing, batches, record_set
from dissectors.records.spans import Span
from dissectors.records.trace import Trace, trace_batch, trace_records

__all__ = [
    "Batch",
    "Codec",
    "Columns",
    "ControlRecord",
    "ControlType",
    "Decoded",
    "Inflated",
    "Record",
    "RecordSet",
    "Span",
    "Trace",
    "Trailing",
    "batches",
    "build_batch",
    "columns",
    "compress",
    "control_record",
    "decompress",
    "inflate",
    "record_set",
    "trace_batch",
    "trace_records",
]
