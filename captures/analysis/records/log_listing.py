"""The records of a partition's log segments, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from captures.analysis.journey.found_records import BatchPosition
from captures.analysis.records.listing import Listing
from captures.analysis.records.model import LoggedRecord, Origin, RecordSelection
from captures.faults import Faults
from captures.filters import Filter
from captures.log_segments import Damage, LogSurvey, StoredBatch, read_segment
from captures.log_segments.folders import base_offset
from dissectors.budget import message_budget


class LogListing(Listing):
    """Yields the records of logs. Records of batches whose checksum is wrong are left out, as by a broker.

    :param faults: collects batches that could not be listed because of a bug
    """

    def __init__(
        self,
        selection: RecordSelection,
        faults: Faults,
        *,
        wanted: Filter | None = None,
        show_secrets: bool = False,
    ) -> None:
        super().__init__(selection, wanted=wanted, show_secrets=show_secrets)
        self._faults = faults

    def of(self, survey: LogSurvey) -> Iterator[LoggedRecord]:
        """Yield the wanted records of a log, in its order.

        :raises OSError: if a segment cannot be read
        """
        first, last = self._selection.offsets
        for segment, following in pairwise((*survey.log.segments, None)):
            assert segment is not None
            if first is not None and following is not None and base_offset(following) <= first:
                continue
            for stored in read_segment(segment):
                if isinstance(stored, Damage):
                    continue
                if first is not None and stored.batch.last_offset < first:
                    continue
                if last is not None and stored.batch.count is not None and stored.batch.base_offset > last:
                    return
                records = self._of_batch(survey, str(segment), stored)
                yield from self._faults.contained_items(records, "listing records")

    def _of_batch(self, survey: LogSurvey, file: str, stored: StoredBatch) -> Iterator[LoggedRecord]:
        batch, tp = stored.batch, survey.log.tp
        records, problems = batch.read(message_budget())
        self._count(problems)
        for at, record in enumerate(records):
            if not self._fits(tp, record, record.offset):
                continue
            control, decoded, masked = self._meaning(tp.topic, batch, record)
            in_transaction = batch.transactional and not batch.control
            yield LoggedRecord(
                tp=tp,
                offset=record.offset,
                record=record._replace(value=None) if masked else record,
                timestamp_type=batch.timestamp_type,
                batch=BatchPosition.of(batch, at),
                origin=Origin.LOG,
                control=control,
                committed=survey.committed_at(batch.producer_id, record.offset) if in_transaction else None,
                decoded=decoded,
                masked=masked,
                file=file,
                position=stored.position,
            )
