"""kproxy's own requests to the live cluster: its brokers and topics before the plan, and lookups during the replay."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from dissectors.api_keys import ApiKey
from dissectors.error_codes import COORDINATOR_AWAY, ErrorCode, error_name
from kproxy.proxy.own_requests import BrokerConnection, OwnRequestError
from kproxy.proxy.tls.security import Security
from kproxy.replay.cluster import GROUP, TRANSACTION, LiveCluster, Node
from kproxy.replay.producers import Producer

_FIRST_WITHOUT_AUTO_CREATION = 4
_FIRST_OF_MANY_KEYS = 4
_TRY_AGAIN = COORDINATOR_AWAY | {ErrorCode.CONCURRENT_TRANSACTIONS}
_PAUSE = 0.2
_KINDS = {GROUP: "group", TRANSACTION: "transactional ID"}


async def live_cluster(
    bootstrap: Sequence[tuple[str, int]], security: Security, topics: Collection[str], timeout: float
) -> LiveCluster:
    """Ask a cluster for its brokers, the versions that all of them offer, and some topics. Nothing is created.

    :param bootstrap: host and port of brokers, tried in turn
    :param timeout: seconds for each connection and answer
    :raises OwnRequestError: if none answers, or not all brokers of the cluster can be reached
    """
    async with await _first_that_answers(bootstrap, security, timeout) as connection:
        cluster = LiveCluster(connection.versions)
        version = connection.version_of(ApiKey.METADATA)
        wanted: list[dict[str, Any]] | None = [{"name": name} for name in sorted(topics)]
        if version < _FIRST_WITHOUT_AUTO_CREATION and topics:
            wanted = None if version else []  # naming a topic would create it: ask for all
        request = {"topics": wanted, "allow_auto_topic_creation": False}
        cluster.observe(
            ApiKey.METADATA,
            request,
            await connection.request(ApiKey.METADATA, version, request, timeout=timeout),
        )
    if not cluster.nodes:
        raise OwnRequestError(f"{connection.address} lists no brokers")
    for versions in await asyncio.gather(
        *(_versions_of(node, security, timeout) for node in cluster.nodes.values())
    ):
        cluster.narrow(versions)
    return cluster


async def _first_that_answers(
    bootstrap: Sequence[tuple[str, int]], security: Security, timeout: float
) -> BrokerConnection:
    failures = []
    for host, port in bootstrap:
        try:
            return await BrokerConnection.connect(host, port, security, timeout=timeout)
        except OwnRequestError as error:
            failures.append(str(error))
    raise OwnRequestError("; ".join(failures))


async def _versions_of(node: Node, security: Security, timeout: float) -> dict[int, tuple[int, int]]:
    async with await BrokerConnection.connect(node.host, node.port, security, timeout=timeout) as connection:
        return dict(connection.versions)


async def ask_for_coordinator(
    connection: BrokerConnection, cluster: LiveCluster, kind: int, key: str, timeout: float
) -> Node:
    """Look up the coordinator of a group or transactional ID, record it in `cluster`, and return it.

    :param timeout: seconds until there must be one
    :raises OwnRequestError: if there is none
    """
    version = connection.version_of(ApiKey.FIND_COORDINATOR)
    request: dict[str, Any] = {"key_type": kind, "coordinator_keys": [key]}
    if version < _FIRST_OF_MANY_KEYS:
        request = {"key_type": kind, "key": key}
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    while True:
        response = await connection.request(ApiKey.FIND_COORDINATOR, version, request, timeout=timeout)
        cluster.observe(ApiKey.FIND_COORDINATOR, request, response)
        found = cluster.coordinator(kind, key)
        if found is not None:
            return found
        code = next(iter(response.get("coordinators", ())), response)["error_code"]
        if code not in _TRY_AGAIN or loop.time() > until:
            raise OwnRequestError(
                f"{connection.address} names no coordinator of {_KINDS[kind]} {key}: {error_name(code)}"
            )
        await asyncio.sleep(_PAUSE)


async def ask_for_producer(connection: BrokerConnection, timeout: float) -> Producer:
    """Return a new producer ID and epoch, of an idempotent producer without transactions.

    :raises OwnRequestError: if the broker assigns none
    """
    request = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    version = connection.version_of(ApiKey.INIT_PRODUCER_ID)
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout
    while True:
        response = await connection.request(ApiKey.INIT_PRODUCER_ID, version, request, timeout=timeout)
        code = response["error_code"]
        if not code:
            return response["producer_id"], response["producer_epoch"]
        if code not in _TRY_AGAIN or loop.time() > until:
            raise OwnRequestError(f"{connection.address} gives no producer ID: {error_name(code)}")
        await asyncio.sleep(_PAUSE)
