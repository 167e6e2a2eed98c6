"""Record data: the ``records`` fields of Produce, Fetch, ShareFetch and FetchSnapshot.

Message sets of magic 0 and 1, record batches of magic 2, control records, and all codecs. There are three depths of
reading: :func:`record_set` reads batch headers only, :meth:`Batch.read` decompresses and decodes one batch,
:func:`trace_records` records the byte range of every field. None of them raises on malformed bytes: they return
the problems together with everything that was read.
"""

from dissectors.codec import Codec
from dissectors.records.batch import Batch
from dissectors.records.codecs import InflatedBytes, compress, inflate
from dissectors.records.control import ControlType, control_record
from dissectors.records.cursor import DECOMPRESSED
from dissectors.records.record import Record
from dissectors.records.sets import (
    RecordSet,
    TrailingEntry,
    first_batch,
    record_set,
)
from dissectors.records.trace import trace_records
