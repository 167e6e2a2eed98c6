"""Avro and Protobuf by schemas of files and of a registry; payloads are written by fastavro and protobuf themselves."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from captures.payloads.avro import AvroDecoder
from captures.payloads.decoding import PayloadDecoding, schema_of
from captures.payloads.payload import PayloadError, SchemaError
from captures.payloads.protobuf import ProtobufDecoder, files_of
from captures.payloads.registry import SchemaRegistry

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools")

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "raw", "type": ["null", "bytes"]},
    ],
}
DATUM = {
    "id": 4711,
    "price": Decimal("12.50"),
    "at": datetime(2026, 11, 21, 9, 14, tzinfo=UTC),
    "tags": ["a", "ü"],
    "raw": b"\x00\x01",
}
SHOWN = {"id": 4711, "price": "12.50", "at": "2026-11-21T09:14:00+00:00", "tags": ["a", "ü"], "raw": "AAE="}
LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "item.proto";
message Order { int64 id = 1; string client = 2; google.protobuf.Timestamp at = 3; repeated Item items = 4; }
message Payment { message Part { int32 cents = 1; } repeated Part parts = 1; }
"""
ITEM = 'syntax = "proto3"; package shop; message Item { string name = 1; }'


def avro(datum: Any = DATUM, schema: Any = ORDER) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), datum)
    return file.getvalue()


def confluent(number: int, payload: bytes) -> bytes:
    return struct.pack(">bI", 0, number) + payload


@pytest.fixture
def proto(tmp_path: Path) -> Path:
    (tmp_path / "item.proto").write_text(ITEM)
    path = tmp_path / "order.proto"
    path.write_text(PROTO)
    return path


def order_bytes() -> bytes:
    # field 1: varint 4711; field 2: "c1"; field 3: seconds 1; field 4: name "x" (protobuf.dev, "Encoding")
    return b"\x08\xe7\x24\x12\x02c1\x1a\x02\x08\x01\x22\x03\x0a\x01x"


ORDER_SHOWN = {"id": "4711", "client": "c1", "at": "1970-01-01T00:00:01Z", "items": [{"name": "x"}]}


# ------------------------------------------------------------ avro
@pytest.mark.parametrize(
    "frame", [lambda data: data, lambda data: confluent(7, data), lambda data: b"\xc3\x01" + bytes(8) + data]
)
def test_avro_by_a_file_with_and_without_a_frame(tmp_path: Path, frame: Callable[[bytes], bytes]) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    decoding = PayloadDecoding.of({}, {"value": [f"orders={tmp_path / 'order.avsc'}"]}, None)
    found = decoding.read(frame(avro()), "orders", "value")
    assert (found.format, found.data, found.problem) == ("avro", SHOWN, "")
    assert decoding.read(avro(), "payments", "value").format == "hex"
    assert decoding.read(avro(), "orders", "key").format == "hex"


def test_what_does_not_fit_the_schema_is_shown_as_it_is_and_counted(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    decoding = PayloadDecoding.of({}, {"value": [str(tmp_path / "order.avsc")]}, None)
    found = decoding.read(b"hello", "orders", "value")
    assert (found.format, found.data) == ("text", "hello")
    assert "does not fit" in found.problem
    for number in range(100):
        decoding.read(f"hello{number}".encode(), "orders", "value")
    assert sum(decoding.unread.values()) == 101
    assert len(decoding.unread) <= 21


def test_bytes_that_are_left_over_do_not_fit() -> None:
    with pytest.raises(PayloadError, match="2 bytes are left over"):
        AvroDecoder(json.dumps(ORDER), "order.avsc").decode(avro() + b"ab")


def test_a_recursive_schema_and_endless_nesting_end_nothing() -> None:
    decoder = AvroDecoder(json.dumps(LIST), "list.avsc")
    assert decoder.decode(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(PayloadError, match="RecursionError"):
        decoder.decode(b"\x02" * 3_000_000 + b"\x00")


@pytest.mark.parametrize("items", ["null", {"type": "record", "name": "E", "fields": []}])
def test_an_array_of_items_without_bytes_is_refused(items: Any) -> None:
    with pytest.raises(SchemaError, match="take no bytes"):
        AvroDecoder(json.dumps({"type": "array", "items": items}), "bomb.avsc")


def test_announced_lengths_beyond_the_bytes_cost_nothing() -> None:
    with pytest.raises(PayloadError):
        AvroDecoder('"string"', "text.avsc").decode(b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f")


# ------------------------------------------------------------ protobuf
def test_protobuf_by_a_proto_file_with_imports(proto: Path) -> None:
    _, decoder = schema_of(f"{proto}:Order")
    assert decoder.decode(order_bytes()) == ORDER_SHOWN
    assert schema_of(f"{proto}:shop.Order")[1].decode(order_bytes()) == ORDER_SHOWN


def test_protobuf_by_a_compiled_file(proto: Path, tmp_path: Path) -> None:
    from grpc_tools import protoc

    compiled = tmp_path / "order.pb"
    arguments = [f"-I{tmp_path}", f"-I{Path(protoc.__file__).parent / '_proto'}", "--include_imports"]
    assert not protoc.main(["protoc", *arguments, f"--descriptor_set_out={compiled}", "order.proto"])
    assert schema_of(f"{compiled}:Order")[1].decode(order_bytes()) == ORDER_SHOWN


def test_one_of_several_messages_has_to_be_named(proto: Path) -> None:
    with pytest.raises(PayloadError, match=r"name one, as in FILE:MESSAGE \(Order, Payment\)"):
        schema_of(str(proto))[1].decode(order_bytes())
    with pytest.raises(SchemaError, match="no message 'Bill'; there is Order, Payment"):
        schema_of(f"{proto}:Bill")


@pytest.mark.parametrize(
    ("index", "payload", "shown"),
    [
        (b"\x00", order_bytes(), ORDER_SHOWN),
        (b"\x02\x02", b"\x0a\x02\x08\x05", {"parts": [{"cents": 5}]}),
        (b"\x04\x02\x00", b"\x08\x05", {"cents": 5}),
    ],
)
def test_confluents_message_index_chooses_the_message(
    proto: Path, index: bytes, payload: bytes, shown: Any
) -> None:
    decoder = ProtobufDecoder(files_of(proto), "order.proto")
    assert decoder.decode_indexed(index + payload) == shown


@pytest.mark.parametrize("data", [b"", b"\x06\x00", b"\x02\x08", b"\x01", b"\xff" * 20, b"\x00\xff\xff"])
def test_bad_message_indexes_and_bytes_do_not_fit(proto: Path, data: bytes) -> None:
    decoder = ProtobufDecoder(files_of(proto), "order.proto")
    with pytest.raises(PayloadError):
        decoder.decode_indexed(data)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.avsc", "{", "is not an Avro schema"),
        ("a.avsc", '{"type": "nothing"}', "is not an Avro schema"),
        ("a.proto", "message {", "cannot be compiled"),
        ("a.pb", "hello", "is not a compiled Protobuf schema"),
        ("a.txt", "", "is not a schema by its name"),
    ],
)
def test_a_file_that_is_not_a_schema_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=said):
        schema_of(str(tmp_path / name))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read: No such file"):
        schema_of(f"orders={tmp_path / 'none.avsc'}")


# ------------------------------------------------------------ registry
class Answers(BaseHTTPRequestHandler):
    """A registry with the schemas of a test."""

    schemas: dict[str, Any]
    asked: list[str]
    password: str

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.password and self.headers.get("Authorization") != self.password:
            status, shape = 401, b"{}"
        elif self.path == "/schemas/ids/302":
            self.send_response(302)
            self.send_header("Location", "/schemas/ids/1")
            self.end_headers()
            return
        else:
            found = self.schemas.get(self.path)
            status, shape = (404, b"{}") if found is None else (200, json.dumps(found).encode())
        self.send_response(status)
        self.end_headers()
        self.wfile.write(shape)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def registry() -> Iterator[tuple[str, type[Answers]]]:
    answers = type("TheAnswers", (Answers,), {"schemas": {}, "asked": [], "password": ""})
    server = ThreadingHTTPServer(("127.0.0.1", 0), answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", answers
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.slow
def test_the_registry_is_asked_once_for_each_schema(registry: tuple[str, type[Answers]]) -> None:
    url, answers = registry
    reference = {
        "type": "record",
        "name": "Id",
        "namespace": "shop",
        "fields": [{"name": "n", "type": "int"}],
    }
    user = {"type": "record", "name": "U", "fields": [{"name": "id", "type": "shop.Id"}]}
    answers.schemas = {
        "/schemas/ids/1": {"schema": json.dumps(ORDER)},
        "/schemas/ids/2": {"schemaType": "JSON", "schema": "{}"},
        "/schemas/ids/3": {
            "schemaType": "PROTOBUF",
            "schema": PROTO,
            "references": [{"name": "item.proto", "subject": "item/x", "version": 2}],
        },
        "/subjects/item%2Fx/versions/2": {"schemaType": "PROTOBUF", "schema": ITEM},
        "/schemas/ids/4": {
            "schema": json.dumps(user),
            "references": [{"name": "shop.Id", "subject": "id", "version": 1}],
        },
        "/subjects/id/versions/1": {"schema": json.dumps(reference)},
    }
    decoding = PayloadDecoding.of({}, {}, url)
    for _ in range(3):
        for number, payload, wanted in (
            (1, avro(), ("avro", SHOWN)),
            (2, b'{"a":1}', ("json", {"a": 1})),
            (3, b"\x00" + order_bytes(), ("protobuf", ORDER_SHOWN)),
            (4, b"\x0e", ("avro", {"id": {"n": 7}})),
            (9, b"\xff", ("hex", "0000000009ff")),
        ):
            found = decoding.read(confluent(number, payload), "orders", "value")
            assert (found.format, found.data) == wanted
    assert decoding.read(b"plain", "orders", "value").data == "plain"
    assert len(answers.asked) == len(set(answers.asked)) == 7
    assert decoding.registry is not None
    assert not decoding.registry.failures


@pytest.mark.slow
def test_a_payload_that_does_not_fit_its_schema_is_counted(registry: tuple[str, type[Answers]]) -> None:
    url, answers = registry
    answers.schemas = {"/schemas/ids/1": {"schema": json.dumps(ORDER)}}
    decoding = PayloadDecoding.of({}, {}, url)
    found = decoding.read(confluent(1, b"\x01"), "orders", "value")
    assert found.format == "hex"
    assert "does not fit schema 1" in found.problem


@pytest.mark.slow
def test_the_password_is_sent_and_never_shown(registry: tuple[str, type[Answers]]) -> None:
    url, answers = registry
    answers.password = "Basic dXNlcjpwQHNz"  # user:p@ss
    answers.schemas = {"/schemas/ids/1": {"schema": '"string"'}}
    with_password = SchemaRegistry(url.replace("://", "://user:p%40ss@"))
    found = with_password.payload(confluent(1, b"\x04ab"))
    assert found is not None
    assert found.data == "ab"
    without = SchemaRegistry(url.replace("://", "://user:secret@"))
    assert without.payload(confluent(1, b"\x04ab")) is None
    assert without.payload(confluent(2, b"\x04ab")) is None
    assert without.failures == [f"{url} refuses: HTTP 401; write http://user:password@host:port"]


@pytest.mark.slow
def test_redirections_are_not_followed(registry: tuple[str, type[Answers]]) -> None:
    url, answers = registry
    answers.schemas = {"/schemas/ids/1": {"schema": '"string"'}}
    asked = SchemaRegistry(url)
    assert asked.payload(confluent(302, b"\x04ab")) is None
    assert answers.asked == ["/schemas/ids/302"]
    assert "HTTP 302" in asked.failures[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        {"schema": "{"},
        {"schemaType": "XML", "schema": ""},
        {},
        [],
        {"schemaType": "PROTOBUF", "schema": 'import "../../x.proto";', "references": [
            {"name": "../../x.proto", "subject": "x", "version": 1}]},
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_used_is_told(schema: Any, registry: tuple[str, type[Answers]]) -> None:
    url, answers = registry
    answers.schemas = {"/schemas/ids/1": schema, "/subjects/x/versions/1": {"schema": ITEM}}
    asked = SchemaRegistry(url)
    assert asked.payload(confluent(1, b"\x04ab")) is None
    assert asked.failures
    assert f"schema 1 of {url} cannot be used" in asked.failures[0]


@pytest.mark.slow
def test_a_registry_that_is_away_is_asked_once(registry: tuple[str, type[Answers]]) -> None:
    asked = SchemaRegistry("http://127.0.0.1:1")
    assert asked.payload(confluent(1, b"a")) is None
    assert asked.payload(confluent(2, b"a")) is None
    assert len(asked.failures) == 1
    assert "http://127.0.0.1:1 cannot be reached" in asked.failures[0]


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://user:secret@host", "http://"])
def test_what_is_not_a_registrys_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SchemaError, match="is not the URL of a schema registry") as raised:
        SchemaRegistry(url)
    assert "secret" not in str(raised.value)
