"""Record data: what Produce, Fetch, ShareFetch and FetchSnapshot carry in their ``records`` fields.

Message sets of magic 0 and 1, record batches of magic 2, control records, and all codecs. Reading
has three depths: :func:`record_set` reads batch headers only, :meth:`Batch.read`
decompresses and decodes one batch, :func:`trace_records` notes the bytes of every field. None of them raises
on bad bytes: what is wrong stands beside what was read.
"""

from dissectors.codec import Codec
from dissectors.records.batch import Batch
from dissectors.records.codecs import InflatedBytes, compress, decompress, inflate
from dissectors.records.control import ControlType, control_record
from dissectors.records.cursor import DECOMPRESSED
from dissectors.records.record import Record
from dissectors.records.sets import RecordSet, TrailingEntry, left_out_records, record_set, records_size
from dissectors.records.trace import trace_records

__all__ = [
    "DECOMPRESSED",
    "Batch",
    "Codec",
    "ControlType",
    "InflatedBytes",
    "Record",
    "RecordSet",
    "TrailingEntry",
    "compress",
    "control_record",
    "decompress",
    "inflate",
    "left_out_records",
    "record_set",
    "records_size",
    "trace_records",
]
