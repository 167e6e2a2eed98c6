from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest

from dissectors.apis import NAMES
from dissectors.frames import decode_request
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.verdicts import Frame
from kproxy.session.published import HeldMessage
from kproxy.tui.live import draft as module
from kproxy.tui.live.draft import Draft, InvalidError, Leaf, differences_text
from tests.kproxy.proxy.rules.frames import FETCH, known, plain, request, response


def held(frame: Frame) -> HeldMessage:
    return HeldMessage(
        number=1,
        side=frame.side,
        api=NAMES[frame.api_key],
        version=frame.version,
        correlation_id=frame.correlation_id,
        connection=7,
        client="10.0.0.9:41078",
        client_id="app-1",
        broker="10.1.0.1:9092",
        size=len(frame.data),
        since=frame.time,
        until=frame.time + 24 * 10**9,
        waiting_behind=0,
    )


def answer(frame: Frame) -> dict[str, Any]:
    asked = frame.request
    return {
        "side": frame.side,
        "api_key": frame.api_key,
        "version": frame.version,
        "frame": b64encode(frame.data).decode(),
        "response_to": None if asked is None else b64encode(asked.data).decode(),
    }


def draft(frame: Frame, *, show_secrets: bool = False) -> Draft:
    return Draft(held(frame), answer(frame), show_secrets=show_secrets)


def leaf(of: Draft, path: str) -> Leaf:
    return next(each for each in of.leaves() if each.path == path)


def fetch() -> Draft:
    return draft(request("Fetch", 4, FETCH))


@pytest.mark.parametrize("side", ["request", "response"])
def test_every_field_of_every_message_comes_back_from_its_text_and_from_json(side: str) -> None:
    for name in NAMES:
        api = known(name)
        message = api.request if side == "request" else api.response
        version = message.versions.last
        body = plain(message[version].struct)
        frame = (request if side == "request" else response)(name, version, body)
        made = draft(frame, show_secrets=True)
        for each in made.leaves():
            if not each.fixed:
                made.put(each, each.parse(each.text))
        assert made.check().changes == (), name
        made.put_json(made.json)
        assert made.check().changes == (), name


def test_fields_are_listed_with_what_they_mean() -> None:
    found = {each.path: each for each in fetch().leaves()}
    assert list(found)[:3] == ["replica_id", "max_wait_ms", "min_bytes"]
    assert "topics[0].partitions[1].fetch_offset" in found
    wait = found["max_wait_ms"]
    assert (wait.kind, wait.text, wait.name) == ("int32", "500", "")
    assert "ms" in wait.meaning
    replica = found["replica_id"]
    assert (replica.text, replica.name) == ("-1", "CONSUMER")
    assert found["topics[0].topic"].text == "orders"


def test_one_field_is_changed() -> None:
    made = fetch()
    field = leaf(made, "topics[0].partitions[1].fetch_offset")
    made.put(field, field.parse("1_000"))
    edited = made.check()
    assert [differences_text(each) for each in edited.changes] == [(field.path, "5", "1000")]
    decoded = decode_request(edited.data[4:])
    assert decoded.value is not None
    assert decoded.value["topics"][0]["partitions"][1]["fetch_offset"] == 1000
    assert decoded.header["correlation_id"] == 42


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("max_wait_ms", "soon", "write a number"),
        ("max_wait_ms", "3000000000", "int32 goes from -2147483648 to 2147483647"),
        ("replica_id", "somebody", "write a number or a name"),
        ("isolation_level", "200", "int8 goes from -128 to 127"),
        ("topics[0].topic", '"orders', "is a JSON string"),
        ("topics[0].topic", "x" * 40_000, "this is no string"),
        ("topics[0].topic", r'"\ud800"', "this is no string"),
    ],
)
def test_what_is_no_value_is_told_while_it_is_typed(path: str, text: str, said: str) -> None:
    with pytest.raises(InvalidError, match=said):
        leaf(fetch(), path).parse(text)


def test_values_may_be_written_by_their_names() -> None:
    assert leaf(fetch(), "isolation_level").parse("read_committed") == 1
    assert leaf(fetch(), "min_bytes").parse("0x10") == 16


def test_text_that_cannot_be_shown_as_it_is_is_escaped() -> None:
    evil = 'a\x1b[31m\u202eb"'
    made = draft(request("Fetch", 4, FETCH | {"topics": [{"topic": evil, "partitions": []}]}))
    field = leaf(made, "topics[0].topic")
    assert field.text == r'"a\u001b[31m\u202eb\""'
    assert field.parse(field.text) == evil
    assert r"\u202e" in made.json
    assert "\u202e" not in made.json
    made.put_json(made.json)
    assert made.check().changes == ()
    for other in ("null", "", " x", '"x"', "größe", "x y"):
        made.put(field, other)
        shown = leaf(made, "topics[0].topic")
        assert shown.parse(shown.text) == other


def test_empty_lists_and_null_are_edited_as_json() -> None:
    made = draft(request("Metadata", 4, {"topics": None, "allow_auto_topic_creation": False}))
    topics = leaf(made, "topics")
    assert (topics.kind, topics.text) == ("array?", "null")
    made.put(topics, topics.parse('[{"name": "orders"}]'))
    assert [change.path for change in made.check().changes] == ["topics"]
    made.put(topics, topics.parse("[3]"))
    with pytest.raises(EditError, match=r"topics\[0\] has fields inside"):
        made.check()
    with pytest.raises(InvalidError, match="not JSON"):
        topics.parse("[")
    create = leaf(made, "allow_auto_topic_creation")
    assert create.parse("TRUE") is True
    with pytest.raises(InvalidError, match="true or false"):
        create.parse("1")


def test_lists_of_plain_values_are_edited_as_one() -> None:
    body = {"responses": [], "forgotten_topics_data": [{"topic": "t", "partitions": [1, 2]}]}
    made = draft(request("Fetch", 7, FETCH | body))
    partitions = leaf(made, "forgotten_topics_data[0].partitions")
    assert partitions.text == "[1, 2]"
    made.put(partitions, partitions.parse("[1, 2, 3]"))
    assert [change.got for change in made.check().changes] == [(1, 2, 3)]


def test_json_is_taken_as_a_whole() -> None:
    made = fetch()
    body = json.loads(made.json)
    body["max_wait_ms"] = 7
    made.put_json(json.dumps(body))
    assert [change.path for change in made.check().changes] == ["max_wait_ms"]
    assert leaf(made, "max_wait_ms").value == 7
    for text, said in (("{", "line 1, column 2"), ("[]", "an object"), ("[" * 100_000, "nested too deeply")):
        with pytest.raises(InvalidError, match=said):
            made.put_json(text)
    made.put_json(json.dumps(body | {"max_weight": 1}))
    with pytest.raises(EditError, match="there is no max_weight"):
        made.check()


ODD = {
    "half of a character": r'"\ud800"',
    "huge": "1" + "0" * 400,
    "no number": "NaN",
    "list": "[]",
    "object": "{}",
    "null": "null",
    "deep": "[" * 300 + "]" * 300,
    "deeper": "[" * 900 + "]" * 900,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_whatever_is_typed_does_no_harm(text: str) -> None:
    for field in ("max_wait_ms", "topics"):
        made = fetch()
        with suppress(EditError, InvalidError):
            made.put_json(made.json.replace('"max_wait_ms": 500', f'"{field}": {text}', 1))
            made.check()
        assert all(each.text is not None for each in made.leaves())
        fetch().put_json(made.json)


def test_records_are_not_edited_as_a_field_but_as_json() -> None:
    partition = {"index": 0, "records": b"\x00" * 20}
    body = {"acks": 1, "timeout_ms": 9, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    made = draft(request("Produce", 3, body | {"transactional_id": None}))
    assert "20 bytes" in leaf(made, "topic_data[0].partition_data[0].records").fixed
    made.put_json(made.json.replace("AAAA", "AQID", 1))
    assert [change.path for change in made.check().changes] == ["topic_data[0].partition_data[0].records"]


def test_bytes_are_edited_as_digits_or_text() -> None:
    made = draft(request("SaslAuthenticate", 0, {"auth_bytes": b"\x01\x02"}), show_secrets=True)
    field = leaf(made, "auth_bytes")
    assert field.text == "0x0102"
    assert field.parse("0xff 00") == b"\xff\x00"
    assert field.parse('"ab"') == b"ab"
    with pytest.raises(InvalidError, match="hexadecimal"):
        field.parse("zz")


def test_secrets_are_not_shown_unless_asked_for() -> None:
    frame = request("SaslAuthenticate", 0, {"auth_bytes": b"\0user\0password"})
    made = draft(frame)
    assert made.masked
    assert leaf(made, "auth_bytes").text == "(masked)"
    assert not draft(frame, show_secrets=True).masked
    assert not fetch().masked


def test_tags_that_are_not_known_stay() -> None:
    body = {"group_id": "g", "generation_id": 1, "member_id": "m", "_tags": {77: b"xy"}}
    made = draft(request("Heartbeat", 4, body))
    made.put_json(made.json)
    assert made.check().changes == ()
    with pytest.raises(InvalidError, match="_tags are numbers"):
        made.put_json('{"_tags": {"x": "AA=="}}')


def test_what_cannot_be_read_cannot_be_edited() -> None:
    frame = request("Fetch", 4, FETCH)
    frame.data = frame.data[:-3]
    with pytest.raises(EditError, match="cannot be edited"):
        draft(frame)


def test_only_so_many_fields_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LEAVES", 3)
    assert len(fetch().leaves()) == 3
