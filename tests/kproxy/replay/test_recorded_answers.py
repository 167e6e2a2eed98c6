"""Responses found by the content of requests, in scripted recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captures.exchanges import ExchangeReader, open_capture
from captures.interventions import Intervention
from dissectors.frames import Body, decode_request, decode_response
from dissectors.records import Record
from dissectors.records.build import build_batch
from kproxy.replay.plan import recorded_nodes
from kproxy.replay.recorded_answers import RecordedAnswers
from tests.captures.exchanges.proxied import Recording as ProxiedRecording
from tests.captures.exchanges.proxied import metadata
from tests.kproxy.frames import request_frame
from tests.kproxy.replay.recording import Recording

pytestmark = pytest.mark.quick

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, HEARTBEAT = 0, 1, 3, 8, 12
FIND_COORDINATOR, LIST_GROUPS, CREATE_TOPICS, SASL_AUTHENTICATE, CONSUMER_HEARTBEAT = 10, 16, 19, 36, 68
OFFSET_FETCH, API_VERSIONS, ADD_PARTITIONS, SHARE_FETCH, SHARE_ACKNOWLEDGE = 9, 18, 24, 78, 79
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
CORRELATION_ID = 77
OTHER_BROKER = ("10.0.0.3", 9092)


class Served:
    """The responses of a recording."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        reader = recording.reader(folder)
        indexes = list(range(len(reader)))
        self.answers = RecordedAnswers(reader, recorded_nodes(reader.several(indexes)))
        for index, exchange in zip(indexes, reader.several(indexes), strict=True):
            self.answers.add(index, exchange)

    def answer(
        self, key: int, version: int, body: dict[str, Any], node: int | None = None
    ) -> dict[str, Any] | None:
        request = decode_request(request_frame(key, version, body, CORRELATION_ID)[4:])
        answer = self.answers.response(request, node)
        if answer is None:
            return None
        assert int.from_bytes(answer[:4]) == len(answer) - 4
        response: Body = decode_response(answer[4:], key, version)
        assert not response.problems
        assert response.header["correlation_id"] == CORRELATION_ID
        return response.value


def recorded(
    folder: Path, key: int, version: int, *exchanges: tuple[dict[str, Any], dict[str, Any]]
) -> Served:
    """Return the responses in a recording of one connection."""
    recording = Recording()
    connection = recording.connection()
    for number, (request, response) in enumerate(exchanges):
        connection.exchange(10 * number, key, version, request, response)
    return Served(recording, folder)


def test_repeated_requests_get_the_responses_in_order_and_then_the_last_without_an_error(
    tmp_path: Path,
) -> None:
    served = recorded(tmp_path, HEARTBEAT, 3, *((BEAT, {"error_code": code}) for code in (0, 27, 25)))
    codes = [served.answer(HEARTBEAT, 3, BEAT) for _ in range(5)]
    assert [each and each["error_code"] for each in codes] == [0, 27, 25, 0, 0]


def test_a_heartbeat_gets_an_error_only_as_often_as_it_was_recorded(tmp_path: Path) -> None:
    served = recorded(tmp_path, HEARTBEAT, 3, (BEAT, {"error_code": 27}))
    codes = [served.answer(HEARTBEAT, 3, BEAT) for _ in range(3)]
    assert [each and each["error_code"] for each in codes] == [27, 0, 0]


def test_other_requests_repeat_the_last_error_if_all_failed(tmp_path: Path) -> None:
    response = {"error_code": 15, "groups": []}
    served = recorded(tmp_path, LIST_GROUPS, 4, ({"states_filter": []}, response))
    answers = [served.answer(LIST_GROUPS, 4, {"states_filter": []}) for _ in range(2)]
    assert [each and each["error_code"] for each in answers] == [15, 15]


@pytest.mark.parametrize(("version", "grouped"), [(5, False), (8, True)])
def test_partitions_that_were_requested_apart(tmp_path: Path, version: int, grouped: bool) -> None:
    def within_group(topics: list[dict[str, Any]]) -> dict[str, Any]:
        group = {"group_id": "g", "topics": topics}
        return {"groups": [group]} if grouped else group

    def row(partition: int) -> dict[str, Any]:
        return {"partition_index": partition, "committed_offset": partition + 10, "metadata": ""}

    def exchange(*partitions: int) -> tuple[dict[str, Any], dict[str, Any]]:
        request = [{"name": "orders", "partition_indexes": list(partitions)}]
        response = [{"name": "orders", "partitions": [row(each) for each in partitions]}]
        return within_group(request), within_group(response)

    served = recorded(tmp_path, OFFSET_FETCH, version, exchange(0, 1), exchange(2))
    answer = served.answer(OFFSET_FETCH, version, exchange(2, 0)[0])
    assert answer is not None
    (topic,) = (answer["groups"][0] if grouped else answer)["topics"]
    found = [(each["partition_index"], each["committed_offset"]) for each in topic["partitions"]]
    assert found == [(2, 12), (0, 10)]
    assert served.answer(OFFSET_FETCH, version, exchange(3)[0]) is None


def test_transactions_may_write_to_partitions_that_were_not_recorded(tmp_path: Path) -> None:
    def add(partition: int) -> dict[str, Any]:
        topics = [{"name": "orders", "partitions": [partition]}]
        return {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "v3_and_below_topics": topics}

    rows = [{"partition_index": 0, "partition_error_code": 0}]
    results = {"results_by_topic_v3_and_below": [{"name": "orders", "results_by_partition": rows}]}
    served = recorded(tmp_path, ADD_PARTITIONS, 3, (add(0), results))
    answer = served.answer(ADD_PARTITIONS, 3, add(2))
    assert answer is not None
    (topic,) = answer["results_by_topic_v3_and_below"]
    assert topic["results_by_partition"] == [{"partition_index": 2, "partition_error_code": 0}]


def test_other_software_is_offered_the_recorded_versions(tmp_path: Path) -> None:
    def asks(software: str) -> dict[str, Any]:
        return {"client_software_name": software, "client_software_version": "1"}

    recording = Recording()
    connection = recording.connection()
    offer = {"api_keys": [{"api_key": METADATA, "min_version": 0, "max_version": 13}]}
    exchanges = [(API_VERSIONS, 3, asks("java"), offer)]
    exchanges += [
        (METADATA, version, {"topics": None}, {"brokers": [], "topics": []}) for version in (2, 4, 5)
    ]
    for number, exchange in enumerate(exchanges):
        connection.exchange(10 * number, *exchange)
    served = Served(recording, tmp_path)
    ranges = {}
    for software in ("java", "other"):
        answer = served.answer(API_VERSIONS, 3, asks(software))
        assert answer is not None
        offered = {each["api_key"]: each for each in answer["api_keys"]}
        ranges[software] = offered[METADATA]["min_version"], offered[METADATA]["max_version"]
    assert ranges == {"java": (0, 13), "other": (4, 5)}


def test_sasl_tokens_are_accepted_whatever_they_are(tmp_path: Path) -> None:
    scram = {"auth_bytes": b"n,,n=alice,r=nonce"}
    served = recorded(
        tmp_path, SASL_AUTHENTICATE, 2, (scram, {"error_code": 0, "auth_bytes": b"r=nonce2,s=,i=1"})
    )
    for token in (b"\0alice\0secret", b"n,,\x01auth=Bearer x.y.z\x01\x01"):
        answer = served.answer(SASL_AUTHENTICATE, 2, {"auth_bytes": token})
        assert answer is not None
        assert (answer["error_code"], answer["auth_bytes"]) == (0, b"")


def share_fetch(*partitions: int, epoch: int) -> dict[str, Any]:
    rows = [{"partition_index": each, "acknowledgement_batches": []} for each in partitions]
    topics = [{"topic_id": TOPIC_ID, "partitions": rows}] if rows else []
    return {
        "group_id": "g", "member_id": "m", "share_session_epoch": epoch, "max_wait_ms": 1, "min_bytes": 1,
        "max_bytes": 1, "max_records": 1, "batch_size": 1, "topics": topics, "forgotten_topics_data": [],
    }  # fmt: skip


def test_share_groups_get_the_recorded_records_once(tmp_path: Path) -> None:
    acquired = [{"first_offset": 0, "last_offset": 1, "delivery_count": 1}]
    row = {"partition_index": 0, "records": batch(b"a", b"b"), "acquired_records": acquired}
    answers = (
        {"responses": [{"topic_id": TOPIC_ID, "partitions": rows}], "node_endpoints": []}
        for rows in ([{**row, "records": b"", "acquired_records": []}], [row])
    )
    recording = Recording()
    connection = recording.connection()
    for number, answer in enumerate(answers):
        connection.exchange(10 * number, SHARE_FETCH, 1, share_fetch(0, epoch=number), answer)
    served = Served(recording, tmp_path)
    found = []
    for request in (share_fetch(0, epoch=0), share_fetch(0, epoch=1), share_fetch(epoch=2)):
        answer = served.answer(SHARE_FETCH, 1, request)
        assert answer is not None
        found.append(
            [len(each["acquired_records"]) for topic in answer["responses"] for each in topic["partitions"]]
        )
    assert found == [[1], [0], []]
    topics = share_fetch(0, epoch=3)["topics"]
    acknowledge = {"group_id": "g", "member_id": "m", "share_session_epoch": 3, "topics": topics}
    answer = served.answer(SHARE_ACKNOWLEDGE, 1, acknowledge)
    assert answer is not None
    assert answer["responses"][0]["partitions"][0]["error_code"] == 0


def test_share_groups_get_their_own_records(tmp_path: Path) -> None:
    recording = Recording()
    connection = recording.connection()
    for number, group in enumerate(("g", "other")):
        row = {"partition_index": 0, "records": batch(group.encode()), "acquired_records": []}
        answer = {"responses": [{"topic_id": TOPIC_ID, "partitions": [row]}], "node_endpoints": []}
        connection.exchange(
            10 * number, SHARE_FETCH, 1, {**share_fetch(0, epoch=0), "group_id": group}, answer
        )
    served = Served(recording, tmp_path)
    for group, expected in (("other", b"other"), ("other", b""), ("renamed", b"g"), ("g", b"")):
        answer = served.answer(SHARE_FETCH, 1, {**share_fetch(0, epoch=0), "group_id": group})
        assert answer is not None
        records = answer["responses"][0]["partitions"][0]["records"] or b""
        assert (expected in records) if expected else not records


def test_other_content_apis_and_versions_are_not_recorded(tmp_path: Path) -> None:
    topics = [{"name": "orders", "num_partitions": 3, "replication_factor": 1}]
    body = {"topics": topics, "timeout_ms": 1000}
    response = {"topics": [{"name": "orders", "error_code": 0}]}
    served = recorded(tmp_path, CREATE_TOPICS, 5, (body, response))
    assert served.answer(CREATE_TOPICS, 5, {**body, "topics": [{**topics[0], "name": "other"}]}) is None
    assert served.answer(CREATE_TOPICS, 4, body) is None
    assert served.answer(HEARTBEAT, 3, BEAT) is None
    assert served.answer(CREATE_TOPICS, 5, {**body, "timeout_ms": 59_999}) is not None  # differs in each run


def test_the_order_of_lists_does_not_matter(tmp_path: Path) -> None:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "b")]
    served = recorded(tmp_path, CREATE_TOPICS, 5, ({"topics": topics, "timeout_ms": 1}, {"topics": []}))
    assert served.answer(CREATE_TOPICS, 5, {"topics": topics[::-1], "timeout_ms": 1}) == {
        "throttle_time_ms": 0,
        "topics": [],
    }


def test_the_answers_for_several_groups_stay_theirs_in_another_order(tmp_path: Path) -> None:
    coordinators = [{"key": key, "node_id": node, "host": "h", "port": 1} for node, key in enumerate("ab")]
    request = {"key_type": 0, "coordinator_keys": ["a", "b"]}
    served = recorded(tmp_path, FIND_COORDINATOR, 4, (request, {"coordinators": coordinators}))
    for keys, nodes in ((["b", "a"], {"a": 0, "b": 1}), (["b", "c"], {"c": 0, "b": 1})):
        answer = served.answer(FIND_COORDINATOR, 4, {**request, "coordinator_keys": keys})
        assert answer is not None
        assert {each["key"]: each["node_id"] for each in answer["coordinators"]} == nodes


def test_what_depends_on_timing_is_compared_last(tmp_path: Path) -> None:
    def commit(offset: int) -> dict[str, Any]:
        partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        return {
            "group_id": "g",
            "generation_id_or_member_epoch": 1,
            "member_id": "m",
            "topics": [{"name": "orders", "partitions": [partition]}],
        }

    def committed(code: int) -> dict[str, Any]:
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": code}]}]}

    served = recorded(tmp_path, OFFSET_COMMIT, 5, (commit(3), committed(0)), (commit(6), committed(25)))
    answers = [served.answer(OFFSET_COMMIT, 5, commit(offset)) for offset in (6, 3, 4)]
    codes = [each and each["topics"][0]["partitions"][0]["error_code"] for each in answers]
    assert codes == [25, 0, 0]


def test_a_group_with_another_name_finds_its_own_name(tmp_path: Path) -> None:
    coordinator = {
        "key": "console-1",
        "node_id": 1,
        "host": "h",
        "port": 9092,
        "error_code": 0,
        "error_message": "",
    }
    served = recorded(
        tmp_path,
        FIND_COORDINATOR,
        4,
        ({"key_type": 0, "coordinator_keys": ["console-1"]}, {"coordinators": [coordinator]}),
    )
    answer = served.answer(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["console-2"]})
    assert answer is not None
    assert answer["coordinators"] == [{**coordinator, "key": "console-2"}]


def test_a_group_of_the_recording_is_not_taken_for_another(tmp_path: Path) -> None:
    beats = [({**BEAT, "group_id": name}, {"error_code": code}) for name, code in (("a", 27), ("b", 0))]
    served = recorded(tmp_path, HEARTBEAT, 3, *beats)
    answer = served.answer(HEARTBEAT, 3, {**BEAT, "group_id": "b", "generation_id": 7})
    assert answer is not None
    assert answer["error_code"] == 0


def test_a_member_finds_the_id_that_it_chose(tmp_path: Path) -> None:
    def beat(member: str, epoch: int) -> dict[str, Any]:
        return {"group_id": "g", "member_id": member, "member_epoch": epoch}

    def answer(epoch: int) -> dict[str, Any]:
        return {
            "error_code": 0,
            "member_id": "recorded",
            "member_epoch": epoch,
            "heartbeat_interval_ms": 5000,
        }

    served = recorded(
        tmp_path, CONSUMER_HEARTBEAT, 1, (beat("recorded", 0), answer(1)), (beat("recorded", -1), answer(-1))
    )
    joined, left = (served.answer(CONSUMER_HEARTBEAT, 1, beat("own", epoch)) for epoch in (0, -1))
    assert joined is not None
    assert left is not None
    assert [(each["member_id"], each["member_epoch"]) for each in (joined, left)] == [("own", 1), ("own", -1)]


def test_each_broker_gives_its_own_answers(tmp_path: Path) -> None:
    recording = Recording()
    brokers = [
        {"node_id": node, "host": host, "port": 9092}
        for node, host in ((1, "10.0.0.2"), (2, OTHER_BROKER[0]))
    ]
    first, second = recording.connection(), recording.connection(broker=OTHER_BROKER)
    first.exchange(0, METADATA, 5, {"topics": []}, {"brokers": brokers, "topics": []})
    for connection, at, group in ((first, 10, "of-1"), (second, 20, "of-2")):
        groups = {"groups": [{"group_id": group, "protocol_type": "consumer"}]}
        connection.exchange(at, LIST_GROUPS, 2, {}, groups)
    served = Served(recording, tmp_path)
    answers = [served.answer(LIST_GROUPS, 2, {}, node) for node in (2, 1, None, 9)]
    assert [each and each["groups"][0]["group_id"] for each in answers] == ["of-2", "of-1", "of-1", "of-2"]


def test_metadata_of_topics_that_were_requested_apart(tmp_path: Path) -> None:
    def topic(name: str) -> dict[str, Any]:
        return {"error_code": 0, "name": name, "is_internal": False, "partitions": []}

    broker = {"node_id": 1, "host": "h", "port": 9092, "rack": None}
    exchanges = (
        ({"topics": [{"name": name}]}, {"brokers": [broker], "topics": [topic(name)], "controller_id": 1})
        for name in ("a", "b")
    )
    served = recorded(tmp_path, METADATA, 5, *exchanges)
    answer = served.answer(METADATA, 5, {"topics": [{"name": "b"}, {"name": "a"}]})
    assert answer is not None
    assert answer["brokers"] == [broker]
    assert [each["name"] for each in answer["topics"]] == ["b", "a"]
    assert served.answer(METADATA, 5, {"topics": [{"name": "c"}]}) is None
    for topics, names in ((None, {"a", "b"}), ([], set())):  # all topics, brokers only
        answer = served.answer(METADATA, 5, {"topics": topics})
        assert answer is not None
        assert answer["brokers"] == [broker]
        assert {each["name"] for each in answer["topics"]} == names


# ---------------------------------------------------------------- records
def batch(*values: bytes, first: int = 0) -> bytes:
    return bytes(
        build_batch([Record(first + n, 1_700_000_000_000, None, each) for n, each in enumerate(values)])
    )


def produce(*values: bytes, partition: int = 0) -> dict[str, Any]:
    rows = [{"index": partition, "records": batch(*values)}]
    return {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": rows}]}


def produced(code: int, offset: int) -> dict[str, Any]:
    row = {"index": 0, "error_code": code, "base_offset": offset}
    return {"responses": [{"name": "orders", "partition_responses": [row]}]}


def rows_of(answer: dict[str, Any] | None, partitions: str) -> list[dict[str, Any]]:
    assert answer is not None
    rows: list[dict[str, Any]] = answer["responses"][0][partitions]
    return rows


def test_records_are_found_however_they_are_batched(tmp_path: Path) -> None:
    served = recorded(
        tmp_path, PRODUCE, 7, (produce(b"a"), produced(0, 5)), (produce(b"b", b"c"), produced(0, 6))
    )
    for values, offset in (((b"a", b"b"), 5), ((b"c",), 7), ((b"a", b"b", b"c"), 5)):
        (row,) = rows_of(served.answer(PRODUCE, 7, produce(*values)), "partition_responses")
        assert (row["error_code"], row["base_offset"]) == (0, offset)
    assert served.answer(PRODUCE, 7, produce(b"a", b"new")) is None
    (row,) = rows_of(served.answer(PRODUCE, 7, produce(b"b", partition=1)), "partition_responses")
    assert (row["index"], row["base_offset"]) == (1, 6)  # without a key it may go to any partition


def test_a_record_that_was_refused_first_is_refused_first(tmp_path: Path) -> None:
    served = recorded(tmp_path, PRODUCE, 7, (produce(b"a"), produced(6, -1)), (produce(b"a"), produced(0, 5)))
    rows = [rows_of(served.answer(PRODUCE, 7, produce(b"a")), "partition_responses")[0] for _ in range(2)]
    assert [(row["error_code"], row["base_offset"]) for row in rows] == [(6, -1), (0, 5)]


def fetch(*offsets: int, session: int = 0, epoch: int = -1) -> dict[str, Any]:
    rows = [
        {"partition": n, "fetch_offset": offset, "partition_max_bytes": 1} for n, offset in enumerate(offsets)
    ]
    topics = [{"topic": "orders", "partitions": rows}] if rows else []
    return {
        "max_wait_ms": 500, "min_bytes": 1, "session_id": session, "session_epoch": epoch, "topics": topics
    }  # fmt: skip


def fetched(*rows: tuple[int, bytes], session: int = 0) -> dict[str, Any]:
    partitions = [
        {"partition_index": n, "error_code": 0, "high_watermark": 4, "records": records}
        for n, records in rows
    ]
    topics = [{"topic": "orders", "partitions": partitions}] if rows else []
    return {"error_code": 0, "session_id": session, "responses": topics}


def test_partitions_are_fetched_in_any_combination(tmp_path: Path) -> None:
    first, second, other = batch(b"0", b"1"), batch(b"2", b"3", first=2), batch(b"x")
    served = recorded(
        tmp_path,
        FETCH,
        11,
        (fetch(0, 0), fetched((0, first), (1, other))),
        (fetch(2, 1), fetched((0, second), (1, b""))),
    )
    records = [[row["records"] for row in rows_of(served.answer(FETCH, 11, each), "partitions")] for each in (
        fetch(0), fetch(2), fetch(2, 0), fetch(3), fetch(4),
    )]  # fmt: skip
    # for an offset inside a batch, the whole batch is returned, as by a broker; at the end of the log nothing
    assert records == [[first], [second], [second, other], [second], [b""]]
    assert served.answer(FETCH, 11, fetch(5)) is None
    assert served.answer(FETCH, 11, fetch(0, 7)) is None


def test_the_end_of_the_log_is_known_after_an_error(tmp_path: Path) -> None:
    failed = fetched((0, b""))
    failed["responses"][0]["partitions"][0] |= {"error_code": 1, "high_watermark": -1}
    served = recorded(
        tmp_path, FETCH, 11, (fetch(0), fetched((0, batch(b"0", b"1", b"2", b"3")))), (fetch(9), failed)
    )
    (row,) = rows_of(served.answer(FETCH, 11, fetch(4)), "partitions")
    assert (row["error_code"], row["high_watermark"], row["records"]) == (0, 4, b"")
    assert served.answer(FETCH, 11, fetch(-1)) is None


def test_a_fetch_gets_no_session_even_if_the_recorded_client_had_one(tmp_path: Path) -> None:
    first, second = batch(b"0", b"1"), batch(b"2", b"3", first=2)
    served = recorded(
        tmp_path,
        FETCH,
        11,
        (fetch(0, 0, epoch=0), fetched((0, first), session=9)),
        (fetch(2, session=9, epoch=1), fetched((0, second), session=9)),
        (fetch(session=9, epoch=2), fetched((1, batch(b"x")), session=9)),
    )
    answer = served.answer(FETCH, 11, fetch(2, 0, epoch=0))
    assert answer is not None
    assert answer["session_id"] == 0
    assert [row["records"] for row in rows_of(answer, "partitions")] == [second, batch(b"x")]


def test_passwords_are_not_compared(tmp_path: Path) -> None:
    served = recorded(tmp_path, SASL_AUTHENTICATE, 1, ({"auth_bytes": b"\0alice\0one"}, {"auth_bytes": b""}))
    assert served.answer(SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0alice\0two"}) is not None


def test_responses_of_kproxy_are_not_served(tmp_path: Path) -> None:
    recording = ProxiedRecording()
    request, response = metadata(1)
    recording.data(0, request)
    recording.data(1, response, Intervention(action="error 3", answered=True))
    capture = open_capture([str(recording.write(tmp_path / "recorded.pcapng"))])
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    answers = RecordedAnswers(reader, {})
    answers.add(0, reader.exchange(0))
    assert answers.response(decode_request(request[4:])) is None


def test_incomplete_exchanges_and_requests_are_left_out(tmp_path: Path) -> None:
    recording = Recording()
    recording.connection().ask(0, HEARTBEAT, 3, BEAT)
    served = Served(recording, tmp_path)
    assert served.answer(HEARTBEAT, 3, BEAT) is None
    cut = decode_request(request_frame(HEARTBEAT, 3, BEAT)[4:-1])
    assert served.answers.response(cut) is None
