"""Filters made from the selection: "only this topic", "slower than this", "the same group_id".

Every offered filter compiles, and matches the exchange it was made from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from captures.exchanges import Exchange
from captures.filters import Context, FilterError, compile_filter, grammar, nodes, reads
from captures.filters.context import NO_CONTEXT
from captures.filters.lexer import quoted
from captures.filters.paths import UnknownStepError, domain_of, find
from dissectors.domains import Domain
from dissectors.error_codes import error_name
from dissectors.units import US

_MOST_OF_A_KIND = 5
"""Most topics, groups, errors ... of one exchange that are offered."""
_LONGEST_VALUE = 400
"""Characters or bytes of the longest value for which a comparison is offered."""


@dataclass(frozen=True, slots=True)
class QuickFilter:
    """An offered filter.

    :ivar label: description for the user; values in it are as on the wire
    :ivar text: the filter
    """

    label: str
    text: str


class Use(Enum):
    """How a chosen filter is combined with the current one."""

    ONLY = "only"
    """Both must match."""
    HIDE = "hide"
    """Exclude its matches."""
    ALSO = "also"
    """Include its matches too."""
    REPLACE = "replace"
    """Replace the current one."""


def combined(present: str, chosen: str, use: Use) -> str:
    """Return the current filter combined with a chosen one.

    :param present: the current filter, empty if there is none
    """
    present, chosen = present.strip(), chosen.strip()
    if use is Use.REPLACE:
        return chosen
    part = f"not {_grouped(chosen)}" if use is Use.HIDE else chosen
    if not present:
        return "" if use is Use.ALSO else part
    joined, word = (nodes.Or, "or") if use is Use.ALSO else (nodes.And, "and")
    now, then = _tree(present), _tree(part)
    if now == then or (isinstance(now, joined) and then in now.items):
        return present
    return f"{_grouped(present)} {word} {part if use is Use.HIDE else _grouped(part)}"


def _grouped(text: str) -> str:
    """Return a filter, in parentheses if it needs them beside ``and``, ``or`` and ``not``."""
    alone = not isinstance(_tree(text), nodes.And | nodes.Or | nodes.Not)
    return text if alone else f"({text})"


def _tree(text: str) -> nodes.Node | None:
    """Return the syntax tree of a filter, None if it is invalid."""
    try:
        return grammar.parse(text)
    except FilterError:
        return None


# ---------------------------------------------------------------- of an exchange
def of_exchange(exchange: Exchange, context: Context = NO_CONTEXT) -> Iterator[QuickFilter]:
    """Yield filters for the subjects, the parties and the outcome of an exchange."""
    yield from _fitting(_of_exchange(exchange, context), exchange, context)


def _of_exchange(exchange: Exchange, context: Context) -> list[QuickFilter]:
    offers = [
        *_each("topic", "topic", reads.topics(exchange, context)),
        *_each("group", "group", reads.groups(exchange, context)),
        *_each("transactional ID", "transactional_id", reads.transactional_ids(exchange, context)),
    ]
    if exchange.client_id:
        offers += _each("client", "client_id", [exchange.client_id])
    offers += [
        *_each("API", "api", [exchange.api]),
        QuickFilter(f"connection: {exchange.connection}", f"connection == {exchange.connection}"),
        *_each("client address", "client.host", [reads.host_of(exchange.client)]),
        *_each("broker", "broker", [exchange.broker]),
    ]
    unexpected = map(error_name, reads.unexpected_errors(exchange, context))
    offers += _each("error", "error", unexpected)
    if exchange.expected:
        offers += _each("expected error", "error.any", [error.name for error in exchange.expected])
    if exchange.latency is not None and exchange.latency - exchange.wait >= US:
        excess = (exchange.latency - exchange.wait) // US
        offers.append(
            QuickFilter(f"as slow as this: {_duration(excess)} or more", f"excess >= {_duration(excess)}")
        )
    if exchange.version is not None:
        offers.append(
            QuickFilter(
                f"{exchange.api} in version {exchange.version}",
                f"api == {quoted(exchange.api)} and version == {exchange.version}",
            )
        )
    return offers


def _each(label: str, field: str, values: Iterable[str]) -> Iterator[QuickFilter]:
    for value in list(dict.fromkeys(values))[:_MOST_OF_A_KIND]:
        if value:
            yield QuickFilter(f"{label}: {value}", text_test(field, value))


def _duration(microseconds: int) -> str:
    if microseconds < 1_000:
        return f"{microseconds}us"
    milliseconds = microseconds // 1_000
    return f"{milliseconds}ms" if milliseconds < 10_000 else f"{milliseconds // 1_000}s"


# ---------------------------------------------------------------- of a field
def of_field(
    path: str, value: Any, exchange: Exchange, context: Context = NO_CONTEXT
) -> Iterator[QuickFilter]:
    """Yield filters for one field of an exchange, then those for the exchange.

    :param path: as in annotations: ``response.responses[0].error_code``; header fields are
        ``request.header.client_id``
    :param value: None if it has none, or if it is masked
    """
    others = _of_exchange(exchange, context)
    about = [one for one in others if isinstance(value, str) and value and one.label.endswith(f": {value}")]
    header = _HEADER.fullmatch(path)
    made = _of_header(header[1], header[2], value, exchange) if header else _of_body(path, value)
    yield from _fitting([*about, *made, *others], exchange, context)


_HEADER = re.compile(r"(request|response)\.header\.(\w+)")
_HEADER_FIELDS = {
    "correlation_id": "correlation_id",
    "request_api_key": "api.key",
    "request_api_version": "version",
}


def _of_header(side: str, name: str, value: Any, exchange: Exchange) -> Iterator[QuickFilter]:
    field = _HEADER_FIELDS.get(name)
    if field is not None and isinstance(value, int):
        yield QuickFilter(f"{field}: {value}", f"{field} == {value}")
    if name == "size":
        size = exchange.request_size if side == "request" else exchange.response_size
        yield QuickFilter(f"{side}: {size:,} bytes or more", f"{side}.size >= {size}")
        yield QuickFilter(f"{side}: {size:,} bytes or less", f"{side}.size <= {size}")


def _of_body(path: str, value: Any) -> Iterator[QuickFilter]:
    field = _INDEX.sub("", path)
    name = field.rpartition(".")[2]
    test = _test(field, value)
    if test:
        yield QuickFilter(f"same {name}: {_named(field, value) or value_text(value)}", test)
    if isinstance(value, int) and not isinstance(value, bool) and not _domains(field):
        yield QuickFilter(f"{name}: {value} or more", f"{field} >= {value}")
        yield QuickFilter(f"{name}: {value} or less", f"{field} <= {value}")
    if value is not None:
        yield QuickFilter(f"with a value of {name}", f"{field} exists")


_INDEX = re.compile(r"\[[0-9]+\]")


def _test(field: str, value: Any) -> str:
    """Return a test that a message's field has a value, empty if the language cannot express it."""
    match value:
        case bool():
            return f"{field} == {str(value).lower()}"
        case int():
            return f"{field} == {_named(field, value) or value}"
        case float() if math.isfinite(value) and "e" not in repr(value):
            return f"{field} == {value!r}"
        case str() | UUID() if len(str(value)) <= _LONGEST_VALUE:
            return text_test(field, str(value))
        case bytes() if len(value) <= _LONGEST_VALUE:
            return bytes_test(field, value)
    return ""


def _domains(field: str) -> list[Domain]:
    try:
        leaves = find(field).leaves
    except UnknownStepError:
        return []
    return [domain for leaf in leaves if (domain := domain_of(leaf)) is not None and domain.values]


def _named(field: str, value: Any) -> str:
    """Return the name of an integer value, empty if it has none that filters can use instead."""
    if not isinstance(value, int) or isinstance(value, bool):
        return ""
    names = {domain.name_of(value) for domain in _domains(field)}
    name = names.pop() if len(names) == 1 else None
    meant = {domain.value_of(name) for domain in _domains(field)} if name else set()
    return name if name and meant == {value} and quoted(name) == name else ""


def value_text(value: Any) -> str:
    """Return a value for a label."""
    if isinstance(value, bytes):
        return value.decode() if _readable(value) else f"0x{value.hex()}"
    return str(value)


def text_test(field: str, value: str) -> str:
    r"""Return a test for exactly this text.

    A text with unprintable characters becomes a regular expression, in which those beyond ``\xff`` match any
    character, because the language has no escapes for them.
    """
    if value and value.isprintable():
        return f"{field} == {quoted(value)}"
    escaped = "".join(
        re.escape(one).replace('"', '\\"')
        if one.isprintable()
        else f"\\x{ord(one):02x}"
        if one <= "\xff"
        else "."
        for one in value
    )
    return f'{field} ~ "(?-i:\\A{escaped}\\z)"'


def bytes_test(field: str, value: bytes) -> str:
    """Return a test for exactly these bytes, as text if that is readable."""
    if value and not _readable(value):
        return f"{field} == 0x{value.hex()}"
    text = value.decode().replace("\\", "\\\\").replace('"', '\\"')
    return f'{field} == "{text}"'


def _readable(value: bytes) -> bool:
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _fitting(offers: Iterable[QuickFilter], exchange: Exchange, context: Context) -> Iterator[QuickFilter]:
    """Yield the filters that match the exchange, without duplicates.

    Some do not match: the tree shows the single messages of a message set, for example, where the language has batches.
    """
    return (one for one in dict.fromkeys(offers) if _fits(one.text, exchange, context))


def _fits(text: str, exchange: Exchange, context: Context) -> bool:
    try:
        return compile_filter(text).match(exchange, context)
    except FilterError:
        return False
