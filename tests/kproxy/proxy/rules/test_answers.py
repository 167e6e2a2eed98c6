from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from kio.static.constants import EntityType

from captures.meaning import errors_in
from dissectors import apis, wire
from dissectors.frames import decode_response
from kproxy.proxy.rules.answers import MESSAGE, error_response, with_error
from kproxy.proxy.rules.errors import AnswerError, NoPlaceError
from tests.dissectors.values import Values
from tests.kproxy.proxy.rules.frames import FETCH, plain, request_bytes, response_bytes

NOT_LEADER, REBALANCE, SESSION, UNSUPPORTED = 6, 27, 70, 35
KEYS = range(len(apis.NAMES))


def decoded(frame: bytes, key: int, version: int) -> dict[str, Any]:
    body = decode_response(frame[4:], key, version)
    assert not body.problems
    assert not body.guess
    assert body.header["correlation_id"] == 42
    assert body.value is not None
    return body.value


def requests(key: int) -> list[tuple[int, dict[str, Any]]]:
    """Return a simple request of every version, and random ones."""
    known = apis.api(key)
    assert known is not None
    out = []
    for version in known.request.versions:
        out.append((version, plain(known.request[version].struct)))
        drawn = Values(f"answers {key} {version}", unknown_tags=False)
        out += [(version, drawn.draw(known.request[version].struct)) for _ in range(3)]
    return out


@pytest.mark.sample(3)
@pytest.mark.parametrize("key", KEYS, ids=apis.NAMES)
def test_an_error_response_of_every_api_and_version_tells_the_error_and_nothing_else(key: int) -> None:
    for number, (version, body) in enumerate(requests(key)):
        if key == 0:
            body["acks"] = -1
        try:
            answer = error_response(request_bytes(apis.NAMES[key], version, body), NOT_LEADER)
        except NoPlaceError:
            # a random request may name nothing
            assert number % 4
            continue
        assert answer is not None
        value = decoded(answer, key, version)
        found = errors_in(key, version, value)
        assert found, f"v{version}"
        assert {error.code for error in found} == {NOT_LEADER}
        assert {error.message for error in found} <= {MESSAGE, None}


@pytest.mark.sample(3)
@pytest.mark.parametrize("key", KEYS, ids=apis.NAMES)
def test_kio_reads_error_responses(key: int) -> None:
    if key not in api_key_map:
        pytest.skip("kio does not know this API")
    known = apis.api(key)
    assert known is not None
    for version, kinds in schema_name_map[api_key_map[key]].items():
        if EntityType.response not in kinds:
            continue
        body = plain(known.request[version].struct)
        if key == 0:
            body["acks"] = -1
        answer = error_response(request_bytes(apis.NAMES[key], version, body), NOT_LEADER)
        assert answer is not None
        schema = resolve_name(kinds[EntityType.response])
        header, header_size = entity_reader(schema.__header_schema__)(answer, 4)
        assert header.correlation_id == 42
        entity, size = entity_reader(schema)(answer, 4 + header_size)
        assert 4 + header_size + size == len(answer)
        assert ErrorCode(NOT_LEADER) in set(_error_codes(entity))


def _error_codes(entity: Any) -> list[ErrorCode]:
    if isinstance(entity, ErrorCode):
        return [entity]
    if isinstance(entity, tuple):
        return [code for item in entity for code in _error_codes(item)]
    if hasattr(entity, "__dataclass_fields__"):
        return [code for name in entity.__dataclass_fields__ for code in _error_codes(getattr(entity, name))]
    return []


def answered(name: str, version: int, body: dict[str, Any], code: int = NOT_LEADER) -> dict[str, Any]:
    answer = error_response(request_bytes(name, version, body), code)
    assert answer is not None
    return decoded(answer, apis.keys_by_name()[name.lower()], version)


def test_produce_is_answered_per_partition() -> None:
    topics = [
        {"name": "orders", "partition_data": [{"index": 0, "records": b""}, {"index": 4, "records": b""}]},
        {"name": "events", "partition_data": [{"index": 1, "records": None}]},
    ]
    value = answered("Produce", 7, {"acks": -1, "timeout_ms": 1, "topic_data": topics})
    untold = {"error_code": 6, "base_offset": -1, "log_append_time_ms": -1, "log_start_offset": -1}
    assert value["responses"] == [
        {"name": "orders", "partition_responses": [{"index": 0, **untold}, {"index": 4, **untold}]},
        {"name": "events", "partition_responses": [{"index": 1, **untold}]},
    ]


def test_produce_with_acks_0_is_not_answered() -> None:
    assert error_response(request_bytes("Produce", 9, {"acks": 0, "topic_data": []}), NOT_LEADER) is None


def test_fetch_tells_partitions_what_concerns_them_and_the_body_what_concerns_the_session() -> None:
    body = FETCH | {"session_id": 77, "session_epoch": 3}
    value = answered("Fetch", 11, body)
    assert value["error_code"] == 0
    assert value["session_id"] == 77
    (topic,) = value["responses"]
    assert [(row["partition_index"], row["error_code"]) for row in topic["partitions"]] == [(0, 6), (1, 6)]
    assert {row["high_watermark"] for row in topic["partitions"]} == {-1}

    value = answered("Fetch", 11, body, SESSION)
    assert value["error_code"] == SESSION
    assert value["responses"] == []


def test_an_incremental_fetch_that_names_nothing_has_the_error_in_the_body() -> None:
    value = answered("Fetch", 13, FETCH | {"topics": []})
    assert value["error_code"] == NOT_LEADER


def test_share_fetch_tells_of_acknowledgements_only_where_there_were_any() -> None:
    batch = {"first_offset": 0, "last_offset": 1, "acknowledge_types": [1]}
    partitions = [
        {"partition_index": 0, "acknowledgement_batches": [batch]},
        {"partition_index": 1, "acknowledgement_batches": []},
    ]
    topics = [{"topic_id": wire.uuid_text(bytes(range(16))), "partitions": partitions}]
    value = answered("ShareFetch", 1, {"group_id": "g", "member_id": "m", "topics": topics})
    rows = value["responses"][0]["partitions"]
    assert [row["acknowledge_error_code"] for row in rows] == [6, 0]
    # clients would accept a leader of 0 (ShareConsumeRequestManager: leaderId != -1)
    assert {row["current_leader"]["leader_id"] for row in rows} == {-1}


@pytest.mark.parametrize(
    ("name", "version", "body", "expected"),
    [
        ("StopReplica", 1, {"topics": [{"name": "a", "partition_indexes": [1, 2]}]},
         {"partition_errors": [{"topic_name": "a", "partition_index": 1, "error_code": 6},
                               {"topic_name": "a", "partition_index": 2, "error_code": 6}]}),
        ("AlterReplicaLogDirs", 1, {"dirs": [{"path": "/d", "topics": [{"name": "a", "partitions": [3]}]}]},
         {"results": [{"topic_name": "a", "partitions": [{"partition_index": 3, "error_code": 6}]}]}),
        ("AlterUserScramCredentials", 0,
         {"deletions": [{"name": "ann", "mechanism": 1}],
          "upsertions": [{"name": "bob", "mechanism": 1}, {"name": "ann", "mechanism": 2}]},
         {"results": [{"user": "ann", "error_code": 6, "error_message": MESSAGE},
                      {"user": "bob", "error_code": 6, "error_message": MESSAGE}]}),
        ("DescribeGroups", 0, {"groups": ["g1", "g2"]},
         {"groups": [{"error_code": 6, "group_id": group, "group_state": "", "protocol_type": "",
                      "protocol_data": "", "members": []} for group in ("g1", "g2")]}),
        ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]},
         {"coordinators": [{"key": "g", "node_id": -1, "host": "", "port": -1, "error_code": 6,
                            "error_message": MESSAGE}]}),
        ("CreateAcls", 1, {"creations": [{"resource_type": 2}, {"resource_type": 2}]},
         {"results": [{"error_code": 6, "error_message": MESSAGE}] * 2}),
        ("DescribeLogDirs", 1, {"topics": None}, {"results": [{"error_code": 6, "log_dir": "", "topics": []}]}),
        ("Metadata", 12, {"topics": [{"name": None, "topic_id": wire.uuid_text(bytes(range(16)))}]},
         {"topics": [{"error_code": 6, "name": None, "topic_id": wire.uuid_text(bytes(range(16))),
                      "is_internal": False, "partitions": [], "topic_authorized_operations": -(1 << 31)}]}),
    ],
)  # fmt: skip
def test_what_the_request_names_is_found_wherever_it_has_it(
    name: str, version: int, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    value = answered(name, version, body)
    assert {field: value[field] for field in expected} == expected


@pytest.mark.parametrize(("refused", "highest"), [(5, 4), (3, 2), (1, 0), (0, 0)])
def test_a_refused_apiversions_is_told_in_v0_which_lower_versions_there_are(
    refused: int, highest: int
) -> None:
    # KIP-511; the response of a 4.3.0 broker has the same form, see tests/data
    answer = error_response(request_bytes("ApiVersions", refused, {}), UNSUPPORTED)
    assert answer is not None
    body = decode_response(answer[4:], 18, refused)
    assert body.version == 0
    assert body.value == {
        "error_code": UNSUPPORTED,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": highest}],
    }
    assert not body.problems


def test_metadata_of_all_topics_has_no_place_for_an_error() -> None:
    with pytest.raises(NoPlaceError, match="names nothing"):
        error_response(request_bytes("Metadata", 9, {"topics": None}), 5)


def test_unknown_apis_and_versions_are_refused() -> None:
    unknown = bytearray(request_bytes("Heartbeat", 0, {"group_id": "g", "member_id": "m"}))
    unknown[4:6] = (30_000).to_bytes(2)
    with pytest.raises(AnswerError, match="30000 is not known"):
        error_response(bytes(unknown), 6)
    newer = bytearray(request_bytes("Heartbeat", 0, {"group_id": "g", "member_id": "m"}))
    newer[6:8] = (99).to_bytes(2)
    with pytest.raises(AnswerError, match="Heartbeat v99 is not known"):
        error_response(bytes(newer), 6)


def test_a_request_cut_short_is_refused() -> None:
    whole = request_bytes("Heartbeat", 0, {"group_id": "g", "member_id": "m"})
    with pytest.raises(AnswerError, match="could not be read"):
        error_response(whole[:-3], 6)


@pytest.mark.parametrize("key", KEYS, ids=apis.NAMES)
def test_an_error_is_put_into_responses_of_every_api_and_version(key: int) -> None:
    known = apis.api(key)
    assert known is not None
    for version in known.response.versions:
        body = plain(known.response[version].struct)
        frame = response_bytes(apis.NAMES[key], version, body)
        code = REBALANCE
        value = decoded(with_error(frame, key, version, code), key, version)
        found = errors_in(key, version, value)
        assert {error.code for error in found} == {code}
        assert _without_errors(value) == _without_errors(decoded(frame, key, version))


def _without_errors(value: Any) -> Any:
    if isinstance(value, dict):
        told = ("error_code", "error_message")
        return {name: _without_errors(item) for name, item in value.items() if not name.endswith(told)}
    return [_without_errors(item) for item in value] if isinstance(value, list) else value


def test_a_response_with_nothing_in_it_has_no_place() -> None:
    with pytest.raises(NoPlaceError):
        with_error(response_bytes("Produce", 3, {"responses": []}), 0, 3, NOT_LEADER)


def test_the_broker_that_answers_apiversions_in_v0_is_read_in_v0() -> None:
    frame = response_bytes("ApiVersions", 0, {"error_code": UNSUPPORTED, "api_keys": []})
    changed = with_error(frame, 18, 3, 41)
    assert decode_response(changed[4:], 18, 0).value == {"error_code": 41, "api_keys": []}


def test_older_layouts_are_answered_too() -> None:
    # EndQuorumEpoch v0 of Kafka 2.7 started with a replica ID (dissectors/apis/end_quorum_epoch.py)
    older = apis.api(54).request.older[0]  # type: ignore[union-attr]
    partition = {"partition_index": 2, "replica_id": 1, "leader_id": 1, "leader_epoch": 7}
    body = older[0].build({"topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]})
    now = request_bytes("EndQuorumEpoch", 0, {"topics": []})
    at = len(now) - len(apis.api(54).request[0].build({"topics": []}))  # type: ignore[union-attr]
    frame = (len(now[4:at] + body)).to_bytes(4) + now[4:at] + body
    answer = error_response(frame, 74)
    assert answer is not None
    (topic,) = decoded(answer, 54, 0)["topics"]
    assert topic["partitions"][0]["partition_index"] == 2
