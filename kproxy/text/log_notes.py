"""What ``kproxy records`` reports about the logs that it has read, on standard error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from captures.log_segments import Damage, LogSurvey
from captures.meaning import words

_SHOWN = 20
"""Damaged parts, open transactions and wrong indexes that are listed one by one."""


def log_notes(survey: LogSurvey) -> Iterator[str]:
    """Yield a line about the whole log, then one for each damaged part."""
    yield f"{words.line(survey.log.folder.name)}: {'; '.join(_facts(survey))}"
    yield from _first([words.line(_damage(each)) for each in survey.damage], "damaged parts")
    yield from _first([words.line(each) for each in survey.wrong_indexes], "wrong files")


def _facts(survey: LogSurvey) -> Iterator[str]:
    if survey.first_offset is None:
        yield "no batches"
        return
    yield words.listed(
        [
            words.counted(len(survey.log.segments), "segment"),
            words.counted(survey.batches, "batch", "batches"),
            words.counted(survey.records, "record"),
            f"offsets {survey.first_offset}..{survey.next_offset - 1}",
        ]
    )
    if survey.missing:
        gaps = words.counted(survey.gaps, "gap")
        yield f"{words.counted(survey.missing, 'offset')} without a record, in {gaps}"
    if survey.empty:
        yield f"{words.counted(survey.empty, 'batch', 'batches')} that compaction has emptied"
    transactions = list(_transactions(survey))
    if transactions:
        yield f"transactions: {words.listed(transactions)}"


def _transactions(survey: LogSurvey) -> Iterator[str]:
    for count, outcome in ((survey.committed, "committed"), (survey.aborted, "aborted")):
        if count:
            yield f"{count:,} {outcome}"
    unended = survey.open_transactions
    for each in islice(unended, _SHOWN):
        state = "open" if each.certain else "open, or compacted without its marker,"
        yield f"{state} since offset {each.first_offset} (producer {each.producer_id})"
    if len(unended) > _SHOWN:
        yield f"{len(unended) - _SHOWN:,} more open"


def _damage(damage: Damage) -> str:
    text = f"{damage.file}: byte {damage.position}: {damage.reason}"
    batch = damage.batch
    if batch is None:
        return text if damage.kind != "format" else f"{text}; {damage.size:,} bytes skipped"
    return f"{text}: {damage.size:,} bytes, offsets {batch.base_offset}..{batch.last_offset} by its header, not shown"


def _first(lines: Sequence[str], noun: str) -> Iterator[str]:
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"{len(lines) - _SHOWN:,} more {noun}"
