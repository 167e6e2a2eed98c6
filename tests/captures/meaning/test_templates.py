"""Templates of summaries: the same texts as for each exchange alone."""

from __future__ import annotations

import pytest

from captures.meaning import errors_in, request_summary, response_summary
from captures.meaning.summaries import SUMMARIES
from captures.meaning.templates import InsertedValues, SummaryTemplate
from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.records import Codec, Record
from dissectors.records.build import build_batch

pytestmark = pytest.mark.quick


def names(topic_id):
    return None


def batch(count, codec=Codec.NONE):
    return bytes(
        build_batch([Record(at, 1_700_000_000_000, None, b"x" * 50, ()) for at in range(count)], codec=codec)
    )


def produce(offset, *records, topic="orders"):
    data = [{"index": index, "records": each} for index, each in enumerate(records)]
    stored = [
        {"index": index, "error_code": 0, "base_offset": offset + index} for index in range(len(records))
    ]
    request = {"acks": -1, "topic_data": [{"name": topic, "partition_data": data}]}
    return request, {"responses": [{"name": topic, "partition_responses": stored}]}


def template(key, version, bodies, known=names):
    return SummaryTemplate(key, version, version, bodies, errors_in(key, version, bodies[1]), known)


def texts(key, version, bodies, known=names, latency=-1):
    request, response = bodies
    return (
        request_summary(key, version, request, known),
        response_summary(key, version, request, response, known, latency),
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("partitions", [1, 2])
def test_numbers_and_records_of_others_are_put_in(codec, partitions):
    made = template(0, 9, produce(7, *[batch(2, codec)] * partitions))
    others = [
        produce(offset, *[batch(count, codec)] * partitions) for offset, count in ((1, 1), (4_000, 1_500))
    ]
    numbers = [
        [row["base_offset"] for row in other["responses"][0]["partition_responses"]] for _, other in others
    ]
    fields = [[row["records"] for row in other["topic_data"][0]["partition_data"]] for other, _ in others]
    records = [
        (count * partitions, 0, sum(map(len, each))) for count, each in zip((1, 1_500), fields, strict=True)
    ]
    found = made.texts((InsertedValues((), records), InsertedValues(numbers)), 2)
    assert found == [texts(0, 9, other) for other in others]


def test_a_topic_that_gets_a_name_makes_a_template_stale():
    topic_id = "b8tRS7h4TJ2Vt43Dp85v2A"
    request, response = produce(1, batch(1))
    for body, field in ((request, "topic_data"), (response, "responses")):
        body[field][0] = {name: value for name, value in body[field][0].items() if name != "name"} | {
            "topic_id": topic_id
        }
    known = {}
    made = template(0, 13, (request, response), known.get)
    assert made.current(known.get)
    known[topic_id] = "orders"
    assert not made.current(known.get)


def test_an_empty_poll_tells_its_own_latency():
    request = {"max_wait_ms": 500, "session_id": 5, "session_epoch": 9, "topics": []}
    response = {"error_code": 0, "responses": []}
    made = template(1, 12, (request, response))
    assert made.by_latency
    for latency in (10_000_000, 503_000_000):
        assert made.response(latency, names) == texts(1, 12, (request, response), latency=latency)[1]


@pytest.mark.parametrize("topic", ["7360415000000000000", "x" * 500])
def test_there_is_no_template_of_names_that_look_like_marks_or_leave_no_room(topic):
    with pytest.raises(ValueError, match="no room"):
        template(0, 9, produce(1, batch(1), topic=topic))


@pytest.mark.parametrize("key", [key for key, each in SUMMARIES.items() if each.unread or each.inserted])
def test_every_field_named_is_in_some_version(key):
    known = api(ApiKey(key))
    declared = {
        f"{side}.{prefix}{member.name}"
        for side, message in (("request", known.request), ("response", known.response))
        for version in message.versions
        for prefix, struct in wire.structs_of(message[version].struct)
        for member in struct.all_members
    }
    assert SUMMARIES[key].unread | SUMMARIES[key].inserted <= declared
