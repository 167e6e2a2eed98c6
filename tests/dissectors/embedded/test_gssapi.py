"""GSSAPI tokens, written by hand from the RFCs: no recording has Kerberos."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.embedded import Hints, decode, gssapi

# RFC 4121 section 4.1: 60 length 06 09 OID, token ID 01 00 for AP-REQ
KERBEROS_OID = bytes.fromhex("06 09 2a864886f712010202")
AP_REQ = b"\x60\x81\x90" + KERBEROS_OID + b"\x01\x00" + bytes(0x90 - 13)
# RFC 4178: the OID of SPNEGO is 1.3.6.1.5.5.2
SPNEGO = b"\x60\x0a" + bytes.fromhex("06 06 2b0601050502") + b"\xa0\x00"
# RFC 4121 section 4.2.6.2: 05 04, flags (1: from acceptor), ff, EC 12, RRC 0, sequence; then data and checksum.
# RFC 4752 section 3.1: the data is a bit mask of layers and a size of three bytes
WRAP = bytes.fromhex("0504 01 ff 000c 0000 0000000000000001") + b"\x07\x01\x00\x00" + bytes(12)


def test_kerberos() -> None:
    found = decode("sasl_token", AP_REQ, Hints(mechanism="GSSAPI"))
    assert found.value == {
        "mechanism": "GSSAPI",
        "message": "Kerberos AP-REQ",
        "oid": "1.2.840.113554.1.2.2",
        "bytes": len(AP_REQ),
    }
    assert decode("sasl_token", AP_REQ).label == "GSSAPI Kerberos AP-REQ"


def test_spnego() -> None:
    found = gssapi.token(SPNEGO)
    assert found is not None
    assert (found["message"], found["oid"]) == ("SPNEGO negTokenInit", "1.3.6.1.5.5.2")


def test_the_security_layer() -> None:
    found = gssapi.token(WRAP)
    assert found is not None
    assert (found["from"], found["sealed"], found["authzid"]) == ("acceptor", False, "")
    assert found["security_layers"] == ["auth", "auth-int", "auth-conf"]
    assert found["max_message_bytes"] == 65536


def test_the_chosen_layer_names_the_user_rotated_or_not() -> None:
    body = b"\x01\x00\x00\x00alice" + bytes(12)
    for turn in (0, 12):
        header = bytes.fromhex("0504 00 ff 000c") + turn.to_bytes(2) + bytes(8)
        found = gssapi.token(header + body[len(body) - turn :] + body[: len(body) - turn])
        assert found is not None
        assert (found["security_layers"], found["authzid"]) == (["auth"], "alice")


def test_sealed_messages_stay_closed() -> None:
    found = gssapi.token(b"\x05\x04\x02" + WRAP[3:])
    assert found == {
        "mechanism": "GSSAPI",
        "message": "Kerberos wrap",
        "from": "initiator",
        "sealed": True,
        "bytes": 32,
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x60",
        b"\x60\x80",
        b"\x60\x85\1\1\1\1\1",
        b"\x60\x02\x06\x09",
        AP_REQ[:-1],
        AP_REQ + b"x",
        b"\x05\x04",
    ],
)
def test_no_tokens(data: bytes) -> None:
    assert gssapi.token(data) is None


@settings(deadline=None)
@given(st.binary(max_size=40), st.sampled_from([b"\x60", b"\x05\x04", b"\x60\x0b" + KERBEROS_OID, b""]))
def test_any_bytes(data: bytes, start: bytes) -> None:
    found = gssapi.token(start + data)
    assert found is None or found["mechanism"] == "GSSAPI"
