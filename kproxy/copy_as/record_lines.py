"""The records of a Produce as lines for a command-line producer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from dissectors.budget import Budget, message_budget
from dissectors.embedded import INTERNAL_TOPICS
from dissectors.frames import decode_request
from dissectors.records import Batch, Record, record_set
from kproxy.copy_as.request import RequestToCopy, unnamed
from kproxy.copy_as.shell import Command

_MOST_RECORDS = 500
_MOST_CHARACTERS = 50_000
"""Beyond either, pasting is impractical; shells and terminals have limits too."""

_WHITESPACE = frozenset("\n\t\r")

RECORD_DELIMITERS = ("\n", "\x1e", "\x1d")
KEY_DELIMITERS = ("\t", ":", "\x1f", "\x1c")


class Header(NamedTuple):
    """A header of a record."""

    name: str
    value: str


@dataclass(slots=True)
class RecordRun:
    """Consecutive records that differ only in key and value.

    :ivar keyed: whether they have keys; otherwise all are null
    :ivar null: whether their values are null
    :ivar headers: the headers that each of them has
    :ivar records: key and value of each
    """

    keyed: bool
    null: bool
    headers: tuple[Header, ...]
    records: list[tuple[str, str]] = field(default_factory=list)

    def delimiters(self, of_records: Sequence[str] = RECORD_DELIMITERS) -> tuple[str, str] | None:
        """Return delimiters of records, and of key and value, that occur in none of them; None if there are none.

        :param of_records: candidates for the delimiter of records
        """
        text = "".join(part for record in self.records for part in record)
        between = next((each for each in of_records if each not in text), None)
        keys = "".join(key for key, _ in self.records)
        behind_keys = next((each for each in KEY_DELIMITERS if each not in keys and each != between), None)
        return None if between is None or behind_keys is None else (between, behind_keys)

    def text(self, between: str, behind_keys: str) -> str:
        """Return the records with delimiters."""
        pieces = (f"{key}{behind_keys}{value}" if self.keyed else value for key, value in self.records)
        return between.join(pieces)


class Partition(NamedTuple):
    """The records that a Produce writes to one partition.

    :ivar runs: the records that are text
    :ivar codec: of the first batch
    :ivar left_out: number of records missing from ``runs``: binary, secret, or too many
    """

    topic: str
    number: int
    runs: list[RecordRun]
    codec: str
    left_out: int


def partitions(asked: RequestToCopy) -> Iterator[Partition]:
    """Yield the records that a Produce writes, partition by partition; topics without a known name are omitted.

    Records are read from the frame, because the exchange may contain only the beginnings of them.
    """
    body = asked.exchange.request
    value = None if body is None else decode_request(body.raw).value
    if value is None:
        return
    budget = message_budget()
    for (topic, _, _), fields in zip(asked.topics("topic_data"), value["topic_data"], strict=True):
        if topic is None:
            continue
        for partition in fields["partition_data"]:
            batches = record_set(partition["records"] or b"").batches
            runs, left_out = _runs(chain.from_iterable(_records(batch, topic, budget) for batch in batches))
            codec = batches[0].codec.label if batches else "none"
            yield Partition(topic, partition["index"], runs, codec, left_out)


def _records(batch: Batch, topic: str, budget: Budget) -> Iterator[Record | None]:
    """Yield the records of a batch; None for those of internal topics, which are binary and may contain secrets."""
    for record in batch.read(budget).records:
        yield None if topic in INTERNAL_TOPICS else record


def _runs(records: Iterable[Record | None]) -> tuple[list[RecordRun], int]:
    runs: list[RecordRun] = []
    left_out = taken = characters = 0
    for record in records:
        as_run = _one(record) if record is not None and taken < _MOST_RECORDS else None
        length = sum(map(len, as_run.records[0])) if as_run is not None else 0
        if as_run is None or characters + length > _MOST_CHARACTERS:
            left_out += 1
            continue
        taken += 1
        characters += length
        last = runs[-1] if runs else None
        if last is not None and (last.keyed, last.null, last.headers) == (
            as_run.keyed,
            as_run.null,
            as_run.headers,
        ):
            last.records += as_run.records
        else:
            runs.append(as_run)
    return runs, left_out


def _one(record: Record) -> RecordRun | None:
    """Return a record as a run of its own, None if it cannot be typed."""
    key, value = _text(record.key), _text(record.value)
    headers = []
    for name, data in record.headers:
        text = _text(data)
        if data is None or text is None or not name.isprintable():
            return None
        headers.append(Header(name, text))
    if key is None or value is None:
        return None
    keyed, null = record.key is not None, record.value is None
    if keyed and null and not key:  # if empty means null, it does so for the key too
        return None
    return RecordRun(keyed, null, tuple(headers), [(key, value)])


def _text(data: bytes | None) -> str | None:
    """Return bytes as text, empty for null; None if they are not text that can be typed."""
    if data is None:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() or all(c.isprintable() or c in _WHITESPACE for c in text) else None


def producing(
    request: RequestToCopy,
    notes: list[str],
    producer: Callable[[RequestToCopy, Partition, RecordRun, list[str]], Command | None],
) -> Iterator[Command]:
    """Yield the command lines that produce the records of a request.

    :param notes: what no command can express; shown with the first
    :param producer: makes the command for a run of records; None if there is none and it added a note
    """
    for name, topic, _ in request.topics("topic_data"):
        if name is None:
            notes.append(unnamed(topic))
    for partition in partitions(request):
        if partition.left_out:
            where = f"{partition.topic}-{partition.number}"
            notes.append(
                f"left out: {partition.left_out:,} records of {where} that are not text, or too many"
            )
        for run in partition.runs:
            command = producer(request, partition, run, notes)
            if command is not None:
                yield command
                notes = []
    if notes:
        yield Command((), notes=notes)
