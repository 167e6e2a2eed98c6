"""Column values from bodies that recordings do not have."""

from __future__ import annotations

from captures.exchanges.columns.arrays import NO_VALUE
from captures.exchanges.columns.builders import Errors, Records, Software, TopicNames, Topics, Waits
from captures.exchanges.projected_reader import Part, Parts
from dissectors.session_context import SessionContext

FETCH, METADATA, DELETE_TOPICS, API_VERSIONS = 1, 3, 20, 18
ORDERS = "b3JkZXJzb3JkZXJzb3JkZQ"


def parts(key, version, request=None, response=None, row=0):
    sides = (None if value is None else Part(version, version, value) for value in (request, response))
    return Parts(row, key, *sides)


def told(maker, *exchanges, latency=NO_VALUE):
    maker.begin(len(exchanges))
    for index, exchange in enumerate(exchanges):
        if exchange is not None:
            maker.add(index, exchange, latency)
    maker.end()


def topics_of(topics):
    named = topics.column("topics")
    return [[topics.texts[code] for code in named[row].tolist()] for row in range(len(named))]


def fetch(topic_id):
    return parts(FETCH, 13, {"topics": [{"topic_id": topic_id, "partitions": [{"partition": 4}]}]})


def test_a_name_that_is_told_later_serves_what_came_before():
    knowledge = SessionContext()
    topics = Topics(knowledge.topic_name)
    told(topics, fetch(ORDERS), parts(FETCH, 4, {"topics": [{"topic": "orders", "partitions": []}]}))
    assert topics_of(topics) == [[ORDERS], ["orders"]]
    metadata = parts(
        METADATA, 12, None, {"topics": [{"name": "orders", "topic_id": ORDERS, "partitions": []}]}
    )
    told(TopicNames(knowledge), metadata)
    assert topics_of(topics) == [["orders"], ["orders"]]
    first, second = (topics.column("topics")[row].tolist() for row in (0, 1))
    assert first == second  # one code, so that each text is looked up once


def test_a_topic_by_name_and_by_id_is_one():
    knowledge = SessionContext()
    topics = Topics(knowledge.topic_name)
    exchange = parts(
        DELETE_TOPICS,
        6,
        {"topics": [{"name": None, "topic_id": ORDERS}]},
        {"responses": [{"name": "orders", "topic_id": ORDERS, "error_code": 0}]},
    )
    told(topics, exchange, None, exchange)
    assert topics_of(topics) == [[ORDERS, "orders"], [], [ORDERS, "orders"]]
    knowledge.learn_topic(ORDERS, "orders")
    assert topics_of(topics) == [["orders"], [], ["orders"]]


def test_expected_errors_stand_apart():
    errors = Errors()
    # a member without an ID is given one, and rejoins (KIP-394)
    first_join = parts(11, 9, {"member_id": ""}, {"error_code": 79, "members": []})
    again = parts(11, 9, {"member_id": "m-1"}, {"error_code": 79, "members": []})
    told(errors, first_join, again, None)
    unexpected, expected = (errors.column(name) for name in ("error_codes", "expected_error_codes"))
    assert [unexpected[row].tolist() for row in range(3)] == [[], [79], []]
    assert [expected[row].tolist() for row in range(3)] == [[79], [], []]


def test_waits_need_a_latency():
    exchange = parts(12, 4, {}, {"throttle_time_ms": 200, "error_code": 0})
    for latency, wait in ((250_000_000, 200_000_000), (1_000_000, 0), (NO_VALUE, 0)):
        waits = Waits()
        told(waits, exchange, latency=latency)
        assert waits.column("wait").tolist() == [wait]


def test_records_of_a_message_that_could_not_be_read():
    records = Records()
    told(records, Parts(0, FETCH, None, Part(12, None, None)), parts(FETCH, 12, None, {"responses": []}))
    assert records.column("records")[1] == 0
    assert records.column("records")[0] < 0


def test_software_belongs_to_the_connection():
    software = Software(lambda row: row // 10)
    hello = {"client_software_name": "franz-go", "client_software_version": "1.17"}
    told(software, parts(API_VERSIONS, 3, hello, row=20), parts(API_VERSIONS, 0, {}, row=30))
    names, versions = software.of([2, 3, 2])
    assert names.tolist() == [0, -1, 0]
    assert [software.versions.texts[code] for code in versions.tolist() if code >= 0] == ["1.17", "1.17"]
