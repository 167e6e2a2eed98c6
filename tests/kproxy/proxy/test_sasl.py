"""SASL mechanisms, tested with the examples in their RFCs and against kafka-python's SCRAM."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest

from kproxy.proxy.sasl import OAuthBearer, Plain, SaslError, Scram, mechanism
from kproxy.proxy.tls.security import Sasl


def test_plain() -> None:
    # RFC 4616, section 4
    plain = Plain("tim", "tanstaaftanstaaf")
    assert plain.first() == b"\0tim\0tanstaaftanstaaf"
    assert plain.answer(b"") is None


def test_scram_sha_256() -> None:
    # RFC 7677, section 3
    scram = Scram("sha256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert scram.answer(challenge) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert scram.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("digest", ["SHA-256", "SHA-512"])
def test_kafka_python_computes_the_same(digest: str) -> None:
    scram_module = pytest.importorskip("kafka.net.sasl.scram")
    theirs = scram_module.ScramClient("alice", "a, pass=word\u00e9", f"SCRAM-{digest}")
    nonce = theirs.nonce.decode()
    ours = Scram(digest.replace("-", "").lower(), "alice", "a, pass=word\u00e9", nonce=nonce)
    assert ours.first() == theirs.first_message()
    challenge = f"r={nonce}more,s={base64.b64encode(b'salt').decode()},i=5000"
    theirs.process_server_first_message(challenge.encode())
    assert ours.answer(challenge.encode()) == theirs.final_message()
    assert ours.answer(b"v=" + base64.b64encode(theirs.server_signature)) is None


def test_names_are_escaped() -> None:
    assert Scram("sha256", "a=b,c", "p", nonce="x").first() == b"n,,n=a=3Db=2Cc,r=x"


def _challenged() -> tuple[Scram, str]:
    scram = Scram("sha256", "user", "pencil")
    return scram, scram.first().decode().rpartition("r=")[2]


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        ("e=unknown-user", "the broker refused: unknown-user"),
        ("r=another,s=c2FsdA==,i=4096", "does not continue"),
        ("r={nonce},s=c2FsdA==,i=4096", "does not continue"),
        ("r={nonce}1,s=*,i=4096", "no usable s="),
        ("r={nonce}1,i=4096", "no usable s="),
        ("r={nonce}1,s=c2FsdA==,i=99999999999", "asks for '99999999999' iterations"),
        ("r={nonce}1,s=c2FsdA==,i=" + 5000 * "9", "asks for '99999999999999999999' iterations"),
        ("r={nonce}1,s=c2FsdA==,i=-1", "asks for '-1' iterations"),
        ("", "does not continue"),
    ],
)
def test_what_a_broker_must_not_say(challenge: str, reason: str) -> None:
    scram, nonce = _challenged()
    with pytest.raises(SaslError, match=reason):
        scram.answer(challenge.format(nonce=nonce).encode())


def test_a_broker_that_does_not_know_the_password() -> None:
    scram, nonce = _challenged()
    scram.answer(f"r={nonce}1,s=c2FsdA==,i=4096".encode())
    wrong = base64.b64encode(hmac.digest(b"x", b"y", hashlib.sha256)).decode()
    with pytest.raises(SaslError, match="does not know the password"):
        scram.answer(f"v={wrong}".encode())


def test_what_kproxy_does_not_have() -> None:
    with pytest.raises(SaslError, match="cannot authenticate with GSSAPI"):
        mechanism(Sasl("GSSAPI"))
    with pytest.raises(SaslError, match=r"set sasl\.jaas\.config"):
        mechanism(Sasl("PLAIN"))
    assert mechanism(Sasl("PLAIN", "a", "b")).first() == b"\0a\0b"
    with pytest.raises(SaslError, match="no token for OAUTHBEARER"):
        mechanism(Sasl("OAUTHBEARER"))


def test_oauthbearer() -> None:
    # RFC 7628, section 4.1, without authzid, host and port, like Kafka's clients
    bearer = OAuthBearer("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==")
    assert bearer.first() == b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01"
    assert bearer.answer(b"") is None
    # section 4.3: the client acknowledges a refusal, and the server then fails
    assert bearer.answer(b'{"status":"invalid_token"}') == b"\x01"


def test_a_token_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    bearer = Sasl("OAUTHBEARER", token_file=str(file))
    with pytest.raises(SaslError, match=f"the token in {file} cannot be read"):
        mechanism(bearer)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert mechanism(bearer).first() == f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def test_an_unsecured_token() -> None:
    # RFC 7515, appendix A.5: header, claims and an empty signature, base64url without padding
    bearer = Sasl("OAUTHBEARER", claims={"sub": "alice", "scope": ["a", "b"]}, token_seconds=60)
    token = mechanism(bearer).first().decode().removeprefix("n,,\x01auth=Bearer ").removesuffix("\x01\x01")
    header, claims, signature = token.split(".")
    assert (header, signature) == ("eyJhbGciOiJub25lIn0", "")
    assert "=" not in claims
    read = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (read["sub"], read["scope"], read["exp"] - read["iat"]) == ("alice", ["a", "b"], 60)
