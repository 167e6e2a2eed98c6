from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors import apis
from dissectors.annotate import Annotations, Annotator
from dissectors.embedded import Hints, decode, trace
from dissectors.frames import decode_request, decode_response
from dissectors.headers import RequestHeader
from dissectors.session_context import SessionContext

# 26_k430_steady_controller.pcap: a broker forwards CreateTopics v7 and IncrementalAlterConfigs v1
CREATE_TOPICS = b64decode("ABMABwAAAAoAB3R4LWphdmEAAgRjdHj/////AAMBAQAAAHUwAAA=")
ALTER_CONFIGS = b64decode(
    "ACwAAQAAAA4AGHJlYXNzaWduLXBhcnRpdGlvbnMtdG9vbAACBAMxMwMibGVhZGVyLnJlcGxpY2F0aW9uLnRocm90dGxlZC5yYXRlAAg1MDAw"
    "MDAwACRmb2xsb3dlci5yZXBsaWNhdGlvbi50aHJvdHRsZWQucmF0ZQAINTAwMDAwMAAAAAA="
)
ALTER_CONFIGS_ANSWER = b64decode("AAAADgAAAAAAAgAAAAQDMTMAAA==")
PRINCIPAL = b64decode("AAAFVXNlcgpBTk9OWU1PVVMAAA==")
ADDRESS = b64decode("fwAAAQ==")

ALTER_HINTS = Hints(inner_key=44, inner_version=1)


def forwarded(key: int, version: int, body: dict[str, object]) -> bytes:
    """A request as an Envelope holds it."""
    known = apis.api(key)
    assert known is not None
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": 1, "client_id": "c"}
    flexible = version in known.request.flexible
    return RequestHeader[2 if flexible else 1].build(header) + known.request[version].build(body)


def test_a_request() -> None:
    found = decode("envelope_request", CREATE_TOPICS)
    assert (found.label, found.version, found.problems) == ("CreateTopics request v7", 7, ())
    assert found.value["api"] == "CreateTopics"
    assert found.value["header"]["client_id"] == "tx-java"
    assert found.value["body"]["topics"][0]["name"] == "ctx"
    assert found.value["body"]["timeout_ms"] == 30000


def test_a_response() -> None:
    found = decode("envelope_response", ALTER_CONFIGS_ANSWER, ALTER_HINTS)
    assert (found.label, found.problems) == ("IncrementalAlterConfigs response v1", ())
    assert found.value["header"] == {"correlation_id": 14}
    assert found.value["body"]["responses"][0]["resource_name"] == "13"
    assert found.value["decoded"]["body.responses[0].resource_type"] == "BROKER"


def test_a_response_to_nobody_knows_what() -> None:
    found = decode("envelope_response", ALTER_CONFIGS_ANSWER)
    assert (found.value, found.problems) == (None, ())
    assert "is unknown" in found.guess
    assert trace("envelope_response", ALTER_CONFIGS_ANSWER) is None


def test_secrets_inside_are_masked() -> None:
    # AlterConfigs v1 by our own encoder: one configuration that is secret, one that is not
    configs = [{"name": "sasl.jaas.config", "value": "hunter2"}, {"name": "retention.ms", "value": "1"}]
    resources = [{"resource_type": 4, "resource_name": "1", "configs": configs}]
    data = forwarded(33, 1, {"resources": resources, "validate_only": False})
    found = decode("envelope_request", data)
    assert found.masked == ("body.resources[0].configs[0].value",)
    assert "hunter2" not in repr(found.value)
    assert "hunter2" in repr(decode("envelope_request", data, Hints(show_secrets=True)).value)


def test_an_envelope_inside_an_envelope_is_not_followed() -> None:
    data = CREATE_TOPICS
    for _ in range(2000):
        data = forwarded(58, 0, {"request_data": data, "client_host_address": b""})
    found = decode("envelope_request", data)
    assert found.value["body"] is None
    assert found.problems == ((0, "", "an Envelope request inside an Envelope"),)


def test_cuts_and_leftovers() -> None:
    found = decode("envelope_request", CREATE_TOPICS[:-8])
    assert found.value["body"]["topics"][0]["name"] == "ctx"
    assert found.problems[0][0] <= len(CREATE_TOPICS) - 8
    found = decode("envelope_request", CREATE_TOPICS + b"x")
    assert found.problems == ((len(CREATE_TOPICS), "", "1 bytes after the end of the message"),)
    found = decode("envelope_request", b"\0\3")
    assert found.version is None
    assert found.problems == ((0, "", "2 bytes are too few for a request header"),)


def test_trees_count_from_the_first_byte_of_the_field() -> None:
    tree = trace("envelope_request", ALTER_CONFIGS)
    assert tree is not None
    nodes = dict(tree.walk())
    assert (tree.start, tree.end) == (0, len(ALTER_CONFIGS))
    key = nodes["header.request_api_key"]
    assert (key.value, key.start, key.end) == (44, 0, 2)
    name = nodes["body.resources[0].configs[0].name"]
    assert ALTER_CONFIGS[name.start + 1 : name.end] == b"leader.replication.throttled.rate"
    tree = trace("envelope_response", ALTER_CONFIGS_ANSWER, ALTER_HINTS)
    assert tree is not None
    assert dict(tree.walk())["body.responses[0].resource_name"].value == "13"


def test_the_annotator_pairs_request_and_response() -> None:
    envelope = {"request_data": ALTER_CONFIGS, "request_principal": PRINCIPAL, "client_host_address": ADDRESS}
    request = decode_request(forwarded(58, 0, dict(envelope)))
    known = apis.api(58)
    assert known is not None
    answer = known.response[0].build({"response_data": ALTER_CONFIGS_ANSWER, "error_code": 0})
    response = decode_response(b"\0\0\0\1\0" + answer, 58, 0)
    notes, annotator = Annotations(), Annotator(SessionContext())
    annotator.annotate(request, "request", notes)
    assert request.value is not None
    annotator.annotate(response, "response", notes, request=request.value)
    assert notes.problems == []
    assert notes.decoded["request.client_host_address"] == "127.0.0.1"
    assert notes.decoded["request.request_principal"]["name"] == "ANONYMOUS"
    assert notes.decoded["request.request_data"]["api"] == "IncrementalAlterConfigs"
    assert notes.decoded["response.response_data"]["body"]["responses"][0]["resource_name"] == "13"


def test_the_principal() -> None:
    found = decode("principal", PRINCIPAL)
    assert found.value == {"version": 0, "type": "User", "name": "ANONYMOUS", "token_authenticated": False}
    tree = trace("principal", PRINCIPAL)
    assert tree is not None
    assert tree.to_value() == found.value
    assert decode("principal", b"\xff\xffmine").label == "principal of another serializer"
    assert decode("principal", b"").problems == ()
    assert decode("principal", PRINCIPAL[:-4]).problems != ()


@pytest.mark.parametrize(
    ("data", "text"), [(ADDRESS, "127.0.0.1"), (bytes(15) + b"\1", "::1"), (b"", None), (b"abc", None)]
)
def test_addresses(data: bytes, text: str | None) -> None:
    found = decode("ip_address", data)
    assert found.value == text
    assert bool(found.problems) == (data == b"abc")


@pytest.mark.slow
@settings(deadline=None)
@given(st.binary(max_size=80), st.integers(0, len(ALTER_CONFIGS)), st.integers(0, 94), st.integers(0, 5))
def test_any_bytes(data: bytes, at: int, key: int, version: int) -> None:
    hints = Hints(inner_key=key, inner_version=version)
    for content in (data, ALTER_CONFIGS[:at] + data + ALTER_CONFIGS[at + len(data) :]):
        for name in ("envelope_request", "envelope_response", "principal", "ip_address"):
            decode(name, content, hints)
            trace(name, content, hints)
