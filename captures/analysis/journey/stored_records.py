"""Records of journeys in the logs that brokers keep on disk (:mod:`captures.log_segments`)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec

from captures.analysis.journey.model import Journey, LogPlace
from captures.analysis.journey.record_query import RecordQuery
from captures.log_segments import Damage, LogSurvey, StoredBatch, read_segment
from captures.log_segments.folders import base_offset
from dissectors.budget import message_budget
from dissectors.records import Record
from dissectors.units import MS


def unseen(sought: RecordQuery) -> list[Journey]:
    """Return the journey of a record of which the capture has nothing; none if it is not sought by its offset."""
    if sought.topic is None or sought.partition is None or sought.offset is None:
        return []
    return [Journey(sought.topic, sought.partition, sought.offset)]


def with_logs(journeys: list[Journey], surveys: list[LogSurvey]) -> list[Journey]:
    """Return journeys with what the logs of their partitions say of their records.

    :raises OSError: if a segment cannot be read
    """
    places: list[list[LogPlace]] = [[] for _ in journeys]
    for survey in surveys:
        own = [at for at, each in enumerate(journeys) if (each.topic, each.partition) == survey.log.tp]
        own.sort(key=lambda at: journeys[at].offset or 0)
        finder = _Finder(survey, [offset for at in own if (offset := journeys[at].offset) is not None])
        for at in own:
            places[at].append(finder.place(journeys[at]))
    return [replace(journey, logs=logs) for journey, logs in zip(journeys, places, strict=True)]


class _Finder:
    """Looks for records in one log.

    :param offsets: increasing
    """

    def __init__(self, survey: LogSurvey, offsets: list[int]) -> None:
        self._survey = survey
        self._nowhere = LogPlace(folder=str(survey.log.folder))
        self._stored: dict[int, tuple[Path, StoredBatch]] = {}
        self._damaged: dict[int, Damage] = {}
        self._decoded: tuple[StoredBatch, dict[int, Record], bool] | None = None
        for segment, following in pairwise((*survey.log.segments, None)):
            assert segment is not None
            begin = bisect_left(offsets, base_offset(segment))
            end = len(offsets) if following is None else bisect_left(offsets, base_offset(following))
            if begin < end:
                self._read(segment, deque(offsets[begin:end]))

    def _read(self, segment: Path, wanted: deque[int]) -> None:
        """Look for the batches of some offsets in a segment."""
        damaged: Damage | None = None
        for part in read_segment(segment):
            if isinstance(part, Damage):
                damaged = part if part.lossy else damaged
                continue
            while wanted and wanted[0] <= part.batch.last_offset:
                offset = wanted.popleft()
                if part.batch.base_offset <= offset:
                    self._stored[offset] = segment, part
                elif damaged is not None:
                    self._damaged[offset] = damaged
            if not wanted:
                return
            damaged = None
        if damaged is not None:
            self._damaged |= dict.fromkeys(wanted, damaged)

    def place(self, journey: Journey) -> LogPlace:
        """Return where a record is, or why it is not there."""
        survey, offset = self._survey, journey.offset
        if offset is None:
            return self._absent("the offset of the record is unknown", certain=False)
        if survey.first_offset is None:
            return self._absent("the log has no batches")
        begin = base_offset(survey.log.segments[0])
        if offset < begin:
            return self._absent(
                f"the log begins at offset {begin}: retention or DeleteRecords removed what was before"
            )
        if offset >= survey.next_offset:
            return self._absent(f"the log ends before it, at offset {survey.next_offset}")
        if offset < survey.first_offset and not any(damage.lossy for damage in survey.damage):
            return self._absent(
                f"the first batch is at offset {survey.first_offset}: compaction or DeleteRecords removed those before"
            )
        if damage := self._damaged.get(offset):
            return self._absent(f"{damage.file} is damaged there, at byte {damage.position}", certain=False)
        if offset in self._stored:
            segment, stored = self._stored[offset]
            record, whole = self._record(stored, offset)
            if record is not None:
                return _found(journey, survey, str(segment), stored, record)
            if not whole:
                return self._absent(
                    f"the batch at byte {stored.position} of {segment} cannot be read completely",
                    certain=False,
                )
        return self._absent(
            "offsets before and after it are there: compaction removed it, or it never was a record"
        )

    def _record(self, stored: StoredBatch, offset: int) -> tuple[Record | None, bool]:
        """Return a record of a batch, and whether all of these can be read."""
        if self._decoded is None or self._decoded[0] is not stored:
            records, problems = stored.batch.read(message_budget())
            self._decoded = stored, {record.offset: record for record in records}, not problems
        return self._decoded[1].get(offset), self._decoded[2]

    def _absent(self, reason: str, *, certain: bool = True) -> LogPlace:
        return msgspec.structs.replace(self._nowhere, reason=reason, absent=True if certain else None)


def _found(journey: Journey, survey: LogSurvey, file: str, stored: StoredBatch, record: Record) -> LogPlace:
    batch, known = stored.batch, journey.record
    appended = batch.timestamp_type == "log_append" and record.timestamp >= 0
    in_transaction = batch.transactional and not batch.control
    other = known is not None and (known.key, known.value) != (record.key, record.value)
    return LogPlace(
        folder=str(survey.log.folder),
        absent=False,
        file=file,
        position=stored.position,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        appended=record.timestamp * MS if appended else None,
        committed=survey.committed_at(batch.producer_id, record.offset) if in_transaction else None,
        reason="another record has this offset in the log" if other else "",
    )
