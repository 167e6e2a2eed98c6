"""Errors that belong to a healthy conversation.

The rule: an error is expected only if the protocol itself provides for it, the client continues without a person or a
configuration having to change, *and* this exchange alone shows that it is such a case. Errors that are merely frequent
are not expected: a rebalance (27), a moved leader (6) or a missing coordinator (15, which a cluster
without enough brokers for ``__consumer_offsets`` returns for ever) are what people look for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from captures.meaning.errors import ResponseError, errors_in
from captures.meaning.exchange import Body
from dissectors.api_keys import PRODUCER_APIS, ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.sides import Side


class _Case(NamedTuple):
    """An error in its exchange.

    :ivar version: version of the request
    :ivar value: value of :attr:`ExpectedError.reads`; None if it is missing
    """

    version: int
    value: Any
    error: ResponseError


class ExpectedError(NamedTuple):
    """Why an error is expected, and when.

    :ivar reads: field of the request that decides, if one does; a missing request is no evidence of an error
    """

    reason: str
    holds: Callable[[_Case], bool] = lambda _: True
    reads: str = ""


def _in_session(case: _Case) -> bool:
    return case.value is None or case.value > 0


def _being_created(case: _Case) -> bool:
    topic = case.error.holders[-1]
    return case.value is not False and len(case.error.holders) == 2 and not topic.get("partitions")


_CONCURRENT = ExpectedError(
    "The markers of this producer's previous transaction are still being written; the client asks again (KIP-98)."
)
_STALE_EPOCH = ExpectedError(
    "A heartbeat moved the member epoch while the request was under way; the member repeats it with the new one"
    " (KIP-848)."
)
_SHARE_SESSION = ExpectedError(
    "Brokers keep share sessions only as long as the connection; the client opens a new one (KIP-932).",
    _in_session,
    "share_session_epoch",
)

EXPECTED: dict[tuple[int, int], ExpectedError] = {
    (ApiKey.API_VERSIONS, ErrorCode.UNSUPPORTED_VERSION): ExpectedError(
        "The broker does not know this version of ApiVersions; the client falls back to one it does (KIP-511).",
        lambda case: case.version > 0,
    ),
    (ApiKey.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED): ExpectedError(
        "The coordinator gives a new member its ID, with which it joins again (KIP-394).",
        lambda case: not case.value,
        "member_id",
    ),
    (ApiKey.METADATA, ErrorCode.LEADER_NOT_AVAILABLE): ExpectedError(
        "The topic is being created by this very request; partitions have no leader yet"
        " (auto.create.topics.enable).",
        _being_created,
        "allow_auto_topic_creation",
    ),
    (ApiKey.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND): ExpectedError(
        "Brokers evict fetch sessions from a cache of limited size; the client opens a new one (KIP-227).",
        _in_session,
        "session_id",
    ),
    (ApiKey.SHARE_FETCH, ErrorCode.SHARE_SESSION_NOT_FOUND): _SHARE_SESSION,
    (ApiKey.SHARE_ACKNOWLEDGE, ErrorCode.SHARE_SESSION_NOT_FOUND): _SHARE_SESSION,
    (ApiKey.OFFSET_COMMIT, ErrorCode.STALE_MEMBER_EPOCH): _STALE_EPOCH,
    (ApiKey.OFFSET_FETCH, ErrorCode.STALE_MEMBER_EPOCH): _STALE_EPOCH,
    (ApiKey.OFFSET_FETCH, ErrorCode.UNSTABLE_OFFSET_COMMIT): ExpectedError(
        "A transaction on these offsets is not decided yet; the consumer asked for this error, and retries (KIP-447).",
        lambda case: case.value is not False,
        "require_stable",
    ),
    **{(key, ErrorCode.CONCURRENT_TRANSACTIONS): _CONCURRENT for key in PRODUCER_APIS},
    (ApiKey.CONSUMER_GROUP_DESCRIBE, ErrorCode.GROUP_ID_NOT_FOUND): ExpectedError(
        "The admin client asks for a new-protocol group first and, if there is none, describes it as a classic"
        " group (KIP-848)."
    ),
    (ApiKey.ELECT_LEADERS, ErrorCode.ELECTION_NOT_NEEDED): ExpectedError(
        "The partition is led by the replica that the election would choose: nothing to do (KIP-460)."
    ),
    (ApiKey.PUSH_TELEMETRY, ErrorCode.UNKNOWN_SUBSCRIPTION_ID): ExpectedError(
        "The broker's subscription has changed; the client fetches the new one (KIP-714)."
    ),
}
"""(API key, error code) -> why and when the error is part of a normal conversation."""


def expected_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths that :func:`expected_errors` reads in a body, besides those of ``errors_in``."""
    if side == "response":
        return frozenset()
    return frozenset(each.reads for (api_key, _), each in EXPECTED.items() if api_key == key and each.reads)


def expected_errors(
    key: int,
    version: int,
    request_body: Body | None,
    response_body: Body | None,
    errors: Iterable[ResponseError] | None = None,
) -> list[ResponseError]:
    """Return the errors of a response that belong to a normal conversation; :data:`EXPECTED` has the reasons.

    :param version: version of the request
    :param errors: result of :func:`~captures.meaning.errors.errors_in` for ``response_body``, if already known
    """
    out = []
    for error in errors_in(key, version, response_body) if errors is None else errors:
        rule = EXPECTED.get((key, error.code))
        if rule is not None and rule.holds(_Case(version, (request_body or {}).get(rule.reads), error)):
            out.append(error)
    return out
