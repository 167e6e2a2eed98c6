"""What clients are for, and which of it a client was recorded to have done.

A client did a job if all requests that the job consists of were answered without an error. Whether the records were
the right ones is for :func:`tests.lanes.through.errand` to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from captures.exchanges import Exchange, ExchangeReader, open_capture

PRODUCE, CONSUME, GROUP, TRANSACTION, TOPICS, CONFIGURATION, GROUPS = JOBS = (
    "produce",
    "consume",
    "group",
    "transaction",
    "topics",
    "configuration",
    "groups",
)

_COMMITTED, _ABORTED = "EndTxn (committed)", "EndTxn (aborted)"
_REQUESTS: Mapping[str, frozenset[str]] = {
    PRODUCE: frozenset({"Produce"}),
    CONSUME: frozenset({"Fetch"}),
    GROUP: frozenset({"FindCoordinator", "JoinGroup", "SyncGroup", "OffsetCommit"}),
    TRANSACTION: frozenset({"InitProducerId", _COMMITTED, _ABORTED}),
    TOPICS: frozenset({"CreateTopics", "DeleteTopics"}),
    CONFIGURATION: frozenset({"DescribeConfigs"}),
    GROUPS: frozenset({"ListGroups", "DescribeGroups"}),
}
_END_TXN = "EndTxn"


def requests(exchanges: Iterable[Exchange]) -> dict[str, set[str]]:
    """Return which requests of each client ID were answered without an error."""
    answered: dict[str, set[str]] = {}
    for each in exchanges:
        if each.client_id and each.request is not None and each.response is not None and not each.errors:
            answered.setdefault(each.client_id, set()).add(_request(each))
    return answered


def _request(exchange: Exchange) -> str:
    """Return the name of a request: that of the API, and how a transaction was ended."""
    if exchange.api != _END_TXN or exchange.request is None or exchange.request.value is None:
        return exchange.api
    return _COMMITTED if exchange.request.value["committed"] else _ABORTED


def done(recording: Path) -> dict[str, set[str]]:
    """Return the jobs that each client ID of a recording did."""
    capture = open_capture(str(recording))
    capture.read()
    answered = requests(ExchangeReader(capture))
    return {
        client: {job for job, wanted in _REQUESTS.items() if wanted <= names}
        for client, names in answered.items()
    }
