"""Trees as text; above all, they hide masked values."""

from __future__ import annotations

from dissectors.annotate import Annotations, Annotator
from dissectors.apis import api
from dissectors.budget import changed as limits
from dissectors.embedded.cluster_metadata import UserScramCredentialRecord
from dissectors.frames import decode_response
from dissectors.headers import ResponseHeader
from dissectors.masks import Masks
from dissectors.records import Record
from dissectors.records.build import build_batch
from dissectors.session_context import SessionContext
from kproxy.text.tree import traced_frame

STORED_KEY = b"STOREDKEY"


def traced(*, show_secrets: bool) -> str:
    """Return a Fetch of ``__cluster_metadata`` with a SCRAM credential, as printed by ``read --exchange``."""
    credential = {
        "name": "alice",
        "mechanism": 1,
        "salt": b"SALT",
        "stored_key": STORED_KEY,
        "server_key": b"S",
    }
    # frame version 1, API key 11, version 0 (server-common/.../AbstractApiMessageSerde.java)
    value = b"\x01\x0b\x00" + UserScramCredentialRecord[0].build({**credential, "iterations": 4096})
    partition = {"partition_index": 0, "records": build_batch([Record(0, 5, None, value)])}
    fetch = api(1)
    assert fetch is not None
    body = {"responses": [{"topic": "__cluster_metadata", "partitions": [partition]}]}
    payload = ResponseHeader[1].build({"correlation_id": 1}) + fetch.response[12].build(body)
    decoded = decode_response(payload, 1, 12)
    out = Annotations()
    Annotator(SessionContext(), show_secrets=show_secrets).annotate(decoded, "response", out)
    return "\n".join(traced_frame(decoded, "response", out.decoded, masks=Masks(out.masked)))


def test_a_secret_inside_a_record_is_masked() -> None:
    text = traced(show_secrets=False)
    assert "value (masked)" in text
    assert STORED_KEY.decode() not in text
    assert STORED_KEY.hex(" ") not in text


def test_and_shown_when_asked_for() -> None:
    text = traced(show_secrets=True)
    assert "(masked)" not in text
    assert STORED_KEY.decode() in text


def test_no_more_fields_are_shown_than_the_limit_allows() -> None:
    with limits(shown_fields=12):
        lines = traced(show_secrets=True).splitlines()
    assert len(lines) == 14  # including the line of the frame
    assert lines[-1].strip() == "… more fields than the limit shown_fields (12 objects); --json has all"
