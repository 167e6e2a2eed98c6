"""Summaries of many exchanges that differ only in inserted numbers and in their records.

A :class:`SummaryTemplate` is made from the bodies of one of them, the example: it is summarised with marks instead of
these numbers and records, and the marks are replaced with the values of each exchange. The result for the example is
compared with its own summary: if the two differ, there is no template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

from msgspec.structs import replace

from captures.meaning.errors import ResponseError
from captures.meaning.exchange import Body, Names
from captures.meaning.payload import Payload, RecordsPlaceholder, payload, record_paths
from captures.meaning.summaries import inserted_paths, request_summary, response_summary
from captures.meaning.waits import POLLS
from captures.meaning.words import LINE_LENGTH
from dissectors.api_keys import ApiKey
from dissectors.projection import Tree, tree
from dissectors.sides import SIDES

_MARKS = 7_360_415_000_000_000_000
"""The first mark: marks are at least as long as the numbers that they replace, so that no text becomes longer."""
_PER_SIDE = 5_000
_RECORDS = _PER_SIDE - 1
"""The mark, on each side, that replaces records."""
_MARK = re.compile(r"736041500000000(\d{4})")
_MAX_LENGTH = LINE_LENGTH - 40
"""Maximum length of a text with marks: the text of records may be longer than its mark."""
_LATENCY_APIS = POLLS | {ApiKey.ENVELOPE}
"""APIs whose summaries may depend on the latency."""


class InsertedValues(NamedTuple):
    """The values that replace the marks of one side, an element for each message.

    :ivar numbers: inserted numbers, in the order of the fields; empty if there are none
    :ivar records: number of records announced by their batches, control records, and bytes of all records fields; empty
        if they have no records
    """

    numbers: Sequence[Sequence[int]] = ()
    records: Sequence[tuple[int, int, int]] = ()


class SummaryTemplate:
    """Summarises exchanges whose bodies are equal except for inserted numbers and records.

    :param key: API key
    :param version: version in which the response was decoded
    :param asked: version of the request
    :param bodies: request and response of the example
    :param errors: errors of the response
    :param names: topic ID -> name
    :raises ValueError: if such exchanges have to be summarised one by one
    """

    def __init__(
        self,
        key: int,
        asked: int,
        version: int,
        bodies: tuple[Body, Body],
        errors: list[ResponseError],
        names: Names,
    ) -> None:
        self._key, self._asked, self._version, self._errors = key, asked, version, errors
        self._bodies = bodies
        self._topics: dict[str, str | None] = {}
        self._payloads: dict[int, Payload] = {}
        marked = [
            _MarkedBody(key, version, body, number)
            for number, (version, body) in enumerate(zip((asked, version), bodies, strict=True))
        ]

        def asking(topic_id: str) -> str | None:
            self._topics[topic_id] = found = names(topic_id)
            return found

        texts = self._texts(bodies, asking)
        self._parts = [_MARK.split(text) for text in self._texts((marked[0].body, marked[1].body), asking)]
        self._payloads = {_mark_of_records(number): each.payload for number, each in enumerate(marked)}
        of_example = [each.inserted for each in marked]
        self.by_latency = key in _LATENCY_APIS and len(self._parts[1]) == 1
        for text, parts in zip(texts, self._parts, strict=True):
            if _MARK.search(text) or sum(map(len, parts)) > _MAX_LENGTH:
                raise ValueError("the text has no room for marks")
            if next(iter(self._filled(parts, of_example))) != text:
                raise ValueError("the text of the example is another one")

    @property
    def depends_on_names(self) -> bool:
        """Whether names of topic IDs were asked for."""
        return bool(self._topics)

    def current(self, names: Names) -> bool:
        """Return whether topics still have the names that they had when the template was made."""
        return not self._topics or all(names(topic_id) == name for topic_id, name in self._topics.items())

    def texts(self, inserted: Sequence[InsertedValues], count: int) -> list[tuple[str, str]]:
        """Return the summaries of `count` requests and responses.

        :param inserted: their values on each side
        """
        request, response = (self._filled(parts, inserted) for parts in self._parts)
        return list(islice(zip(request, response, strict=False), count))

    def response(self, latency_ns: int, names: Names) -> str:
        """Return the summary of a response if it depends on the latency (:attr:`by_latency`)."""
        request, response = self._bodies
        return response_summary(self._key, self._version, request, response, names, latency_ns, self._errors)

    def _texts(self, bodies: tuple[Body, Body], names: Names) -> tuple[str, str]:
        request, response = bodies
        return (
            request_summary(self._key, self._asked, request, names),
            response_summary(self._key, self._version, request, response, names, -1, self._errors),
        )

    def _filled(self, parts: Sequence[str], inserted: Sequence[InsertedValues]) -> Iterator[str]:
        if len(parts) == 1:
            return repeat(parts[0])
        columns: list[Any] = []
        for number, part in enumerate(parts):
            if number % 2 == 0:
                columns.append(repeat(part))
                continue
            mark = int(part)
            numbers, records = inserted[mark // _PER_SIDE]
            if mark in self._payloads:
                columns.append(_texts_of_records(self._payloads[mark], records))
            else:
                columns.append([str(row[mark % _PER_SIDE]) for row in numbers])
        return map("".join, zip(*columns, strict=False))


def _texts_of_records(example: Payload, records: Sequence[tuple[int, int, int]]) -> list[str]:
    like, texts = replace(example), []
    for like.records, like.markers, like.size in records:  # a copy for each would take longer than its text
        texts.append(like.text())
    return texts


class _MarkedBody:
    """A body with marks in it.

    :ivar body: a copy, with marks
    :ivar inserted: the values that the marks replace
    :ivar payload: totals of the records
    """

    def __init__(self, key: int, version: int, body: Body, number: int) -> None:
        side = SIDES[number]
        self._first = number * _PER_SIDE
        self._numbers: list[int] = []
        self._records: list[bytes] = []
        self._stand_in = RecordsPlaceholder(b"%d" % (_MARKS + _mark_of_records(number)))
        self.body = self._copy(body, tree(inserted_paths(key, side)), tree(record_paths(key, version, side)))
        if len(self._numbers) >= _RECORDS:
            raise ValueError("there are too many numbers")
        self.payload = payload(self._records)
        counted = self.payload.records, self.payload.markers, self.payload.size
        self.inserted = InsertedValues([self._numbers], [counted])

    def _copy(self, body: Body, numbers: Tree, records: Tree) -> dict[str, Any]:
        made = dict(body)
        for name in [name for name in body if name in numbers or name in records]:
            made[name] = self._marked(body[name], numbers.get(name, {}), records.get(name, {}))
        return made

    def _marked(self, value: Any, numbers: Tree | None, records: Tree | None) -> Any:
        if isinstance(value, list):
            return [self._marked(item, numbers, records) for item in value]
        if isinstance(value, dict):
            return self._copy(value, numbers or {}, records or {})
        if numbers is None and isinstance(value, int):
            self._numbers.append(value)
            return _MARKS + self._first + len(self._numbers) - 1 if value > 0 else value
        if records is None and value and isinstance(value, bytes):
            self._records.append(value)
            return self._stand_in
        return value


def _mark_of_records(number: int) -> int:
    return number * _PER_SIDE + _RECORDS
