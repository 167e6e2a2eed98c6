"""The wording of a log for each API: the phase of a client, and its action."""

from __future__ import annotations

from typing import NamedTuple

from captures.analysis.client_trace.model import Phase
from dissectors.api_keys import ApiKey

IN_TRANSACTION = frozenset(
    {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT}
)


class ApiWording(NamedTuple):
    """The wording for an API.

    :ivar what: kind of its lines
    :ivar phase: phase that it begins; None if it belongs to all of them
    :ivar does: action of the client, in words
    :ivar turn: whether it begins something new, so that earlier and later exchanges are not merged
    """

    what: str
    phase: Phase | None
    does: str
    turn: bool = False


MANNERS: dict[int, ApiWording] = {
    ApiKey.PRODUCE: ApiWording("produces", Phase.PRODUCING, "produces"),
    ApiKey.FETCH: ApiWording("fetches", Phase.CONSUMING, "fetches"),
    ApiKey.LIST_OFFSETS: ApiWording("offsets", Phase.POSITIONS, "looks offsets up"),
    ApiKey.METADATA: ApiWording("metadata", None, "asks for metadata"),
    ApiKey.OFFSET_COMMIT: ApiWording("commits", None, "commits"),
    ApiKey.OFFSET_FETCH: ApiWording("offsets", Phase.POSITIONS, "asks what is committed"),
    ApiKey.FIND_COORDINATOR: ApiWording("coordinator", Phase.COORDINATOR, "looks for the coordinator"),
    ApiKey.JOIN_GROUP: ApiWording("join", Phase.GROUP, "joins the group", turn=True),
    ApiKey.HEARTBEAT: ApiWording("heartbeats", None, "sends a heartbeat"),
    ApiKey.LEAVE_GROUP: ApiWording("leave", Phase.GROUP, "leaves the group", turn=True),
    ApiKey.SYNC_GROUP: ApiWording("assignment", Phase.GROUP, "asks for its assignment"),
    ApiKey.SASL_HANDSHAKE: ApiWording("authentication", Phase.AUTHENTICATION, "authenticates"),
    ApiKey.API_VERSIONS: ApiWording("versions", None, "asks for API versions"),
    ApiKey.INIT_PRODUCER_ID: ApiWording("producer_id", Phase.PRODUCING, "asks for a producer ID", turn=True),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiWording(
        "offsets", Phase.POSITIONS, "checks its position against leader epochs"
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiWording(
        "transaction", Phase.TRANSACTIONS, "adds partitions to its transaction"
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: ApiWording(
        "transaction", Phase.TRANSACTIONS, "adds offsets to its transaction"
    ),
    ApiKey.END_TXN: ApiWording("transaction", Phase.TRANSACTIONS, "ends its transaction"),
    ApiKey.TXN_OFFSET_COMMIT: ApiWording(
        "transaction", Phase.TRANSACTIONS, "commits offsets in its transaction"
    ),
    ApiKey.SASL_AUTHENTICATE: ApiWording("authentication", Phase.AUTHENTICATION, "authenticates"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiWording("member", Phase.GROUP, "speaks as a member", turn=True),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ApiWording("telemetry", None, "asks which metrics are wanted"),
    ApiKey.PUSH_TELEMETRY: ApiWording("telemetry", None, "pushes metrics"),
    ApiKey.SHARE_GROUP_HEARTBEAT: ApiWording("member", Phase.GROUP, "speaks as a member", turn=True),
    ApiKey.SHARE_FETCH: ApiWording("fetches", Phase.CONSUMING, "fetches"),
    ApiKey.SHARE_ACKNOWLEDGE: ApiWording("acknowledges", Phase.CONSUMING, "acknowledges records"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ApiWording("member", Phase.GROUP, "speaks as a member", turn=True),
}
"""API key -> wording."""


def manner_of(key: int | None, name: str) -> ApiWording:
    """Return the wording for an API; APIs of administration and of brokers use their names."""
    known = MANNERS.get(-1 if key is None else key)
    return ApiWording("request", Phase.ADMINISTRATION, name) if known is None else known
