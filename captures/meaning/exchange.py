"""One exchange as input of the summaries, and tolerant access to its bodies.

Bodies are the plain dicts decoded by :mod:`dissectors`. A message that was cut off has a partial one: fields
are missing, lists end early, and an element whose first field was not read is None. Nothing here raises for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dissectors.sides import Side

Body = Mapping[str, Any]
"""A decoded struct: field name -> value."""

Names = Callable[[str], str | None]
"""Topic ID (base64url text) -> topic name, or None if no message has named it."""


class Bodies(NamedTuple):
    """The input of a summary.

    :ivar version: version of the request
    :ivar request: the request's body; empty if there is none
    :ivar response: the response's body; empty if there is none, or if only the request is summarised
    :ivar latency_ns: first byte of the request to the last of the response, -1 if unknown
    """

    key: int
    version: int
    request: Body
    response: Body
    names: Names
    latency_ns: int = -1


Saying = Callable[[Bodies], str]
"""Summarises one side of an exchange; empty if there is nothing to say."""


class SummaryWriter(NamedTuple):
    """How the exchanges of one API are summarised.

    :ivar on_error: text to append after the names of errors if the response contains any
    :ivar unread: fields that are not read, by path and side, such as ``request.topics.partitions.fetch_offset``; others
        may be
    :ivar inserted: numbers that are inserted unchanged if they are positive, without any other effect
    """

    request: Saying
    response: Saying
    on_error: Saying | None = None
    unread: frozenset[str] = frozenset()
    inserted: frozenset[str] = frozenset()


def fields(side: Side, holder: str, *names: str) -> frozenset[str]:
    """Return fields of a struct by path and side, in the form of :attr:`SummaryWriter.unread`."""
    return frozenset(f"{side}.{holder}.{name}" if holder else f"{side}.{name}" for name in names)


def rows(body: Body, field: str) -> list[Body]:
    """Return the structs of an array field; empty if null, absent, or not read."""
    found = body.get(field)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def items(body: Body, field: str) -> list[Any]:
    """Return the numbers or strings of an array field; empty if null, absent, or not read."""
    found = body.get(field)
    return [item for item in found if item is not None] if isinstance(found, tuple | list) else []


def inner(body: Body, field: str) -> Body:
    """Return a struct field; empty if null, absent, or not read."""
    found = body.get(field)
    return found if isinstance(found, dict) else {}


def number(body: Body, field: str, default: int = -1) -> int:
    """Return a number field, or ``default`` if absent or not read."""
    found = body.get(field)
    return found if isinstance(found, int) else default


def text(body: Body, field: str, default: str = "") -> str:
    """Return a string field; ``default`` if null, absent, empty, or not read."""
    return body.get(field) or default


def replica_of(request: Body) -> int:
    """Return the node ID of a requesting replica, as in a Fetch; below 0 for a consumer.

    ``replica_state`` has it in a Fetch since v15 (KIP-903).
    """
    return number(request, "replica_id", number(inner(request, "replica_state"), "replica_id"))


def ok(_: Bodies) -> str:
    """Return ``ok``, for successful responses without further content."""
    return "ok"


def nothing(_: Bodies) -> str:
    """Return an empty text, for messages without content."""
    return ""
