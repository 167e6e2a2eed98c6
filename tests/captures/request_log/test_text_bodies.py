"""Entries as text: ends of unquoted strings, text in no layout, omitted fields."""

from __future__ import annotations

from typing import Any

import pytest

from captures.request_log.bodies import BodyError
from captures.request_log.entries import EntryError, entry_of
from captures.request_log.frames import frames_of
from captures.request_log.text_bodies import produced, text_body_of
from dissectors.api_keys import ApiKey
from dissectors.apis import Api, api
from dissectors.left_out import original_size, placeholder

_TAIL = (
    " from connection 127.0.0.1:9092-127.0.0.1:40000-3;totalTime:5.5,requestQueueTime:1.0,localTime:2.0,"
    "remoteTime:0.5,throttleTime:0,responseQueueTime:1.0,sendTime:1.0,securityProtocol:SASL_SSL,"
    "principal:User:CN=a,OU=b,listener:EXTERNAL,clientInformation:ClientInformation(x) (kafka.request.logger)"
)


def _api(key: ApiKey) -> Api:
    known = api(key)
    assert known is not None
    return known


def _request(key: ApiKey, version: int, text: str) -> dict[str, Any]:
    return text_body_of(_api(key).request[version].struct, text)


def _response(key: ApiKey, version: int, text: str) -> dict[str, Any]:
    return text_body_of(_api(key).response[version].struct, text)


@pytest.mark.parametrize("metadata", ["", "a,b=c", "{x=[1]}", ",partition=x", " null"])
def test_a_string_may_contain_what_structs_are_made_of(metadata: str) -> None:
    partition = f"{{partition=1,offset=2,metadata={metadata}}}"
    text = f"{{group_id={metadata}g,topics=[{{topic={metadata}t,partitions=[{partition}]}}]}}"
    body = _request(ApiKey.OFFSET_COMMIT, 0, text)
    [topic] = body["topics"]
    assert (body["group_id"], topic["name"]) == (f"{metadata}g", f"{metadata}t")
    assert topic["partitions"] == [
        {"partition_index": 1, "committed_offset": 2, "committed_metadata": metadata}
    ]


def test_structs_that_the_layout_has_not_are_opened() -> None:
    found = _response(
        ApiKey.FIND_COORDINATOR,
        1,
        "{throttle_time_ms=0,error_code=0,error_message=null,coordinator={node_id=1,host=b,c,port=9}}",
    )
    assert (found["error_message"], found["node_id"], found["host"], found["port"]) == (None, 1, "b,c", 9)
    assert _request(ApiKey.METADATA, 0, "{topics=[a,b]}")["topics"] == [{"name": "a"}, {"name": "b"}]


def test_of_bytes_there_is_a_size() -> None:
    body = _response(
        ApiKey.SYNC_GROUP,
        3,
        "{throttle_time_ms=0,error_code=0,assignment=java.nio.HeapByteBuffer[pos=0 lim=30 cap=64]}",
    )
    assert original_size(body["assignment"]) == 30


@pytest.mark.parametrize(
    ("records", "size"),
    [
        ("FileRecords(size=728, file=/a,b/(1).log, start=0, end=728)", 728),
        ("FileRecords(file= /a/0.log, start=10, end=30)", 20),
        ("MemoryRecords(size=9, buffer=java.nio.HeapByteBuffer[pos=0 lim=9 cap=9])", 9),
        ("[]", 0),
        ("null", None),
    ],
)
def test_records_have_a_size_in_every_form(records: str, size: int | None) -> None:
    header = "partition_header={partition=0,error_code=0,high_watermark=1}"
    text = f"{{responses=[{{topic=t,partition_responses=[{{{header},record_set={records}}}]}}]}}"
    [topic] = _response(ApiKey.FETCH, 0, text)["responses"]
    assert topic["partitions"][0]["records"] == (placeholder(size) if size else b"" if size == 0 else None)


def test_a_produce_request_at_debug_has_the_partitions_of_its_response() -> None:
    answered = {"responses": [{"name": "t", "partition_responses": [{"index": 3}]}]}
    body = produced("{acks=-1,timeout=9,numPartitions=1}", answered)
    assert body["topic_data"] == [{"name": "t", "partition_data": [{"index": 3, "records": b""}]}]
    body = produced("{acks=1,timeout=9,partitionSizes=[a-b-0=5,c-1=6,a-b-2=7]}", {})
    assert [(each["name"], len(each["partition_data"])) for each in body["topic_data"]] == [
        ("a-b", 2),
        ("c", 1),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{error_code=0}",
        "{throttle_time_ms=0,error_code=0",
        "{throttle_time_ms=0,error_code=x,assignment=null}",
        "{throttle_time_ms=0,error_code=0,assignment=java.nio.HeapByteBuffer[pos=9 lim=3 cap=9]}",
        "{throttle_time_ms=0,error_code=0,assignment=[B@1f}",
    ],
)
def test_what_is_not_of_the_layout_is_named(text: str) -> None:
    with pytest.raises(BodyError):
        _response(ApiKey.SYNC_GROUP, 3, text)


def test_an_entry_has_times_principal_and_listener() -> None:
    header = (
        "RequestHeader(apiKey=ELECT_PREFERRED_LEADERS, apiVersion=0, clientId=a, b=c, correlationId=7) -- "
    )
    entry = entry_of(f"{header}{{topic_partitions=null,timeout_ms=1}},response:{_TAIL}".encode())
    assert (entry.request_header.request_api_key, entry.request_header.client_id) == (43, "a, b=c")
    assert (entry.principal, entry.listener, entry.total_time_ms) == ("User:CN=a,OU=b", "EXTERNAL", 5.5)
    assert entry.response == ""
    frames_of(entry)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Name: ControlledShutdownRequest; Version: 1" + _TAIL, "not with a header"),
        ("RequestHeader(apiKey=FETCH, apiVersion=1, clientId=a, correlationId=1) -- {", "times are missing"),
        (
            "RequestHeader(apiKey=NO_API, apiVersion=1, clientId=a, correlationId=1) -- {}" + _TAIL,
            "unknown API",
        ),
        (
            "{api_key=16,api_version=0,correlation_id=1,client_id=a} -- {Completed request:" + _TAIL,
            "another entry",
        ),
    ],
)
def test_lines_that_are_no_entry_say_why(text: str, why: str) -> None:
    with pytest.raises(EntryError, match=why):
        entry_of(text.encode())


def test_a_text_entry_without_fields_is_damaged() -> None:
    """Unlike one in JSON: only there does a broker leave out the fields of requests that came before the log."""
    entry = entry_of(
        b"RequestHeader(apiKey=FETCH, apiVersion=1, clientId=a, correlationId=1) -- " + _TAIL.encode()
    )
    assert not entry.arrived_before_log
    with pytest.raises(BodyError):
        frames_of(entry)
