"""Brokers and controllers: kafka-broker-api-versions, kafka-cluster, kafka-log-dirs, kafka-metadata-quorum."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.copying.asked import Asked, with_value
from kproxy.copying.shell import Command
from kproxy.copying.tools.common import Makers, tool

_CONTROLLERS = 2


def _api_versions(request: Asked) -> Iterator[Command]:
    yield Command(tool(request, "kafka-broker-api-versions"))


def _describe_cluster(request: Asked) -> Iterator[Command]:
    where = "--bootstrap-server"
    if request.value.get("endpoint_type") == _CONTROLLERS:
        where = "--bootstrap-controller"
    words = ["kafka-cluster.sh", "list-endpoints", where, request.broker]
    if request.value.get("include_fenced_brokers"):
        words.append("--include-fenced-brokers")
    yield Command(words)


def _describe_log_dirs(request: Asked) -> Iterator[Command]:
    words = tool(request, "kafka-log-dirs", "--describe")
    topics = request.value["topics"]
    if topics:
        words += with_value("--topic-list", ",".join(topic["topic"] for topic in topics))
    yield Command(words, notes=["asks all brokers; the request asked this one"])


def _describe_quorum(request: Asked) -> Iterator[Command]:
    yield Command(tool(request, "kafka-metadata-quorum", "describe", "--replication"))


MAKERS: Makers = {18: _api_versions, 35: _describe_log_dirs, 55: _describe_quorum, 60: _describe_cluster}
