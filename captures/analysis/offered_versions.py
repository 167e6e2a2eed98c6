"""Versions that brokers offer, and versions in use that Kafka 4 has removed."""

from __future__ import annotations

from captures.exchanges import Exchange
from captures.exchanges.equal_messages import BodyMemo
from captures.meaning.exchange import Body, number, rows
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name

_KAFKA_4_LEAST = {
    "Produce": 3,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "CreateTopics": 2,
    "DeleteTopics": 1,
    "OffsetForLeaderEpoch": 2,
    "WriteTxnMarkers": 1,
    "DescribeAcls": 1,
    "CreateAcls": 1,
    "DeleteAcls": 1,
    "DescribeConfigs": 1,
    "AlterReplicaLogDirs": 1,
    "DescribeLogDirs": 1,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
    "DescribeDelegationToken": 1,
}
"""API -> lowest version that brokers of Kafka 4.0 and later serve, if it is not 0 (KIP-896).

They announce Produce from 0 on for old librdkafka versions, and refuse versions before 3.
"""


def kafka_4_least(api: str) -> int:
    """Return the lowest version of an API that brokers of Kafka 4.0 and later serve; 0 for an unknown API."""
    return _KAFKA_4_LEAST.get(api, 0)


def too_old(api: str, version: int) -> bool:
    """Return whether brokers of Kafka 4.0 refuse a version that older ones know.

    A negative version, which any client can write into a request, belongs to no release.
    """
    return 0 <= version < kafka_4_least(api)


class OfferedVersions:
    """Collects brokers' announcements in ApiVersions."""

    def __init__(self) -> None:
        self._offered: dict[str, dict[str, tuple[int, int]]] = {}
        self._announced = BodyMemo(_by_name)

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        response = exchange.response
        known = exchange.api_key == ApiKey.API_VERSIONS and exchange.response_body.get("error_code") == 0
        if response is not None and known:
            self._offered[exchange.broker] = self._announced(response)

    def knows(self, broker: str) -> bool:
        """Return whether a broker has announced its versions."""
        return broker in self._offered

    def of(self, brokers: list[str], api: str) -> tuple[int, int] | None:
        """Return the versions of an API that all of the brokers offer, None if no announcement is known."""
        found = [
            offered[api]
            for broker in brokers
            if (offered := self._offered.get(broker)) is not None and api in offered
        ]
        return (max(least for least, _ in found), min(most for _, most in found)) if found else None


def announced_ranges(response: Body) -> dict[int, tuple[int, int]]:
    """Return the lowest and highest version of each API in an ApiVersions response, by API key."""
    return {
        number(row, "api_key"): (number(row, "min_version"), number(row, "max_version"))
        for row in rows(response, "api_keys")
        if row.get("api_key") is not None
    }


def _by_name(response: Body) -> dict[str, tuple[int, int]]:
    return {api_name(key): versions for key, versions in announced_ranges(response).items()}


def refuses_old(offered: OfferedVersions, broker: str) -> bool:
    """Return whether a broker is of Kafka 4.0 or later (KIP-896), by the versions it offers."""
    fetch = offered.of([broker], "Fetch")
    return fetch is not None and fetch[0] >= kafka_4_least("Fetch")
