"""The jobs of clients, and which of them a recorded client did.

A client did a job if all requests of the job were answered without an error. :func:`tests.lanes.through.errand` checks
whether the records were the right ones.
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
    """Return the requests of each client ID that were answered without an error."""
    answered: dict[str, set[str]] = {}
    for each in exchanges:
        if each.client_id and each.request is not None and each.response is not None and not each.errors:
            answered.setdefault(each.client_id, set()).add(_request(each))
    return answered


def _request(exchange: Exchange) -> str:
    """Return the name of a request: that of the API, and whether EndTxn commits or aborts."""
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
