"""Brokers and controllers. Most command lines were tried against Kafka 4.3.0."""

from __future__ import annotations

from kproxy.copy_as.tools import commands
from tests.kproxy.copy_as.kit import ADDRESS, asked, lines, words


def test_versions_and_quorum() -> None:
    body = {"client_software_name": "a", "client_software_version": "1"}
    assert list(words(commands(asked(18, 3, body)))) == [["kafka-broker-api-versions.sh"]]
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    (found,) = words(commands(asked(55, 0, {"topics": topics})))
    assert found == ["kafka-metadata-quorum.sh", "describe", "--replication"]


def test_a_cluster_is_asked_for_the_nodes_that_were_asked_for() -> None:
    body = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": 2,
        "include_fenced_brokers": True,
    }
    (line,) = lines(commands(asked(60, 2, body)))
    assert (
        line == f"kafka-cluster.sh list-endpoints --bootstrap-controller {ADDRESS} --include-fenced-brokers"
    )


def test_log_folders_of_topics() -> None:
    body = {"topics": [{"topic": "a", "partitions": [0]}, {"topic": "b", "partitions": [0]}]}
    made = commands(asked(35, 2, body))
    assert list(words(made)) == [["kafka-log-dirs.sh", "--describe", "--topic-list", "a,b"]]
    assert lines(made)[0] == "# asks all brokers; the request asked this one"
