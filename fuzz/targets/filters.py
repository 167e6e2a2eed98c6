"""The filter language: the input is the text of a filter in UTF-8; other bytes are decoded as in command lines.

* Parsing, binding and compiling raise only :class:`FilterError`, whose position lies inside the text and which can be
  rendered.
* The expanded form of a filter has the same meaning, and is its own expanded form.
* Columns decide every exchange like its decoded bodies do, and never both ways.
* Completion never raises, at any position of the text, and its offers start at or before the position.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from functools import cache
from zlib import crc32

from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.filters import Context, FilterError, TableColumns, compile_filter, complete, context_of
from captures.packets import open_source
from dissectors import apis
from fuzz.target import check
from fuzz.targets import packets

LONGEST = 256
SECONDS = 20

_WORDS = """== != <= >= < > ~ !~ in exists contains matches and or not eq ne ( ) { } [ ] .. , @marked @3,20-30 " '
    \\ true ms s KB request. response. topics partitions error_code [0] [*] 0x1f -1 1.5 10.0.0.0/8 [::1]:9092 NONE
    NOT_COORDINATOR 2023-11-14T12:00:00Z 12:00 (?i) .* \\d+ ^ $ |"""
_BYTES_OF_SAMPLE = 30_000
_MOST_COMPARED = 25
"""Exchanges whose bodies are looked at for each input."""


class Sample:
    """Exchanges to filter: the beginning of the bundled capture."""

    def __init__(self) -> None:
        def use(path: object) -> None:
            self.capture = Capture(open_source(str(path)))
            self.capture.read()
            reader = ExchangeReader(self.capture)
            self.exchanges: list[Exchange] = list(reader)
            self.context: Context = context_of(reader)
            self.columns = TableColumns.of(self.capture)
            self.with_messages = TableColumns.of(self.capture, ExchangeColumns(self.capture))

        packets.on_disk(packets.sample(_BYTES_OF_SAMPLE), use)
        check(len(self.exchanges) > _MOST_COMPARED, "the sample is too small")


sample_of = cache(Sample)


def run(data: bytes) -> None:
    """Compile a filter and apply it."""
    text = data.decode("utf-8", "surrogateescape")
    completed(text, crc32(data))
    try:
        wanted = compile_filter(text, UTC)
    except FilterError as error:
        check(
            0 <= error.position <= error.position + error.length <= len(text),
            "place",
            error.position,
            error.length,
        )
        check(error.message and error.render(), "an error that says nothing")
        return
    again = compile_filter(wanted.expanded, UTC)
    check(again.expanded == wanted.expanded, "expanded:", wanted.expanded, "- again:", again.expanded)
    sample = sample_of()
    matches, undecided = wanted.mask(sample.columns, sample.context)
    other = again.mask(sample.columns, sample.context)
    check(
        (other.matches == matches).all() and (other.undecided == undecided).all(),
        "expanded, it means another thing",
    )
    check(not (matches & undecided).any(), "certain and undecided")
    check(wanted.needs_bodies or not undecided.any(), "undecided, but needs no bodies")
    better = wanted.mask(sample.with_messages, sample.context)
    check(not (better.undecided & ~undecided).any(), "more columns decide less")
    chance = crc32(data) % len(sample.exchanges)
    for exchange in (sample.exchanges[chance:] + sample.exchanges[:chance])[:_MOST_COMPARED]:
        fits = wanted.match(exchange, sample.context)
        check(fits in (True, False), "neither true nor false:", fits)
        for mask in ((matches, undecided), better):
            if not mask[1][exchange.row]:
                check(
                    fits == mask[0][exchange.row], "exchange", exchange.number, "columns differ from bodies"
                )


def completed(text: str, chance: int) -> None:
    """Request completions at the end and at another position."""
    for cursor in (len(text), chance % (len(text) + 1)):
        for candidate in complete(text, cursor, {"topic": ["orders", "a b"], "client_id": ['"']}):
            check(0 <= candidate.start <= cursor, "completes from", candidate.start, "at", cursor)
            check(candidate.text and candidate.kind, "a completion without text or kind")


def words() -> Iterator[bytes]:
    """Yield the words of the language: fields, operators, named values, parts of paths."""
    from captures.filters.fields import FIELDS
    from captures.filters.shortforms import FORMS

    for text in _WORDS.split():
        yield text.encode()
    for field in FIELDS:
        yield field.name.encode()
    for sign in FORMS:
        yield f"~{sign} ".encode()
    for name in apis.NAMES[::9]:
        yield name.encode()


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield the filters in the documentation, and one for each field and short form."""
    from captures.filters.fields import FIELDS
    from captures.filters.shortforms import FORMS

    by_hand = (
        "",
        'api == Fetch and latency > 100ms and topic ~ "orders.*"',
        "api in {Fetch, Produce} or not error",
        "request.topics[2].partitions.partition in {1..5, 18}",
        "response.topics.partitions.error_code == NOT_COORDINATOR",
        "time > 5s and time < 2023-11-14T12:00:00Z",
        "broker == [::1]:9092 or client == 10.0.0.0/8",
        "@marked or @3,20-30",
        "~e !~t orders (~u | ~a fetch)",
        "request_size >= 1.5KB && version != 0x0c",
        "request.group_id exists",
        "group contains 'a\\'b\\x41'",
        "value ~ (?i)secret$",
    )
    for number, text in enumerate(by_hand):
        yield f"text-{number}", text.encode()
    for field in FIELDS:
        yield f"field-{field.name}", f"{field.name} == 1 or {field.name}".encode()
    for form in FORMS:
        name = form if isinstance(form, str) else form.name
        yield (
            f"form-{name.strip('~')}",
            f"{name} x".encode() if name.startswith("~") else f"~{name} x".encode(),
        )
