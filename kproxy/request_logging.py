"""The level of the brokers' request logger, read and set by the admin protocol (KIP-412, since Kafka 2.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dissectors.api_keys import ApiKey
from dissectors.error_codes import error_name
from kproxy.proxy.own_requests import BrokerConnection, OwnRequestError
from kproxy.proxy.tls.security import Security
from kproxy.replay.cluster import Node
from kproxy.replay.cluster_queries import live_cluster

LOGGER = "kafka.request.logger"
ON, OFF = "DEBUG", "WARN"
"""The level at which brokers log each request, and that of Kafka's default configuration."""
LOGGING = frozenset({"DEBUG", "TRACE"})

_BROKER_LOGGER = 8
_SET = 0


class RequestLoggers:
    """The request loggers of a cluster's brokers.

    :param security: how to connect
    :param timeout: seconds for each connection and answer
    """

    def __init__(self, security: Security, timeout: float) -> None:
        self._security = security
        self._timeout = timeout

    async def brokers(self, bootstrap: Sequence[tuple[str, int]], wanted: Iterable[int]) -> list[Node]:
        """Return the brokers of a cluster with some IDs, all if none is given.

        :raises OwnRequestError: if the cluster cannot be reached, or has no such broker
        """
        cluster = await live_cluster(bootstrap, self._security, (), self._timeout)
        ids = list(wanted) or sorted(cluster.nodes)
        for each in ids:
            if each not in cluster.nodes:
                there = ", ".join(map(str, sorted(cluster.nodes)))
                raise OwnRequestError(f"there is no broker {each}: the cluster has {there}")
        return [cluster.nodes[each] for each in ids]

    async def level(self, broker: Node) -> str:
        """Return the level of a broker's request logger.

        :raises OwnRequestError: if the broker does not tell
        """
        resource = {"resource_type": _BROKER_LOGGER, "resource_name": str(broker.node_id)}
        answer = await self._ask(
            broker, ApiKey.DESCRIBE_CONFIGS, {"resources": [resource | {"configuration_keys": [LOGGER]}]}
        )
        for result in answer["results"]:
            _check(broker, result)
            for each in result["configs"]:
                if each["name"] == LOGGER:
                    return str(each["value"])
        raise OwnRequestError(f"broker {broker} has no {LOGGER}: its logging is not configured by Log4j")

    async def set_level(self, broker: Node, level: str) -> None:
        """Set the level of a broker's request logger.

        :raises OwnRequestError: if the broker does not do it
        """
        change = {"name": LOGGER, "config_operation": _SET, "value": level}
        resource = {
            "resource_type": _BROKER_LOGGER,
            "resource_name": str(broker.node_id),
            "configs": [change],
        }
        answer = await self._ask(
            broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource], "validate_only": False}
        )
        for result in answer["responses"]:
            _check(broker, result)

    async def _ask(self, broker: Node, key: ApiKey, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the broker itself: only it knows its loggers."""
        async with await BrokerConnection.connect(
            broker.host, broker.port, self._security, timeout=self._timeout
        ) as connection:
            return await connection.request(key, connection.version_of(key), body, timeout=self._timeout)


def _check(broker: Node, result: Mapping[str, Any]) -> None:
    if result["error_code"]:
        message = result.get("error_message") or ""
        raise OwnRequestError(f"broker {broker}: {error_name(result['error_code'])} {message}".rstrip())
