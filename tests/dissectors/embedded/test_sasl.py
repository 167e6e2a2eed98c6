from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.embedded import EmbeddedValue, Hints, decode, identity

pytestmark = pytest.mark.quick

# 07_noida_sasl_plain_java.pcap and 07_noida_sasl_plain_kp.pcap: SaslAuthenticate v2
PLAIN_JAVA = b"\0alice\0alice-secret"
PLAIN_KAFKA_PYTHON = b"alice\0alice\0alice-secret"
# 24_k430_franz_scramsha256.pcap: all four messages (the user name is that of the recording's first message)
SCRAM_CLIENT_FIRST = b"n,,n=admin,r=4Upl/dhAaAuC+OAZs4gC0S0L24s"
SCRAM_SERVER_FIRST = (
    b"r=4Upl/dhAaAuC+OAZs4gC0S0L24sdudprc6pbnnwn14xsog6gomyt,s=OXpmOXd5OTBlMmIzOTc4ZnpsdXRha3J1Nw==,i=4096"
)
SCRAM_CLIENT_FINAL = (
    b"c=biws,r=4Upl/dhAaAuC+OAZs4gC0S0L24sdudprc6pbnnwn14xsog6gomyt,"
    b"p=jmItyA89Tmzto3HYCJf0h3houdQO7lkTasVTIeToj5I="
)
SCRAM_SERVER_FINAL = b"v=Nc3gx+sZP/dl7ta7jW90q7/+MgD8La3fRsMHFLmDDsU="
# 24_k430_ck_oauth.pcap: an unsecured JWS; 24_k430_java_oauth_expired.pcap: the refusal and its answer
OAUTH_CLIENT = (
    b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiIsImlhdCI6MTc5NTI1NTUzNy45ODgsImV4cCI6"
    b"MTc5NTI1OTEzNy45ODgsInNjb3BlIjpbIngiXX0.\x01\x01"
)
OAUTH_REFUSAL = b'{"status":"invalid_token"}'


def token(data: bytes, mechanism: str | None = None, *, show: bool = False) -> EmbeddedValue:
    return decode("sasl_token", data, Hints(mechanism=mechanism, show_secrets=show))


@pytest.mark.parametrize(("data", "authzid"), [(PLAIN_JAVA, ""), (PLAIN_KAFKA_PYTHON, "alice")])
@pytest.mark.parametrize("mechanism", ["PLAIN", None])
def test_plain(data: bytes, authzid: str, mechanism: str | None) -> None:
    found = token(data, mechanism)
    assert found.value == {
        "mechanism": "PLAIN",
        "message": "initial",
        "authzid": authzid,
        "authcid": "alice",
        "password": None,
    }
    assert (found.masked, found.label, found.problems) == (("password",), "PLAIN initial", ())
    assert found.guess == ("" if mechanism else "looks like PLAIN")
    assert identity(found.value) == "alice"
    assert token(data, mechanism, show=True).value["password"] == "alice-secret"
    assert token(data, mechanism, show=True).masked == ()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", None])
def test_scram(mechanism: str | None) -> None:
    found = token(SCRAM_CLIENT_FIRST, mechanism)
    assert found.value == {
        "mechanism": mechanism or "SCRAM",
        "message": "client-first",
        "channel_binding": "n",
        "user": "admin",
        "nonce": "4Upl/dhAaAuC+OAZs4gC0S0L24s",
    }
    assert identity(found.value) == "admin"
    found = token(SCRAM_SERVER_FIRST, mechanism)
    assert (found.value["message"], found.value["iterations"]) == ("server-first", 4096)
    assert (found.value["salt"], found.masked) == (None, ("salt",))
    found = token(SCRAM_CLIENT_FINAL, mechanism)
    assert (found.value["message"], found.masked) == ("client-final", ("proof",))
    found = token(SCRAM_SERVER_FINAL, mechanism)
    assert (found.value["message"], found.masked) == ("server-final", ("server_signature",))
    assert token(SCRAM_SERVER_FINAL, show=True).value["server_signature"].startswith("Nc3g")
    assert identity(found.value) is None


def test_scram_refused_and_extended() -> None:
    # RFC 5802 section 7: server-error; KIP-48: delegation tokens; section 5.1: escapes in names
    found = token(b"e=invalid-proof", "SCRAM-SHA-512")
    assert (found.value["message"], found.value["error"]) == ("server error", "invalid-proof")
    found = token(b"n,a=r=2Coot,n=u=3D1,r=abc,tokenauth=true", "SCRAM-SHA-256")
    assert (found.value["authzid"], found.value["user"]) == ("r,oot", "u=1")
    assert found.value["tokenauth"] == "true"


def test_oauthbearer() -> None:
    found = token(OAUTH_CLIENT, "OAUTHBEARER")
    assert found.value == {
        "mechanism": "OAUTHBEARER",
        "message": "client initial",
        "token": None,
        "jwt": {
            "header": {"alg": "none"},
            "claims": {"sub": "admin", "iat": 1795255537.988, "exp": 1795259137.988, "scope": ["x"]},
        },
        "user": "admin",
    }
    assert found.masked == ("token",)
    assert identity(found.value) == "admin"
    assert token(OAUTH_CLIENT, show=True).value["token"].startswith("eyJ")
    found = token(OAUTH_REFUSAL, "OAUTHBEARER")
    assert (found.value["message"], found.value["error"]) == ("server error", {"status": "invalid_token"})
    assert token(b"\x01", "OAUTHBEARER").value["message"] == "client abort"


def test_oauthbearer_extensions_and_opaque_tokens() -> None:
    # RFC 7628 section 3.1 with an opaque token, and extensions (KIP-342)
    found = token(b"n,a=bob,\x01auth=Bearer s3cr3t\x01logicalCluster=lkc-1\x01\x01", "OAUTHBEARER")
    assert found.value["extensions"] == {"logicalCluster": "lkc-1"}
    assert (found.value["authzid"], "jwt" in found.value) == ("bob", False)
    assert "s3cr3t" not in repr(found)


def test_a_jwt_signature_is_not_shown() -> None:
    def part(value: Any) -> str:
        return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    jwt = f"{part({'alg': 'RS256'})}.{part({'sub': 7})}.SIGNATURE"
    found = token(f"n,,\x01auth=Bearer {jwt}\x01\x01".encode())
    assert found.value["jwt"] == {"header": {"alg": "RS256"}, "claims": {"sub": 7}}
    assert found.value["user"] is None
    assert "SIGNATURE" not in repr(found)


@pytest.mark.parametrize("claims", [b"[" * 50_000, b"7", b"\xff", b'{"a":NaN', b"1" * 5000])
def test_claims_that_are_none(claims: bytes) -> None:
    jwt = b".".join([urlsafe_b64encode(b"{}"), urlsafe_b64encode(claims), b"x"])
    found = token(b"n,,\x01auth=Bearer " + jwt + b"\x01\x01", "OAUTHBEARER")
    assert "jwt" not in found.value
    assert found.masked == ("token",)


def test_aws_msk_iam() -> None:
    # fields of github.com/aws/aws-msk-iam-auth's AuthenticationRequestParams, with invented values
    request = {
        "version": "2020_10_22",
        "host": "b-1.example",
        "user-agent": "ua",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIAEXAMPLE/20260101/eu-west-1/kafka-cluster/aws4_request",
        "x-amz-security-token": "sessiontoken",
        "x-amz-signature": "f00d",
    }
    found = token(json.dumps(request).encode(), "AWS_MSK_IAM")
    assert identity(found.value) == "AKIAEXAMPLE"
    assert set(found.masked) == {"x-amz-security-token", "x-amz-signature"}
    assert "f00d" not in repr(found)
    answer = token(b'{"version":"2020_10_22","request-id":"1"}', "AWS_MSK_IAM")
    assert answer.value["message"] == "server answer"


def test_empty_tokens() -> None:
    found = token(b"", "PLAIN")
    assert (found.value, found.problems, found.masked) == (None, (), ())


def test_another_mechanism_than_announced() -> None:
    found = token(PLAIN_JAVA, "SCRAM-SHA-256")
    assert found.label == "PLAIN initial"
    assert found.guess == "looks like PLAIN, not SCRAM-SHA-256"
    assert found.masked == ("password",)


def test_what_is_not_understood_is_not_shown() -> None:
    found = token(b"\xff\xfesecret", "PLAIN")
    assert (found.value, found.problems) == (None, ((0, "", "no message of PLAIN"),))
    found = token(b"secret", "MY-OWN")
    assert (found.value, found.problems, found.label) == (None, (), "opaque (MY-OWN)")
    assert "secret" not in repr(found)


_UNKNOWN: dict[str, Any] = {
    "refresh": "s3cr3t",
    "scope": [{"x": "s3cr3t"}],
    "sub": {"sub": {"sub": "s3cr3t"}},
}


def _oauth(claims: dict[str, Any], extension: str = "") -> bytes:
    header, body = (urlsafe_b64encode(json.dumps(each).encode()).decode() for each in ({"alg": "x"}, claims))
    return f"n,,\x01auth=Bearer {header}.{body}.s3cr3t{extension}\x01\x01".encode()


@pytest.mark.parametrize(
    ("data", "mechanism"),
    [
        (b"a\0s3cr3t\0b", "MY-OWN"),
        (b"n,,n=s3cr3t,r=s3cr3t", "MY-OWN"),
        (b"n,,n=admin,r=abc,x=s3cr3t", "SCRAM-SHA-256"),
        (_oauth(_UNKNOWN), "OAUTHBEARER"),
        (_oauth({}, "\x01otherToken=s3cr3t"), None),
        (json.dumps({"status": "x"} | _UNKNOWN).encode(), "OAUTHBEARER"),
        (json.dumps({"request-id": "1"} | _UNKNOWN).encode(), None),
        (json.dumps({"x-amz-signature": "x", "X-Amz-Security-Token": "s3cr3t"}).encode(), "AWS_MSK_IAM"),
        (b'{"status":' + b'{"error":' * 400 + b'"s3cr3t"' + b"}" * 401, "OAUTHBEARER"),
    ],
)
def test_what_is_not_known_to_be_no_secret_is_masked(data: bytes, mechanism: str | None) -> None:
    assert "s3cr3t" not in repr(token(data, mechanism))
    assert "s3cr3t" in repr(token(data, mechanism, show=True)) or mechanism == "MY-OWN"


@pytest.mark.parametrize(
    "data",
    [
        b"n,,n=,",
        b"n,,r=x",
        b"r=x,s=y,i=many",
        b"r=x,s=y,i=" + b"9" * 5000,
        b"c=biws,p=x",
        b"a=b=c,",
        b"r=,r=,",
    ],
)
def test_halves_of_scram(data: bytes) -> None:
    assert token(data, "SCRAM-SHA-256").value is None


@settings(deadline=None)
@given(
    st.binary(max_size=80), st.sampled_from(["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "X", None])
)
def test_any_bytes(data: bytes, mechanism: str | None) -> None:
    found = token(data, mechanism)
    for path in found.masked:
        value = found.value
        for name in path.split("."):
            value = value[name]
        assert value is None


@settings(deadline=None)
@given(st.text(min_size=1).filter(lambda text: "\0" not in text), st.text(min_size=4, alphabet="äöü%$§"))
def test_no_password_is_shown(user: str, password: str) -> None:
    data = b"\0" + user.encode(errors="replace") + b"\0" + password.encode()
    assert password not in repr(token(data)).replace(repr(user), "")


def test_identity_of_what_is_no_token() -> None:
    for value in (None, "alice", {}, {"user": None}):
        assert identity(value) is None
