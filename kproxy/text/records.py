"""The output of ``kproxy records``: one line per record, or everything about a record; also shown by the UI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import msgspec

from captures.analysis.journey.found_records import BatchPosition
from captures.analysis.records import AnyRecord, CapturedRecord, LoggedRecord
from captures.meaning import words
from captures.payloads.decoding import PayloadDecoding
from captures.payloads.payload import Payload
from captures.payloads.plain import read_plain
from captures.time_format import Clock, clock, day
from dissectors.units import MS
from kproxy.output import style
from kproxy.text.blocks import GAP
from kproxy.text.cells import fit
from kproxy.text.cells import width as width_of

_TIME = len("2026-11-21 09:14:03.123")
_LEAST = {"place": 12, "seen": 12, "key": 4}
_MOST = {"place": 48, "seen": 18, "key": 32}
_ODD = "yellow"
_ESCAPES = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})
_LONGEST = 16_384
"""Most characters of a payload on one line: those of a printed line."""


class RecordPayloads:
    """Decodes keys, values and headers of records.

    :param decoding: how they are decoded
    """

    def __init__(self, decoding: PayloadDecoding) -> None:
        self.decoding = decoding

    def key(self, record: AnyRecord) -> Payload:
        if record.decoded is not None:
            key = record.decoded.get("key")
            if record.control is not None or key is not None:
                return Payload("null" if key is None else "kafka", key, len(record.record.key or b""))
        return self.decoding.read(record.record.key, record.tp.topic, "key")

    def value(self, record: AnyRecord) -> Payload:
        if record.decoded is not None:
            shown = {name: each for name, each in record.decoded.items() if name != "key"}
            return Payload("kafka", shown, len(record.record.value or b""))
        return self.decoding.read(record.record.value, record.tp.topic, "value")

    @staticmethod
    def headers(record: AnyRecord) -> list[tuple[str, Payload]]:
        return [(name, read_plain(data)) for name, data in record.record.headers]


def one_line(payload: Payload, most: int = _LONGEST) -> str:
    """Return a payload on one line.

    :param most: most characters
    """
    if payload.format == "null":
        return "null"
    if payload.format in ("text", "hex"):
        return str(payload.data)[:most].translate(_ESCAPES)
    if payload.source:
        return " ".join(payload.source[:most].split())
    return msgspec.json.encode(payload.data).decode()[:most]


def pretty(payload: Payload) -> list[str]:
    """Return a payload on as many lines as are best for reading."""
    if payload.format in ("null", "text", "int", "hex"):
        return ["null"] if payload.format == "null" else str(payload.data).splitlines() or [""]
    source = payload.source or msgspec.json.encode(payload.data).decode()
    return msgspec.json.format(source, indent=2).splitlines()


class RecordLines:
    """Formats records.

    :param width: columns of the terminal, None for a pipe
    :param zone: time zone of the times; None is the local one
    """

    def __init__(self, payloads: RecordPayloads, width: int | None, zone: tzinfo | None) -> None:
        self._payloads = payloads
        self._width = width
        self._zone = zone
        self._columns = dict(_LEAST)

    def fit(self, records: Sequence[AnyRecord]) -> None:
        """Choose column widths by the first records."""
        for record in records:
            key = one_line(self._payloads.key(record), _MOST["key"])
            for name, text in (("place", record.name), ("seen", seen(record)), ("key", key)):
                least = min(width_of(words.line(text)), _MOST[name])
                self._columns[name] = max(self._columns[name], least)

    # ------------------------------------------------------------ one line
    def line(self, record: AnyRecord) -> str:
        remark = remarks(record)
        cells = [
            self._cell(record.name, "place"),
            self.time(record),
            self._cell(seen(record), "seen"),
            self._cell(one_line(self._payloads.key(record)), "key"),
        ]
        text = GAP.join(filter(None, [self._value(record), self._headers(record)]))
        head, rest = GAP.join(cells), f"{words.listed(remark)}: {text}" if remark else text
        if self._width is not None:
            rest = fit(rest, max(self._width - width_of(head) - len(GAP), 8)).rstrip()
        rest = rest.rstrip()
        return f"{head}{GAP}{style(rest, fg=_ODD) if remark else rest}".rstrip()

    def time(self, record: AnyRecord) -> str:
        """Return the timestamp, padded to a fixed width."""
        return f"{timestamp(record, self._zone):<{_TIME}}"

    def _cell(self, text: str, name: str) -> str:
        width = self._columns[name]
        if self._width is None:
            text = words.clipped(text, _LONGEST)
            return text + " " * (width - width_of(text))
        return fit(text, width)

    def _value(self, record: AnyRecord) -> str:
        return one_line(self._payloads.value(record))

    def _headers(self, record: AnyRecord) -> str:
        headers = (f"{name}={one_line(payload)}" for name, payload in self._payloads.headers(record))
        text = words.listed(headers)
        return f"[{text}]" if text else ""

    # ------------------------------------------------------------ all of it
    def whole(self, record: AnyRecord) -> Iterator[str]:
        """Yield the lines about everything known of a record."""
        yield GAP.join(
            filter(
                None,
                [
                    style(words.line(record.name), bold=True),
                    timestamp(record, self._zone),
                    _by(record, self._zone),
                ],
            )
        )
        remark = remarks(record)
        if remark:
            yield f"  {style(words.listed(remark), fg=_ODD)}"
        yield f"  {words.listed(batch_words(record))}"
        yield from _block("key", self._payloads.key(record))
        for name, payload in self._payloads.headers(record):
            yield from _block(f"header {words.line(name)}", payload)
        yield from _block("value", self._payloads.value(record))
        yield ""


def timestamp(record: AnyRecord, zone: tzinfo | None) -> str:
    """Return the timestamp of a record; ``no timestamp`` if it has none."""
    if record.timestamp is None:
        return "no timestamp"
    time = record.timestamp * MS
    try:
        return f"{day(time, zone)} {clock(time, zone)}"
    except (ValueError, OverflowError, OSError):
        return f"{record.timestamp} ms"  # out of the calendar's range


def seen(record: AnyRecord) -> str:
    """Return where a record was seen: ``produced #17`` in an exchange, ``log byte 61`` in a segment."""
    if isinstance(record, LoggedRecord):
        return f"{record.origin.value} byte {record.position}"
    return f"{record.origin.value} #{record.number}"


def remarks(record: AnyRecord) -> list[str]:
    """Return the peculiarities of a record, in words."""
    parts = []
    if record.control is not None:
        parts.append(f"control record {record.control}")
    if isinstance(record, CapturedRecord) and record.error:
        parts.append(f"refused with {record.error}")
    if record.committed is False:
        parts.append("aborted")
    if record.masked:
        parts.append("secrets masked")
    return parts


def form_words(batch: BatchPosition) -> Iterator[str]:
    """Yield the size of a batch, and what is unusual about its format."""
    yield words.size(batch.size)
    if batch.codec != "none":
        yield batch.codec
    if batch.magic != 2:
        yield f"magic {batch.magic}"


def batch_words(record: AnyRecord) -> list[str]:
    """Return the position of a record in its batch, and facts from the batch."""
    batch = record.batch
    count = "" if batch.records is None else f" of {batch.records:,}"
    parts = [f"record {batch.index + 1:,}{count} in its batch", *form_words(batch)]
    if record.timestamp_type == "log_append":
        parts.append("timestamp of the broker")
    if batch.producer_id >= 0:
        parts.append(f"producer {batch.producer_id} epoch {batch.producer_epoch}")
    if batch.transactional and record.control is None:
        ended = {True: "transaction committed", False: "transaction aborted", None: "in a transaction"}
        parts.append(ended[record.committed])
    return parts


def _by(record: AnyRecord, zone: tzinfo | None) -> str:
    if isinstance(record, LoggedRecord):
        return f"{seen(record)} of {words.line(record.file)}"
    who = f"{record.client_id} {record.client}" if record.client_id else record.client
    at = Clock.of(record.time, record.time, zone)(record.time)
    return f"{seen(record)} at {at} by {words.line(who)}, broker {record.broker}"


def _block(title: str, payload: Payload) -> Iterator[str]:
    """Yield the lines of a payload, one below the other, with its title before the first."""
    about: list[str] = [payload.format] if payload.format not in ("null", "text") else []
    about += filter(None, [payload.schema, payload.problem])
    if payload.format != "null":
        about.append(words.size(payload.size))
    lines = pretty(payload)
    head = f"  {title} ({words.listed(about)})" if about else f"  {title}"
    if len(lines) == 1 and len(lines[0]) < _LONGEST - len(head):
        yield f"{head}{GAP}{lines[0]}"
        return
    yield head
    for line in lines:
        for begin in range(0, max(len(line), 1), _LONGEST - 8):
            yield f"    {line[begin : begin + _LONGEST - 8]}"
