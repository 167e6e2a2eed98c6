"""``sasl.jaas.config`` in the forms of Kafka's JaasConfigTest and its documentation."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproxy.proxy.tls.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        (f"{PLAIN} required username='alice' password='se\"cret' ;", {"username": "alice", "password": 'se"cret'}),
        (f'{PLAIN} REQUIRED\n\tuser=alice\n\tpassword="a\\"b\\\\c;=";', {"user": "alice", "password": 'a"b\\c;='}),
        (f"{PLAIN} required;", {}),
        (f'// mine\n{PLAIN} /* required */ optional a.b-c="\\t\\101\\12x";', {"a.b-c": "\tA\nx"}),
        (f'{PLAIN} required name="kafka" useKeyTab=true;  // last', {"name": "kafka", "useKeyTab": "true"}),
    ],
)  # fmt: skip
def test_a_login_module(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == (PLAIN, options)


@given(st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"])))
def test_any_password_can_be_quoted(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_jaas(f'{PLAIN} required password="{quoted}";').options == {"password": password}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a login module is expected at character 1"),
        (f'{PLAIN} username="alice";', "the control flag after .* is none of"),
        (f'{PLAIN} required username="alice"', 'an option or ";" is expected at character'),
        (f'{PLAIN} required username "alice";', '"=" and a value are expected after the option username'),
        (f'{PLAIN} required password="hunter2', "a value of password is expected at character"),
        (f"{PLAIN} required password=;", "a value of password is expected at character"),
        (f'{PLAIN} required password="a"; {PLAIN} required;', "only one login module"),
        (f"{PLAIN} required = ;", '";" is expected'),
    ],
)
def test_what_makes_no_sense_is_told_without_the_password(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as told:
        parse_jaas(text)
    assert "hunter2" not in str(told.value)


@given(st.text(alphabet="ab =\"';\\/*\n1"))
def test_nothing_else_is_raised(text: str) -> None:
    with suppress(JaasError):
        parse_jaas(f"{PLAIN} required {text}")
