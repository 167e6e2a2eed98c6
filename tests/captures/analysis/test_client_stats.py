"""Figures by client."""

from __future__ import annotations

from captures.analysis.client_stats import ClientStats
from captures.exchanges import Exchange, Flag
from captures.json_objects import to_json
from tests.captures.analysis.kit import error, exchange, unanswered

SOFTWARE = {"client_software_name": "apache-kafka-java", "client_software_version": "4.3.0"}


def counted(*exchanges: Exchange) -> ClientStats:
    stats = ClientStats()
    for each in exchanges:
        stats.add(each)
    return stats


def test_a_client_on_several_connections_is_one_client() -> None:
    stats = counted(
        exchange(18, 3, request=SOFTWARE, time=3),
        exchange(3, 12, time=5),
        exchange(
            18, 3, request=SOFTWARE, connection=1, client="10.0.0.8:4000", broker="10.0.0.2:9092", time=2
        ),
        unanswered(connection=1, client="10.0.0.8:4000", broker="10.0.0.2:9092", time=9),
        exchange(12, 4, errors=[error(27)]),
    )
    (row,) = stats.result()
    assert (row.connections, row.exchanges, row.errors, row.unanswered) == (2, 5, 1, 1)
    assert row.software == ["apache-kafka-java 4.3.0"]
    assert (row.hosts, row.brokers) == (["10.0.0.9", "10.0.0.8"], ["10.0.0.1:9092", "10.0.0.2:9092"])
    assert list(row.apis.items()) == [("ApiVersions", 2), ("Metadata", 2), ("Heartbeat", 1)]
    assert (row.first, row.last) == (2, 1_000_000_000)
    assert (row.request_bytes, row.response_bytes) == (500, 200)


def test_frames_without_a_client_id_count_for_the_client_of_their_connection() -> None:
    token = exchange(None, None, flag=Flag.SASL_TOKEN, client_id=None, tokens=[b"\0alice\0secret", None])
    (row,) = counted(token, exchange()).result()
    assert (row.client_id, row.exchanges) == ("app", 2)
    assert row.principals == ["alice (PLAIN)"]
    assert row.unnamed == [0]


def test_the_versions_that_a_client_speaks() -> None:
    (row,) = counted(exchange(3, 12), exchange(3, 9), exchange(3, 12), exchange(0, 9)).result()
    assert row.versions == {"Metadata": {9: 1, 12: 2}, "Produce": {9: 1}}
    shape = to_json(row)
    assert shape["versions"] == {"Metadata": {9: 1, 12: 2}, "Produce": {9: 1}}
    assert "unnamed" not in shape


def test_clients_without_an_id_are_told_apart_by_host() -> None:
    stats = counted(
        exchange(client_id=None),
        exchange(client_id=None, connection=1, client="[2001:db8::1]:4000"),
    )
    assert {(row.client_id, row.name) for row in stats.result()} == {
        (None, "10.0.0.9"),
        (None, "[2001:db8::1]"),
    }


def test_clients_with_more_exchanges_come_first() -> None:
    stats = counted(exchange(client_id="b"), exchange(client_id="a"), exchange(client_id="a"))
    assert [row["name"] for row in to_json(stats.result())] == ["a", "b"]
