"""Records of journeys in the logs that brokers keep on disk (:mod:`captures.log_segments`)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

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
    return [
        Journey(
            sought.topic,
            sought.partition,
            sought.offset,
            record=None,
            batch=None,
            base=None,
            attempts=[],
            copies=[],
            readable=None,
            stable=None,
            transaction=None,
            replicas={},
            groups=[],
        )
    ]


def with_logs(journey: Journey, surveys: list[LogSurvey]) -> Journey:
    """Return a journey with what the logs of its partition say of its record.

    :raises OSError: if a segment cannot be read
    """
    own = [survey for survey in surveys if survey.log.tp == (journey.topic, journey.partition)]
    return replace(journey, logs=[_place(journey, survey) for survey in own])


def _place(journey: Journey, survey: LogSurvey) -> LogPlace:
    """Look for a record in one log."""
    offset, nowhere = journey.offset, LogPlace(folder=str(survey.log.folder))
    if offset is None:
        return msgspec.structs.replace(nowhere, reason="the offset of the record is unknown", absent=None)
    if survey.first_offset is None:
        return msgspec.structs.replace(nowhere, reason="the log has no batches")
    if offset < base_offset(survey.log.segments[0]):
        begin = base_offset(survey.log.segments[0])
        reason = f"the log begins at offset {begin}: retention or DeleteRecords removed what was before"
        return msgspec.structs.replace(nowhere, reason=reason)
    if offset >= survey.next_offset:
        reason = f"the log ends before it, at offset {survey.next_offset}"
        return msgspec.structs.replace(nowhere, reason=reason)
    if offset < survey.first_offset and not any(damage.lossy for damage in survey.damage):
        reason = f"the first batch is at offset {survey.first_offset}: compaction or DeleteRecords removed those before"
        return msgspec.structs.replace(nowhere, reason=reason)
    stored = _batch_at(survey, offset)
    if isinstance(stored, LogPlace):
        return stored
    file, found = stored
    records, problems = found.batch.read(message_budget())
    for record in records:
        if record.offset == offset:
            return _found(journey, survey, file, found, record)
    if problems:
        reason = f"the batch at byte {found.position} of {file} cannot be read completely"
        return msgspec.structs.replace(nowhere, reason=reason, absent=None)
    return _compacted(survey)


def _batch_at(survey: LogSurvey, offset: int) -> tuple[str, StoredBatch] | LogPlace:
    """Return the batch whose offsets include one, and its file; or why there is none."""
    for segment, following in pairwise((*survey.log.segments, None)):
        assert segment is not None
        if following is not None and base_offset(following) <= offset:
            continue
        damaged: Damage | None = None
        for part in read_segment(segment):
            if isinstance(part, Damage):
                damaged = part if part.lossy else damaged
                continue
            if part.batch.last_offset < offset:
                damaged = None
            elif part.batch.base_offset <= offset:
                return str(segment), part
            else:
                break
        if damaged is not None:
            reason = f"{damaged.file} is damaged there, at byte {damaged.position}"
            return LogPlace(folder=str(survey.log.folder), reason=reason, absent=None)
        break
    return _compacted(survey)


def _compacted(survey: LogSurvey) -> LogPlace:
    reason = "offsets before and after it are there: compaction removed it, or it never was a record"
    return LogPlace(folder=str(survey.log.folder), reason=reason)


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
