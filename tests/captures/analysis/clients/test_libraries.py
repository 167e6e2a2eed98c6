"""The names that clients give themselves, and the versions that releases of the Java client use."""

from __future__ import annotations

import pytest

from captures.analysis.clients.libraries import java_releases, stated_library


@pytest.mark.parametrize(
    ("software", "library"),
    [
        ("apache-kafka-java 3.9.1", "apache-kafka-java 3.9.1"),
        ("confluent-kafka-python 2.16.1-rdkafka-2.16.0", "librdkafka 2.16.0"),
        ("confluent-kafka-python", "librdkafka"),
        ("librdkafka 2.0.2", "librdkafka 2.0.2"),
        ("kgo v1.22.2", "franz-go 1.22.2"),
        ("sarama v1.61.1", "sarama 1.61.1"),
        ("my-own-client 0.1", "my-own-client 0.1"),
    ],
)
def test_what_a_client_says(software: str, library: str) -> None:
    told = stated_library(software)
    assert str(told) == library
    assert told.announced
    assert software in told.why


def test_java_speaks_what_brokers_of_its_release_do() -> None:
    speaks = {each.release: each for each in java_releases()}
    # as 36_k231_rebalance_static and 36_k01011_rebalance_roundrobin show
    assert [speaks["2.3"].most[key] for key in (1, 3, 11, 14)] == [11, 8, 5, 3]
    assert [speaks["0.10.1"].most[key] for key in (1, 3, 11, 14)] == [3, 2, 1, 0]
    assert not speaks["0.10.1"].asks
    assert speaks["0.10.2"].asks
