"""How a log speaks of each API: in which phase a client uses it, and what it does with it, in words."""

from __future__ import annotations

from typing import NamedTuple

from captures.analysis.party.model import Phase

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, JOIN_GROUP, LEAVE_GROUP = 0, 1, 3, 8, 11, 13
SASL_HANDSHAKE, SASL_AUTHENTICATE, INIT_PRODUCER_ID, SHARE_FETCH = 17, 36, 22, 78
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
FIND_COORDINATOR, HEARTBEAT = 10, 12
MODERN_HEARTBEATS = frozenset({68, 76, 88})
IN_TRANSACTION = frozenset({ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT})


class Manner(NamedTuple):
    """How a log speaks of an API.

    :ivar what: the word of its lines
    :ivar phase: that it begins; None if it belongs to all of them
    :ivar does: what the client does, in words
    :ivar turn: whether it begins something new, so that what went on before is not put together with what comes after
    """

    what: str
    phase: Phase | None
    does: str
    turn: bool = False


MANNERS = {
    PRODUCE: Manner("produces", Phase.PRODUCING, "produces"),
    FETCH: Manner("fetches", Phase.CONSUMING, "fetches"),
    2: Manner("offsets", Phase.POSITIONS, "looks offsets up"),
    METADATA: Manner("metadata", None, "asks for metadata"),
    OFFSET_COMMIT: Manner("commits", None, "commits"),
    9: Manner("offsets", Phase.POSITIONS, "asks what is committed"),
    FIND_COORDINATOR: Manner("coordinator", Phase.COORDINATOR, "looks for the coordinator"),
    JOIN_GROUP: Manner("join", Phase.GROUP, "joins the group", turn=True),
    HEARTBEAT: Manner("heartbeats", None, "sends a heartbeat"),
    LEAVE_GROUP: Manner("leave", Phase.GROUP, "leaves the group", turn=True),
    14: Manner("assignment", Phase.GROUP, "asks for its assignment"),
    SASL_HANDSHAKE: Manner("authentication", Phase.AUTHENTICATION, "authenticates"),
    18: Manner("versions", None, "asks for API versions"),
    INIT_PRODUCER_ID: Manner("producer_id", Phase.PRODUCING, "asks for a producer ID", turn=True),
    23: Manner("offsets", Phase.POSITIONS, "checks its position against leader epochs"),
    ADD_PARTITIONS_TO_TXN: Manner("transaction", Phase.TRANSACTIONS, "adds partitions to its transaction"),
    ADD_OFFSETS_TO_TXN: Manner("transaction", Phase.TRANSACTIONS, "adds offsets to its transaction"),
    END_TXN: Manner("transaction", Phase.TRANSACTIONS, "ends its transaction"),
    TXN_OFFSET_COMMIT: Manner("transaction", Phase.TRANSACTIONS, "commits offsets in its transaction"),
    SASL_AUTHENTICATE: Manner("authentication", Phase.AUTHENTICATION, "authenticates"),
    68: Manner("member", Phase.GROUP, "speaks as a member", turn=True),
    71: Manner("telemetry", None, "asks which metrics are wanted"),
    72: Manner("telemetry", None, "pushes metrics"),
    76: Manner("member", Phase.GROUP, "speaks as a member", turn=True),
    SHARE_FETCH: Manner("fetches", Phase.CONSUMING, "fetches"),
    79: Manner("acknowledges", Phase.CONSUMING, "acknowledges records"),
    88: Manner("member", Phase.GROUP, "speaks as a member", turn=True),
}
"""API key -> how a log speaks of it."""


def manner_of(key: int | None, name: str) -> Manner:
    """Return how a log speaks of an API; those of administration and of brokers are told by their names."""
    known = MANNERS.get(-1 if key is None else key)
    return Manner("request", Phase.ADMINISTRATION, name) if known is None else known
