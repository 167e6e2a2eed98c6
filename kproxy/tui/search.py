"""Searching: what is looked for, as it is typed after ``/``, and the job that looks for it in the list.

::

    orders           text; the case of letters matters only where a capital is written
    "0a 1b"          the same, whatever stands between the quotes
    /orders-[0-9]+/  a regular expression, likewise; ~ orders-[0-9]+ too
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
from kproxy.session.summaries import SLOW, said_of, state_of, unexpected

_TURN = 0.008  # seconds of work between two looks at what is more urgent
_TOGETHER = 64  # exchanges that are decoded between two looks at the clock

_HEX = re.compile(r"0[xX]\s*((?:[0-9a-fA-F]{2}\s*)+)|((?:[0-9a-fA-F]{2}\s+)+[0-9a-fA-F]{2})")
_ESCAPE = re.compile(r"\\.", re.DOTALL)


class SearchError(ValueError):
    """A search that makes no sense.

    :ivar position: index of the first character that is wrong
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class Kind(StrEnum):
    """What is looked for."""

    TEXT = "text"
    REGEX = "regular expression"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for.

    :ivar text: as typed
    :ivar pattern: for texts; bytes are met where they are written in hexadecimal
    :ivar data: for bytes
    """

    text: str
    kind: Kind
    pattern: TextRegex
    data: BytesRegex

    def in_text(self, text: str) -> Span | None:
        """Return where it is first met in a text, and where that ends; None if it is not."""
        return self.pattern.span(text)

    def in_bytes(self, data: bytes, at: int = 0) -> Span | None:
        """Return where it is first met in bytes from an offset on, likewise."""
        return self.data.span(data, at)

    def before(self, data: bytes, at: int) -> Span | None:
        """Return where it is last met in bytes, beginning before an offset."""
        last = None
        for found in self.data.spans(data):
            if found[0] >= at:
                break
            last = found
        return last


def parse_search(text: str) -> Search:
    """Return what a text looks for.

    :raises SearchError: if it is empty, or no regular expression where it says that it is one
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


def _bytes(text: str, wanted: bytes) -> Search:
    digits = " ?".join(f"{byte:02x}" for byte in wanted)
    data = "".join(f"\\x{byte:02x}" for byte in wanted)
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
    """Where it was met.

    :ivar number: of the exchange
    :ivar index: its line of the list that was searched
    :ivar wrapped: whether the search went on at the other end of the list
    """

    number: int
    index: int
    wrapped: bool


class ListSearch:
    """A job that looks for the next exchange of the list.

    It looks at what a line of the list says of an exchange. Bytes are looked for in the frames, as no line shows any.

    :param shown: the list
    :param start: line to begin after; that line itself is looked at last
    :param forward: down the list
    :param deep: look at every field and at the frames too
    :param slow: ns from which an exchange is called slow
    :ivar share: how much of the list was looked at, up to 1.0; may be read by any thread
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
        """Return what was found, None if nothing was."""
        looked_at, began = 0, perf_counter()
        for begin, end, wrapped in self._stretches():
            numbers = self._shown.numbers(begin, end)
            if not self._forward:
                numbers.reverse()
            # a chunk is looked at as a whole: between two turns indexes may come to mean other exchanges
            for exchange in access.exchanges(numbers, annotated=True):
                fits = partial(self._fits, exchange)
                if access.capture.faults.made(fits, "the search", without=False, number=exchange.number):
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
        """Yield lines, from one to before another, and whether they come after the end of the list."""
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
        """Yield what a line of the list says."""
        version = "" if exchange.version is None else f" v{exchange.version}"
        yield f"{exchange.api}{version}"
        yield exchange.client_id or ""
        yield exchange.shown_client
        yield exchange.shown_broker
        yield from exchange.summary
        yield said_of(exchange)
        yield from unexpected(exchange)
        yield state_of(exchange, self._slow).value
        yield exchange.note.comment


def in_exchange(search: Search, exchange: Exchange) -> bool:
    """Tell whether something is met in any value of an exchange, or in its frames as far as these hold no secrets."""
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
    """Yield all that is no container. Not by recursion: nobody knows how deep embedded values are."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple | set | frozenset):
            waiting += item
        else:
            yield item
