"""One exchange as the summaries see it, and tolerant access to its bodies.

Bodies are the plain dicts that :mod:`dissectors` decodes. A message that was cut off gives a partial one: fields
are missing, lists end early, and an element whose first field was not read is None. Nothing here raises for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dissectors.sides import Side

Body = Mapping[str, Any]
"""A decoded struct: field name -> value."""

Names = Callable[[str], str | None]
"""Topic ID (base64url text) -> topic name, or None if no message has told it."""


class Bodies(NamedTuple):
    """What a summary is made from.

    :ivar version: of the request
    :ivar request: the request's body; empty if there is none
    :ivar response: the response's body; empty if there is none, or if only the request is asked about
    :ivar latency_ns: first byte of the request to the last of the response, -1 if unknown
    """

    key: int
    version: int
    request: Body
    response: Body
    names: Names
    latency_ns: int = -1


Saying = Callable[[Bodies], str]
"""Puts one side of an exchange into words; empty if there is nothing to say."""


class SummaryWriter(NamedTuple):
    """How the exchanges of one API are put into words.

    :ivar on_error: what to add when the response holds errors; it comes after their names
    :ivar unread: fields that are not read, by path and side, such as ``request.topics.partitions.fetch_offset``; others
        may be
    :ivar inserted: numbers that are written as they are if they are positive, and have no other effect then
    """

    request: Saying
    response: Saying
    on_error: Saying | None = None
    unread: frozenset[str] = frozenset()
    inserted: frozenset[str] = frozenset()


def fields(side: Side, holder: str, *names: str) -> frozenset[str]:
    """Return fields of a struct by path and side, as :attr:`SummaryWriter.unread` has them."""
    return frozenset(f"{side}.{holder}.{name}" if holder else f"{side}.{name}" for name in names)


def rows(body: Body, field: str) -> list[Body]:
    """Return the structs of an array field; empty for null, absent, or not read."""
    found = body.get(field)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def items(body: Body, field: str) -> list[Any]:
    """Return the numbers or strings of an array field; empty for null, absent, or not read."""
    found = body.get(field)
    return [item for item in found if item is not None] if isinstance(found, tuple | list) else []


def inner(body: Body, field: str) -> Body:
    """Return a struct field; empty for null, absent, or not read."""
    found = body.get(field)
    return found if isinstance(found, dict) else {}


def number(body: Body, field: str, default: int = -1) -> int:
    """Return a number field, or ``default`` for absent or not read."""
    found = body.get(field)
    return found if isinstance(found, int) else default


def text(body: Body, field: str, default: str = "") -> str:
    """Return a string field; ``default`` for null, absent, empty, or not read."""
    return body.get(field) or default


def replica_of(request: Body) -> int:
    """Return the node ID of who asks as a replica, as in a Fetch; below 0 for a consumer.

    ``replica_state`` has it in a Fetch since v15 (KIP-903).
    """
    return number(request, "replica_id", number(inner(request, "replica_state"), "replica_id"))


def ok(_: Bodies) -> str:
    """Say that it went well, where the answer tells no more."""
    return "ok"


def nothing(_: Bodies) -> str:
    """Say nothing, where the message has no content."""
    return ""
