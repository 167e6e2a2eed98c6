"""The values that fields take from an exchange with decoded bodies.

Each function takes an exchange and the :class:`~captures.filters.context.Context`; generated code calls it. Bodies may
be annotated (records as lists of batches) or not (records as bytes), complete or cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from captures.exchanges import Exchange
from captures.filters.context import Context
from captures.filters.groups import named_groups
from captures.filters.values import split_endpoint
from captures.meaning import members_in, producers_in, topics_in, transactional_ids_in
from captures.meaning.payload import record_fields, record_paths
from captures.names.names import with_port
from dissectors.budget import Budget, LimitReached, message_budget
from dissectors.frames import Body
from dissectors.record_values import RecordNotes, RecordValues
from dissectors.records import Record, record_set
from dissectors.sides import SIDES, Side
from dissectors.units import MS

_READER = RecordValues()
_OF_RECORDS = frozenset({"batch_bytes", "batch_ratio", "batch_records", "message_bytes", "message_records"})


def _bodies(exchange: Exchange) -> Iterator[tuple[int, int, Mapping[str, Any], Side]]:
    key = exchange.api_key
    if key is None:
        return
    for side in SIDES:
        body: Body | None = getattr(exchange, side)
        if body is not None and body.version is not None and body.value:
            yield key, body.version, body.value, side


# ---------------------------------------------------------------- named entities
def topics(exchange: Exchange, context: Context) -> dict[str, list[int]]:
    """Return the topics named in request or response, with their partitions."""
    out: dict[str, list[int]] = {}
    for key, version, value, side in _bodies(exchange):
        for topic, indexes in topics_in(key, version, value, context.names, side).items():
            out.setdefault(topic, []).extend(indexes)
    return out


def partitions(exchange: Exchange, context: Context) -> set[int]:
    """Return the partitions named in request or response."""
    return {index for indexes in topics(exchange, context).values() for index in indexes}


def topic_partitions(exchange: Exchange, context: Context) -> list[str]:
    """Return topics with a partition: ``orders-3``."""
    return [f"{topic}-{index}" for topic, indexes in topics(exchange, context).items() for index in indexes]


def groups(exchange: Exchange, context: Context) -> list[str]:
    """Return the groups named in the messages, or the inferred one."""
    named = named_groups(exchange)
    if named or context.groups is None:
        return named
    group, _ = context.groups.group_of(exchange)
    return [] if group is None else [group]


def _named(find: Callable[[int, int, Any, Side], list[Any]]) -> Callable[[Exchange, Context], list[Any]]:
    def both(exchange: Exchange, context: Context) -> list[Any]:
        return [
            name
            for key, version, value, side in _bodies(exchange)
            for name in find(key, version, value, side)
        ]

    return both


group_members = _named(members_in)
transactional_ids = _named(transactional_ids_in)


def producer_ids(exchange: Exchange, context: Context) -> set[int]:
    """Return the producer IDs named in the messages or in batch headers."""
    found = {
        producer.producer_id
        for key, version, value, side in _bodies(exchange)
        for producer in producers_in(key, version, value, side)
    }
    for batch in batches(exchange, context):
        if batch["producer_id"] is not None and batch["producer_id"] >= 0:
            found.add(batch["producer_id"])
    return found


# ---------------------------------------------------------------- errors
def unexpected_errors(exchange: Exchange, context: Context) -> list[int]:
    """Return the codes of errors that do not belong to a normal conversation."""
    return [error.code for error in exchange.unexpected_errors]


# ---------------------------------------------------------------- single values
def throttle(exchange: Exchange, context: Context) -> int | None:
    """Return the throttle time of the response in ns."""
    found = exchange.response_body.get("throttle_time_ms")
    return found * MS if isinstance(found, int) else None


def acks(exchange: Exchange, context: Context) -> int | None:
    """Return the number of acknowledgments that a Produce requires."""
    found = exchange.request_body.get("acks")
    return found if isinstance(found, int) else None


def ends(endpoint: str, names: Sequence[str]) -> Iterator[str]:
    """Yield an endpoint, and the same with each of its names instead of the host."""
    yield endpoint
    for name in names:
        yield with_port(name, endpoint)


def hosts(endpoint: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the host of an endpoint, and its names."""
    return host_of(endpoint), *names


def host_of(endpoint: str) -> str:
    """Return the host of ``host:port``."""
    return split_endpoint(endpoint)[0]


def port_of(endpoint: str) -> int | None:
    """Return the port of ``host:port``."""
    return split_endpoint(endpoint)[1]


# ---------------------------------------------------------------- records
def shown_batches(value: Any, reached: list[LimitReached], budget: Budget) -> list[dict[str, Any]]:
    """Return a records field as a list of batches, whether or not it was annotated.

    :param reached: collects limits beyond which there are no records
    :param budget: budget of the message
    """
    if not isinstance(value, bytes):
        return _annotated(value)
    notes = RecordNotes({}, [])
    shown = _READER.show(value, "", None, notes, budget=budget)
    reached.extend(problem for problem in notes.problems if isinstance(problem, LimitReached))
    return shown


def shown_headers(value: Any) -> list[dict[str, Any]]:
    """Return a records field as a list of batches without their records."""
    if not isinstance(value, bytes):
        return _annotated(value)
    return _HEADERS.show(value, "", None, RecordNotes({}, []))


def _annotated(value: Any) -> list[dict[str, Any]]:
    return [batch for batch in value if isinstance(batch, dict)] if isinstance(value, list) else []


def decided(exchange: Exchange, reached: list[LimitReached]) -> None:
    """Raise if records in which nothing was found were not all read.

    :param reached: limits beyond which records were not read
    :raises LimitReached: if some were not read, here or when the exchange was annotated
    """
    if reached:
        raise reached[0]
    for name in exchange.limits & _OF_RECORDS:
        raise LimitReached(name, "reading all records")


_HEADERS = RecordValues(payload="none")


def batches_of(
    value: Any, context: Context, reached: list[LimitReached], budget: Budget
) -> list[dict[str, Any]]:
    """Return a records field as a list of batches with their records, using the reader of the context.

    :raises LimitReached: if the context allows less than the message has
    """
    if context.records is not None and value and isinstance(value, bytes):
        return context.records(value, True)
    return shown_batches(value, reached, budget)


def _headers_of(value: Any, context: Context) -> list[dict[str, Any]]:
    if context.records is not None and value and isinstance(value, bytes):
        return context.records(value, False)
    return shown_headers(value)


def batches(exchange: Exchange, context: Context) -> Iterator[dict[str, Any]]:
    """Yield the record batches of request and response, without their records."""
    for key, version, body, side in _bodies(exchange):
        for value in record_fields(key, version, body, side):
            yield from _headers_of(value, context)


def total(exchange: Exchange, context: Context, one: Callable[[dict[str, Any]], int]) -> int | None:
    """Sum a value over all batches; None if the messages carry no records, or a request log leaves these out."""
    logged = exchange.broker_log
    if logged is not None and (logged.request_left_out or logged.response_left_out):
        return None
    total = None
    for key, version, body, side in _bodies(exchange):
        if record_paths(key, version, side):
            total = total or 0
            for value in record_fields(key, version, body, side):
                total += sum(map(one, _headers_of(value, context)))
    return total


def announced(batch: dict[str, Any]) -> int:
    """Return the number of records that a batch header announces."""
    # a compressed message of magic 0 or 1 has no count, unless it was decompressed
    untold = batch["control"] or (batch["magic"] < 2 and batch["codec"] != "none")
    return 0 if untold else int(batch["count"])


def records(exchange: Exchange, context: Context) -> Iterator[Record]:
    """Yield the data records; keys of control records are types of markers.

    :raises LimitReached: at the end, if there are more records than were read
    """
    reached: list[LimitReached] = []
    for key, version, body, side in _bodies(exchange):
        budget = message_budget()
        for value in record_fields(key, version, body, side):
            if not isinstance(value, bytes):
                yield from _shown(value)
            elif context.records is not None:
                yield from _shown(context.records(value, True))
            else:
                yield from _records_of(value, budget, reached)
    decided(exchange, reached)


def _records_of(data: bytes, budget: Budget, reached: list[LimitReached]) -> Iterator[Record]:
    found = record_set(data, budget)
    problems = found.problems
    for batch in found.batches:
        if not batch.control:
            read = batch.read(budget)
            yield from read.records
            problems.extend(read.problems)
    reached.extend(problem for problem in problems if isinstance(problem, LimitReached))


def _shown(value: Any) -> Iterator[Record]:
    for batch in _annotated(value):
        for record in () if batch["control"] else batch["records"]:
            headers = tuple((header["key"], header["value"]) for header in record["headers"])
            yield Record(record["offset"], record["timestamp"], record["key"], record["value"], headers)


def headers(exchange: Exchange, context: Context) -> Iterable[tuple[str, bytes | None]]:
    """Return names and values of the record headers."""
    return (header for record in records(exchange, context) for header in record.headers)


# ---------------------------------------------------------------- bodies by path
def embedded_values(exchange: Exchange, prefix: str) -> Iterator[Any]:
    """Yield the embedded protocols that annotation found in a field.

    :param prefix: path of the field with its side; without indexes it means any element
    """
    for path, value in exchange.annotations.decoded.items():
        if _covers(prefix, path):
            yield value


def _covers(prefix: str, path: str) -> bool:
    wanted, steps = prefix.split("."), path.split(".")
    return len(wanted) == len(steps) and all(
        step == want or ("[" not in want and step.partition("[")[0] == want)
        for want, step in zip(wanted, steps, strict=True)
    )
