"""The columns of exchanges in table formats (CSV and Parquet): names, types, and access to values.

Names are those of ``docs/json.md`` where it has them. Bodies are JSON text, because they have no common schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from captures.exchanges.exchange_block import ExchangeBlock
from captures.json_objects import to_json

Kind = Literal["bool", "int16", "int32", "int64", "time", "text", "texts", "json"]

_encode = msgspec.json.Encoder().encode


class Column(NamedTuple):
    """One column.

    :ivar kind: its type; ``time`` is ns since the epoch in UTC, ``json`` a JSON text, ``texts`` a list
    :ivar value: returns the value of an exchange, None if it has none; for ``own``, also that of a block
    :ivar of: how exchanges of an :class:`ExchangeBlock` share it: each has its ``own``, or those of a ``party`` or a
        ``kind`` have the same
    """

    name: str
    kind: Kind
    value: Callable[[Any], Any]
    of: Literal["own", "party", "kind"] = "kind"

    def values(self, block: ExchangeBlock, shown: Callable[[Any], Any] | None = None) -> list[Any]:
        """Return the values of all exchanges of a block, each passed through `shown`."""
        if self.of == "own":
            found: list[Any] = self.value(block)
            return found if shown is None else list(map(shown, found))
        examples, codes = (block.parties, block.party) if self.of == "party" else (block.kinds, block.kind)
        made = list(map(self.value, examples))
        made = made if shown is None else list(map(shown, made))
        return [made[code] for code in codes.tolist()]


def _json(value: Any) -> str | None:
    return None if value is None else _encode(value).decode()


COLUMNS = (
    Column("number", "int64", lambda exchange: exchange.number, "own"),
    Column("time", "time", lambda exchange: exchange.time, "own"),
    Column("latency_ns", "int64", lambda exchange: exchange.latency, "own"),
    Column("designed_wait_ns", "int64", lambda exchange: exchange.wait, "own"),
    Column("kproxy_time_ns", "int64", lambda exchange: exchange.kproxy_time),
    Column("connection", "int32", lambda exchange: exchange.connection, "party"),
    Column("client", "text", lambda exchange: exchange.client, "party"),
    Column("broker", "text", lambda exchange: exchange.broker, "party"),
    Column("client_name", "text", lambda exchange: exchange.client_name, "party"),
    Column("broker_name", "text", lambda exchange: exchange.broker_name, "party"),
    Column("client_id", "text", lambda exchange: exchange.client_id, "party"),
    Column("api", "text", lambda exchange: exchange.api),
    Column("api_key", "int16", lambda exchange: exchange.api_key),
    Column("version", "int16", lambda exchange: exchange.version),
    Column("correlation_id", "int32", lambda exchange: exchange.correlation_id, "own"),
    Column("request_size", "int32", lambda exchange: exchange.request_size, "own"),
    Column("response_size", "int32", lambda exchange: exchange.response_size, "own"),
    Column("flags", "texts", lambda exchange: exchange.flags),
    Column("marked", "bool", lambda exchange: exchange.note.marked),
    Column("comment", "text", lambda exchange: exchange.note.comment or None),
    Column("errors", "texts", lambda exchange: list(dict.fromkeys(error.name for error in exchange.errors))),
    Column("request_summary", "text", lambda exchange: exchange.summary[0], "own"),
    Column("response_summary", "text", lambda exchange: exchange.summary[1], "own"),
    Column("request", "json", lambda exchange: _json(exchange.shown_request)),
    Column("response", "json", lambda exchange: _json(exchange.shown_response)),
    Column("decoded", "json", lambda exchange: _json(exchange.annotations.decoded)),
    Column("kproxy", "json", lambda exchange: _json(to_json(exchange.kproxy))),
    Column("masked", "texts", lambda exchange: exchange.annotations.masked),
)

#: columns that are useful in a spreadsheet: no bodies
PLAIN = tuple(column.name for column in COLUMNS if column.kind != "json" and column.name != "masked")


class _Column(Protocol):
    @property
    def name(self) -> str: ...


C = TypeVar("C", bound=_Column)


def choose(names: Iterable[str], columns: Sequence[C], table: str = "exchanges") -> tuple[C, ...]:
    """Return columns by name, in the order of the names.

    :param table: name of the table with the columns
    :raises ValueError: for an unknown name or an empty choice
    """
    wanted = dict.fromkeys(names)
    known = {column.name: column for column in columns}
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        problem = f"{unknown[0]!r} is not a column of {table}" if unknown else "no column was chosen"
        raise ValueError(f"{problem}; there are {', '.join(known)}")
    return tuple(known[name] for name in wanted)
