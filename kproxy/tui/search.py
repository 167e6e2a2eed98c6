"""Searching: the notation typed after ``/``, and the job that searches the list.

::

    orders           text; case matters only if it contains a capital letter
    "0a 1b"          text, whatever is between the quotes
    /orders-[0-9]+/  a regular expression, with the same rule for case; ~ orders-[0-9]+ too
    0x0a1b           bytes; 0a 1b too
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from time import perf_counter
from typing import Any

from captures.exchanges import Exchange
from captures.filters.regex import BytesRegex, RegexError, Span, TextRegex
from kproxy.session.access import Access
from kproxy.session.engine import Steps
from kproxy.session.published import ShownExchanges
from kproxy.session.summaries import SLOW, state_of, text_of, unexpected

_TURN = 0.008  # seconds of work before more urgent jobs get a turn
_TOGETHER = 64  # exchanges decoded between two looks at the clock

_HEX = re.compile(r"0[xX]\s*((?:[0-9a-fA-F]{2}\s*)+)|((?:[0-9a-fA-F]{2}\s+)+[0-9a-fA-F]{2})")
_ESCAPE = re.compile(r"\\.", re.DOTALL)


class SearchError(ValueError):
    """An invalid search.

    :ivar position: index of the first wrong character
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Kind(StrEnum):
    """The kind of a search."""

    TEXT = "text"
    REGEX = "regular expression"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Search:
    """A parsed search.

    :ivar text: as typed
    :ivar pattern: searches texts; for bytes it matches their hexadecimal notation
    :ivar data: searches bytes
    """

    text: str
    kind: Kind
    pattern: TextRegex
    data: BytesRegex

    def in_text(self, text: str) -> Span | None:
        """Return start and end of the first match in a text, None if there is none."""
        return self.pattern.span(text)

    def in_bytes(self, data: bytes, at: int = 0) -> Span | None:
        """Return start and end of the first match in bytes from offset `at`, None if there is none."""
        return self.data.span(data, at)

    def before(self, data: bytes, at: int) -> Span | None:
        """Return start and end of the last match in bytes that starts before offset `at`, None if there is none."""
        last = None
        for found in self.data.spans(data):
            if found[0] >= at:
                break
            last = found
        return last


def parse_search(text: str) -> Search:
    """Return the search for a typed text.

    :raises SearchError: if it is empty, or an invalid regular expression
    """
    stripped = text.strip()
    if not stripped:
        raise SearchError("nothing is written yet", len(text))
    if len(stripped) > 1 and stripped[0] == stripped[-1] == "/":
        return _regex(text, text.index("/") + 1, text.rindex("/"))
    if stripped.startswith("~"):
        begin = text.index("~") + 1
        begin += len(text[begin:]) - len(text[begin:].lstrip())
        return _regex(text, begin, len(text))
    hexadecimal = _HEX.fullmatch(stripped)
    if hexadecimal:
        return _bytes(text, bytes.fromhex(hexadecimal[1] or hexadecimal[2]))
    wanted = stripped[1:-1] if len(stripped) > 2 and stripped[0] == stripped[-1] == '"' else text
    return _compiled(text, Kind.TEXT, re.escape(wanted), any_case=not any(map(str.isupper, wanted)))


def _regex(text: str, begin: int, end: int) -> Search:
    wanted = text[begin:end]
    if not wanted.strip():
        raise SearchError("a regular expression is missing", begin)
    any_case = not any(map(str.isupper, _ESCAPE.sub("", wanted)))
    return _compiled(text, Kind.REGEX, wanted, any_case=any_case, begin=begin)


def _bytes(text: str, needle: bytes) -> Search:
    digits = " ?".join(f"{byte:02x}" for byte in needle)
    data = "".join(f"\\x{byte:02x}" for byte in needle)
    try:
        pattern = TextRegex(rf"\b(?:0x)?{digits}\b")
        return Search(text, Kind.BYTES, pattern, BytesRegex(data, any_case=False))
    except RegexError as problem:
        raise SearchError(str(problem), 0) from problem


def _compiled(text: str, kind: Kind, pattern: str, *, any_case: bool, begin: int = 0) -> Search:
    try:
        return Search(
            text, kind, TextRegex(pattern, any_case=any_case), BytesRegex(pattern, any_case=any_case)
        )
    except RegexError as problem:
        raise SearchError(f"not a regular expression: {problem}", begin + problem.position) from problem


# ---------------------------------------------------------------- in the list
@dataclass(frozen=True, slots=True)
class SearchHit:
    """A match in the list.

    :ivar number: of the exchange
    :ivar index: row of the searched list
    :ivar wrapped: whether the search wrapped around the end of the list
    """

    number: int
    index: int
    wrapped: bool


class ListSearch:
    """A job that finds the next matching exchange of the list.

    It searches the texts of each row. Bytes are searched in frames, because rows do not show any.

    :param shown: the list
    :param start: row to start after; that row is searched last
    :param forward: whether to search down the list
    :param deep: whether to search every field and the frames too
    :param slow: ns from which an exchange counts as slow
    :ivar share: searched share of the list, up to 1.0; may be read by any thread
    """

    def __init__(
        self,
        search: Search,
        shown: ShownExchanges,
        start: int,
        *,
        forward: bool = True,
        deep: bool = False,
        slow: int = SLOW,
    ) -> None:
        self.share = 0.0
        self._search = search
        self._shown = shown
        self._start = start
        self._forward = forward
        self._deep = deep or search.kind is Kind.BYTES
        self._slow = slow

    def __call__(self, access: Access) -> Steps[SearchHit | None]:
        """Return the match, None if there is none."""
        looked_at, began = 0, perf_counter()
        for begin, end, wrapped in self._stretches():
            numbers = self._shown.numbers(begin, end)
            if not self._forward:
                numbers.reverse()
            # a chunk is searched in one turn: between turns indexes may change to other exchanges
            for exchange in access.exchanges(numbers, annotated=True):
                fits = partial(self._fits, exchange)
                if access.capture.faults.contained(fits, "the search", without=False, number=exchange.number):
                    offset = numbers.index(exchange.number)
                    index = begin + offset if self._forward else end - 1 - offset
                    return SearchHit(exchange.number, index, wrapped)
            looked_at += end - begin
            self.share = looked_at / len(self._shown)
            if perf_counter() - began > _TURN:
                yield
                began = perf_counter()
        return None

    def _stretches(self) -> Iterator[tuple[int, int, bool]]:
        """Yield ranges of rows as start, exclusive end, and whether the search has wrapped around."""
        count = len(self._shown)
        start = min(max(self._start, -1), count - 1)
        ahead, behind = (start + 1, count), (0, start + 1)
        if self._forward:
            for wrapped, (low, high) in enumerate((ahead, behind)):
                for begin in range(low, high, _TOGETHER):
                    yield begin, min(begin + _TOGETHER, high), bool(wrapped)
            return
        for wrapped, (low, high) in enumerate(((0, max(start, 0)), (max(start, 0), count))):
            for end in range(high, low, -_TOGETHER):
                yield max(end - _TOGETHER, low), end, bool(wrapped)

    def _fits(self, exchange: Exchange) -> bool:
        search = self._search
        if search.kind is not Kind.BYTES and any(map(search.in_text, self._line(exchange))):
            return True
        return self._deep and in_exchange(search, exchange)

    def _line(self, exchange: Exchange) -> Iterator[str]:
        """Yield the texts of a row."""
        yield exchange.title
        yield exchange.client_id or ""
        yield exchange.shown_client
        yield exchange.shown_broker
        yield from exchange.summary
        yield text_of(exchange)
        yield from unexpected(exchange)
        yield state_of(exchange, self._slow).value
        yield exchange.note.comment


def in_exchange(search: Search, exchange: Exchange) -> bool:
    """Return whether any value of an exchange matches, or its frames if they contain no secrets."""
    shown: list[Any] = [exchange.annotations.decoded, *exchange.shown_tokens]
    bodies = [body for body in (exchange.request, exchange.response) if body is not None]
    shown += [part for body in bodies for part in (body.header, body.value)]
    if any(_in_value(search, value) for value in _leaves(shown)):
        return True
    return not exchange.annotations.masked and any(search.in_bytes(body.raw) for body in bodies)


def _in_value(search: Search, value: Any) -> bool:
    if isinstance(value, bytes | bytearray):
        return search.in_bytes(bytes(value)) is not None
    return not isinstance(value, bool) and value is not None and search.in_text(str(value)) is not None


def _leaves(value: Any) -> Iterator[Any]:
    """Yield all values that are not containers. Iterative, because embedded values may be arbitrarily deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        else:
            yield item
