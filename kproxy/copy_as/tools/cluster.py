"""Brokers and controllers: kafka-broker-api-versions, kafka-cluster, kafka-log-dirs, kafka-metadata-quorum."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.api_keys import ApiKey
from kproxy.copy_as.request import RequestToCopy, with_value
from kproxy.copy_as.shell import Command
from kproxy.copy_as.tools.common import Makers, tool

_CONTROLLERS = 2


def _api_versions(request: RequestToCopy) -> Iterator[Command]:
    yield Command(tool(request, "kafka-broker-api-versions"))


def _describe_cluster(request: RequestToCopy) -> Iterator[Command]:
    where = "--bootstrap-server"
    if request.value.get("endpoint_type") == _CONTROLLERS:
        where = "--bootstrap-controller"
    words = ["kafka-cluster.sh", "list-endpoints", where, request.broker]
    if request.value.get("include_fenced_brokers"):
        words.append("--include-fenced-brokers")
    yield Command(words)


def _describe_log_dirs(request: RequestToCopy) -> Iterator[Command]:
    words = tool(request, "kafka-log-dirs", "--describe")
    topics = request.value["topics"]
    if topics:
        words += with_value("--topic-list", ",".join(topic["topic"] for topic in topics))
    yield Command(words, notes=["asks all brokers; the request asked this one"])


def _describe_quorum(request: RequestToCopy) -> Iterator[Command]:
    yield Command(tool(request, "kafka-metadata-quorum", "describe", "--replication"))


MAKERS: Makers = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.DESCRIBE_QUORUM: _describe_quorum,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
}
