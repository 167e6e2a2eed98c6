"""Software and identities, from ApiVersions and SASL."""

from __future__ import annotations

import pytest

from captures.analysis.client_identity import Introduction, Introductions, connection_key
from captures.exchanges import Exchange, Flag
from dissectors.annotate import Annotations
from tests.captures.analysis.kit import error, exchange

PLAIN = b"\0alice\0secret"  # RFC 4616: authzid, authcid, password
SCRAM_FIRST = b"n,,n=bob,r=fyko+d2lbbFgONRv9qkxdawL"  # RFC 7677, section 3, with another user


def introduced(*exchanges: Exchange) -> Introduction:
    stats = Introductions()
    for each in exchanges:
        stats.add(each)
    return stats.of(connection_key(exchanges[0]))


def handshake(mechanism: str = "PLAIN", **fields) -> Exchange:
    return exchange(17, 1, request={"mechanism": mechanism}, response={"error_code": 0}, **fields)


def authenticate(token: bytes | None, **fields) -> Exchange:
    return exchange(36, 2, request={"auth_bytes": token}, response={"error_code": 0}, **fields)


@pytest.mark.parametrize(
    ("request_", "software"),
    [
        ({"client_software_name": "librdkafka", "client_software_version": "2.16.0"}, "librdkafka 2.16.0"),
        ({"client_software_name": "unnamed", "client_software_version": ""}, "unnamed"),
        ({}, None),  # before v3 there is no software name
    ],
)
def test_software(request_: dict, software: str | None) -> None:
    assert introduced(exchange(18, 3, request=request_)).software == software


def test_who_authenticates_and_that_it_worked() -> None:
    found = introduced(handshake(), authenticate(PLAIN), exchange(3, 12, response={}))
    assert (found.mechanism, found.principal, found.authenticated) == ("PLAIN", "alice", True)
    assert found.authentications == 1


def test_the_outcome_is_open_until_something_else_is_answered() -> None:
    assert introduced(handshake("SCRAM-SHA-256"), authenticate(SCRAM_FIRST)).authenticated is None


def test_a_refusal_has_its_error() -> None:
    found = introduced(handshake(), authenticate(PLAIN, errors=[error(58)]))
    assert (found.authenticated, found.refusal) == (False, "SASL_AUTHENTICATION_FAILED")


def test_a_mechanism_that_is_not_offered_is_a_refusal() -> None:
    assert introduced(handshake("GSSAPI", errors=[error(33)])).refusal == "UNSUPPORTED_SASL_MECHANISM"


def test_re_authentication_is_counted() -> None:
    once = [handshake(), authenticate(PLAIN), exchange(3, 12)]
    assert introduced(*once, *once).authentications == 2


def test_raw_tokens_without_a_handshake() -> None:
    raw = exchange(None, None, flag=Flag.SASL_TOKEN, tokens=[PLAIN, b""], client_id=None)
    found = introduced(raw, exchange(3, 0))
    assert (found.mechanism, found.principal, found.authenticated) == ("PLAIN", "alice", True)


def test_masked_tokens_are_read_by_what_stands_beside_them() -> None:
    said = Annotations(decoded={"request.auth_bytes": {"mechanism": "PLAIN", "authcid": "alice"}})
    assert introduced(handshake(), authenticate(None, annotations=said)).principal == "alice"


def test_connections_do_not_mix() -> None:
    stats = Introductions()
    stats.add(handshake())
    other = exchange(3, 12, connection=1, client="10.0.0.9:4001")
    stats.add(other)
    assert stats.of(connection_key(other)) == Introduction()
