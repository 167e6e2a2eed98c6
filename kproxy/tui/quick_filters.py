"""Filters made of what is selected: "only this topic", "slower than this", "the same group_id".

Everything offered is a filter that compiles, and that the exchange it was made of fits.
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
"""Topics, groups, errors ... of one exchange that are offered."""
_LONGEST_VALUE = 400
"""Characters or bytes of a value that is offered to be compared with."""


@dataclass(frozen=True, slots=True)
class QuickFilter:
    """One filter that is offered.

    :ivar label: what it keeps, for people; values in it are as they came from the wire
    :ivar text: the filter
    """

    label: str
    text: str


class Use(Enum):
    """What becomes of a filter that was chosen, beside the one that holds now."""

    ONLY = "only"
    """Both have to hold."""
    HIDE = "hide"
    """What fits it is left out."""
    ALSO = "also"
    """What fits it is shown too."""
    REPLACE = "replace"
    """It is put in the place of the other."""


def combined(present: str, chosen: str, use: Use) -> str:
    """Return the filter that holds when a chosen one is used.

    :param present: the filter that holds now, empty if none does
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
    """Return a filter so that it can stand beside ``and``, ``or`` and ``not``."""
    alone = not isinstance(_tree(text), nodes.And | nodes.Or | nodes.Not)
    return text if alone else f"({text})"


def _tree(text: str) -> nodes.Node | None:
    """Return the syntax tree of a filter, None if it is none."""
    try:
        return grammar.parse(text)
    except FilterError:
        return None


# ---------------------------------------------------------------- of an exchange
def of_exchange(exchange: Exchange, context: Context = NO_CONTEXT) -> Iterator[QuickFilter]:
    """Yield filters for what an exchange is about, who took part in it, and how it went."""
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
    """Yield filters for one field of an exchange, before those for the exchange.

    :param path: of the field, as annotations write it: ``response.responses[0].error_code``; those of the header are
        ``request.header.client_id``
    :param value: of the field; None if it has none, or it is masked
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
    """Return a test for a value of a field of a message, empty if there is none."""
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
    """Return what a number is called, if that can be written in its place."""
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
    """Return a test for exactly this text.

    A text with characters that cannot be seen is written as an expression. Those that have no escape there, as beyond
    ``\\xff``, are left open: any character fits in their place.
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
    """Return a test for exactly these bytes, in the way that is easier to read."""
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
    """Yield those that keep the exchange, each once.

    Not all do: of a message set, for one, the tree shows fields of single messages where the language knows batches.
    """
    return (one for one in dict.fromkeys(offers) if _fits(one.text, exchange, context))


def _fits(text: str, exchange: Exchange, context: Context) -> bool:
    try:
        return compile_filter(text).match(exchange, context)
    except FilterError:
        return False
