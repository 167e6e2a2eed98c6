"""SASL tokens: their kind is still recognisable, their content is gone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.export.scrub.frames import scrub_token
from dissectors import embedded

# RFC 4616 section 4, RFC 7677 section 3, RFC 7628 section 4.1; KIP-48 for tokenauth
TOKENS = {
    b"\0tim\0tanstaaftanstaaf": b"\0xxx\0xxxxxxxxxxxxxxxx",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO": b"n,,n=xxxx,r=xxxxxxxxxxxxxxxxxxxx",
    b"n,a=boss,n=user,r=rOpr,tokenauth=true": b"n,a=xxxx,n=xxxx,r=xxxx,tokenauth=xxxx",
    b"r=rOprNGfwEbe,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096": b"r=xxxxxxxxxxx,s=xxxxxxxxxxxxxxxxxxxxxx==,i=4096",
    b"c=biws,r=rOpr,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=": b"c=xxxx,r=xxxx,p=" + b"x" * 43 + b"=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=": b"v=" + b"x" * 43 + b"=",
    b"n,a=user@example.com,\x01host=server\x01auth=Bearer vF9dft4qmTc2==\x01\x01": (
        b"n,a=xxxxxxxxxxxxxxxx,\x01host=xxxxxx\x01auth=Bearer xxxxxxxxxxxxxx\x01\x01"
    ),
    b'{"status":"invalid_token","scope":"a, b"}': b'{"status":"xxxxxxxxxxxxx","scope":"xxxx"}',
    b"": b"",
    b"\x01": b"\x01",
    b"`\x82\x01\x02kerberos": bytes(12),
}


@pytest.mark.parametrize(("token", "blanked"), TOKENS.items())
def test_known_messages_keep_their_shape(token: bytes, blanked: bytes) -> None:
    assert scrub_token(token) == blanked


@pytest.mark.parametrize(
    "token", [token for token in TOKENS if token and not token.startswith((b"`", b"\x01"))]
)
def test_the_message_is_still_recognised(token: bytes) -> None:
    before = embedded.decode("sasl_token", token)
    after = embedded.decode("sasl_token", scrub_token(token))
    assert after.label == before.label
    assert not after.problems


@given(st.binary(max_size=80))
def test_the_size_stays_whatever_it_is(token: bytes) -> None:
    assert len(scrub_token(token)) == len(token)


@given(st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=8, max_size=20))
def test_no_password_survives(password: str) -> None:
    for token in (f"\0me\0{password}", f"n,,n=me,r={password}", f"n,,\x01auth=Bearer {password}\x01\x01"):
        assert password == "x" * len(password) or password.encode() not in scrub_token(token.encode())
