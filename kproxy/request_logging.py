"""The level of the brokers' request logger, read and set by the admin protocol (KIP-412, since Kafka 2.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any

from dissectors.api_keys import ApiKey
from dissectors.error_codes import error_name
from kproxy.addresses import Address
from kproxy.proxy.own_requests import BrokerConnection, OwnRequestError, cluster_of
from kproxy.proxy.tls.security import Security
from kproxy.replay.cluster import Node

LOGGER = "kafka.request.logger"
ON, OFF = "DEBUG", "WARN"
"""The level at which brokers log each request, and that of Kafka's default configuration."""
LOGGING = frozenset({"DEBUG", "TRACE"})

_BROKER_LOGGER = 8
_SET = 0


class RefusedError(OwnRequestError):
    """A broker answered that it does not do what was asked."""


class RequestLoggers:
    """The request loggers of a cluster's brokers. Brokers are asked at the same time, so that none delays the others.

    :param security: how to connect
    :param timeout: seconds for each connection and answer
    """

    def __init__(self, security: Security, timeout: float) -> None:
        self._security = security
        self._timeout = timeout

    async def brokers(self, bootstrap: Iterable[Address], wanted: Iterable[int]) -> list[Node]:
        """Return the brokers of a cluster with some IDs, all if none is given.

        :raises OwnRequestError: if the cluster cannot be reached, or has no such broker
        """
        cluster = await cluster_of(bootstrap, self._security, self._timeout)
        nodes = {node.node_id: node for node in sorted(Node(*each) for each in cluster.brokers)}
        ids = list(wanted) or list(nodes)
        for each in ids:
            if each not in nodes:
                there = ", ".join(map(str, nodes))
                raise OwnRequestError(f"there is no broker {each}: the cluster has {there}")
        return [nodes[each] for each in ids]

    async def levels(self, brokers: Iterable[Node]) -> dict[Node, str | OwnRequestError]:
        """Return the level of each broker's request logger, or why it is unknown."""
        return await _of_each({broker: self._level(broker) for broker in brokers})

    async def set_levels(self, levels: Mapping[Node, str]) -> dict[Node, str | OwnRequestError]:
        """Set the level of brokers' request loggers; return the level of each, or why it may not have been set."""
        return await _of_each({broker: self._set_level(broker, level) for broker, level in levels.items()})

    async def _level(self, broker: Node) -> str:
        wanted = {"resource_name": str(broker.node_id), "configuration_keys": [LOGGER]}
        answer = await self._ask(
            broker, ApiKey.DESCRIBE_CONFIGS, {"resources": [wanted | {"resource_type": _BROKER_LOGGER}]}
        )
        for result in answer["results"]:
            _check(result)
            for each in result["configs"]:
                if each["name"] == LOGGER:
                    return str(each["value"])
        raise RefusedError(f"it has no {LOGGER}: its logging is not configured by Log4j")

    async def _set_level(self, broker: Node, level: str) -> str:
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
            _check(result)
        return level

    async def _ask(self, broker: Node, key: ApiKey, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the broker itself: only it knows its loggers."""
        async with await BrokerConnection.connect(
            broker.host, broker.port, self._security, timeout=self._timeout
        ) as connection:
            return await connection.request(key, connection.version_of(key), body, timeout=self._timeout)


async def _of_each(asked: Mapping[Node, Coroutine[Any, Any, str]]) -> dict[Node, str | OwnRequestError]:
    """Await the answer of each broker; a failure is one, too."""

    async def answer(one: Coroutine[Any, Any, str]) -> str | OwnRequestError:
        try:
            return await one
        except OwnRequestError as error:
            return error

    return dict(zip(asked, await asyncio.gather(*map(answer, asked.values())), strict=True))


def _check(result: Mapping[str, Any]) -> None:
    if result["error_code"]:
        message = result.get("error_message") or ""
        raise RefusedError(f"{error_name(result['error_code'])} {message}".rstrip())
