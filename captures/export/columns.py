"""The columns of exchanges in table formats (CSV and Parquet): names, types, and access to values.

Names are those of ``docs/json.md`` where it has them. Bodies are JSON text, because they have no common schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from captures.exchanges import Exchange
from captures.json_objects import to_json

Kind = Literal["bool", "int16", "int32", "int64", "time", "text", "texts", "json"]

_encode = msgspec.json.Encoder().encode


class Column(NamedTuple):
    """One column.

    :ivar kind: its type; ``time`` is ns since the epoch in UTC, ``json`` a JSON text, ``texts`` a list
    :ivar value: returns the value of an exchange, None if it has none
    """

    name: str
    kind: Kind
    value: Callable[[Exchange], Any]


def _json(value: Any) -> str | None:
    return None if value is None else _encode(value).decode()


COLUMNS = (
    Column("number", "int64", lambda exchange: exchange.number),
    Column("time", "time", lambda exchange: exchange.time),
    Column("latency_ns", "int64", lambda exchange: exchange.latency),
    Column("designed_wait_ns", "int64", lambda exchange: exchange.wait),
    Column("kproxy_time_ns", "int64", lambda exchange: exchange.kproxy_time),
    Column("connection", "int32", lambda exchange: exchange.connection),
    Column("client", "text", lambda exchange: exchange.client),
    Column("broker", "text", lambda exchange: exchange.broker),
    Column("client_name", "text", lambda exchange: exchange.client_name),
    Column("broker_name", "text", lambda exchange: exchange.broker_name),
    Column("client_id", "text", lambda exchange: exchange.client_id),
    Column("api", "text", lambda exchange: exchange.api),
    Column("api_key", "int16", lambda exchange: exchange.api_key),
    Column("version", "int16", lambda exchange: exchange.version),
    Column("correlation_id", "int32", lambda exchange: exchange.correlation_id),
    Column("request_size", "int32", lambda exchange: exchange.request_size),
    Column("response_size", "int32", lambda exchange: exchange.response_size),
    Column("flags", "texts", lambda exchange: exchange.flags),
    Column("marked", "bool", lambda exchange: exchange.note.marked),
    Column("comment", "text", lambda exchange: exchange.note.comment or None),
    Column("errors", "texts", lambda exchange: list(dict.fromkeys(error.name for error in exchange.errors))),
    Column("request_summary", "text", lambda exchange: exchange.summary[0]),
    Column("response_summary", "text", lambda exchange: exchange.summary[1]),
    Column("request", "json", lambda exchange: _json(exchange.shown_request)),
    Column("response", "json", lambda exchange: _json(exchange.shown_response)),
    Column("decoded", "json", lambda exchange: _json(exchange.annotations.decoded)),
    Column("kproxy", "json", lambda exchange: _json(to_json(exchange.kproxy))),
    Column("masked", "texts", lambda exchange: exchange.annotations.masked),
)

#: columns that are useful in a spreadsheet: no bodies
PLAIN = tuple(column.name for column in COLUMNS if column.kind != "json" and column.name != "masked")


def choose(names: list[str] | tuple[str, ...]) -> tuple[Column, ...]:
    """Return columns by name, in the order of the names.

    :raises ValueError: for an unknown name or an empty choice
    """
    known = {column.name: column for column in COLUMNS}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"{unknown[0]!r} is no column" if unknown else "no column was chosen"
        raise ValueError(f"{problem}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)
