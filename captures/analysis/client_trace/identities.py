"""The names that a client uses for itself: as a member, under a transactional ID, as a producer.

Names of others do not count: the members in a leader's SyncGroup, those that an admin removes, and the transactions
that brokers verify and end for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from captures.analysis.client_trace.model import AssociationReason
from captures.meaning import Producer, producers_in
from captures.meaning.exchange import Body, text
from dissectors.api_keys import GROUP_HEARTBEATS, MEMBER_APIS, PRODUCER_APIS, ApiKey

CHANGING = frozenset({ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.INIT_PRODUCER_ID})
"""APIs that give a client another name."""

_GIVEN = GROUP_HEARTBEATS | {ApiKey.JOIN_GROUP}
"""APIs whose response gives the member ID."""
_MEMBER_NEEDS = frozenset({
    "request.member_id", "request.group_id", "request.group_instance_id", "request.instance_id",
})  # fmt: skip
_TRANSACTION_NEEDS = frozenset({"request.transactional_id", "request.v3_and_below_transactional_id"})


class Identity(NamedTuple):
    """One name.

    :ivar within: group of a member or an instance, epoch of a producer as text; empty for others
    """

    bond: AssociationReason
    value: str
    within: str = ""


def needs(key: int) -> frozenset[str]:
    """Return the fields with names, for :class:`~captures.exchanges.projected_reader.ProjectedReader`."""
    wanted: frozenset[str] = frozenset()
    if key in MEMBER_APIS:
        wanted |= _MEMBER_NEEDS
    if key in _GIVEN:
        wanted |= {"response.member_id"}
    if key in PRODUCER_APIS:
        wanted |= _TRANSACTION_NEEDS | {"producers"}
    return wanted


def identities(key: int, version: int, request: Body, response: Body) -> Iterator[Identity]:
    """Yield the names that a client uses for itself in one exchange.

    :param request: body with the fields of :func:`needs`; empty if it was not captured
    :param response: body with the fields of :func:`needs`; empty if it was not captured
    """
    group = _string(request, "group_id")
    if key in MEMBER_APIS and group:
        for member in dict.fromkeys((_string(request, "member_id"), _given(key, response))):
            if member:
                yield Identity(AssociationReason.MEMBER, member, group)
        instance = _string(request, "group_instance_id") or _string(request, "instance_id")
        if instance:
            yield Identity(AssociationReason.INSTANCE, instance, group)
    if key in PRODUCER_APIS:
        name = _string(request, "transactional_id") or _string(request, "v3_and_below_transactional_id")
        if name:
            yield Identity(AssociationReason.TRANSACTION, name)
        for producer in dict.fromkeys(_producers(key, version, request, response)):
            yield Identity(AssociationReason.PRODUCER, str(producer.producer_id), str(producer.epoch))


def _given(key: int, response: Body) -> str:
    return _string(response, "member_id") if key in _GIVEN else ""


def _producers(key: int, version: int, request: Body, response: Body) -> Iterator[Producer]:
    yield from producers_in(key, version, request)
    if key == ApiKey.INIT_PRODUCER_ID:
        yield from producers_in(key, version, response, "response")


def _string(body: Body, field: str) -> str:
    found: Any = text(body, field)
    return found if isinstance(found, str) else ""
