"""Hex dumps of frames."""

from __future__ import annotations

from base64 import b64decode

import pytest

from kproxy.copy_as import CannotCopyError
from kproxy.copy_as.frames import base64, hex_dump, raw_hex
from tests.kproxy.copy_as.kit import SCRAM, asked, recorded

FIND_COORDINATOR = 10


def test_a_dump_has_offsets_bytes_and_text() -> None:
    exchange = asked(FIND_COORDINATOR, 1, {"key": "grüße", "key_type": 0})
    assert hex_dump(exchange, "request", show_secrets=False).splitlines() == [
        "# request 1: FindCoordinator v1, 27 bytes",
        "00000000  00 00 00 17 00 0a 00 01  00 00 00 01 00 03 61 70  |..............ap|",
        "00000010  70 00 07 67 72 c3 bc c3  9f 65 00                 |p..gr....e.|",
    ]
    assert hex_dump(exchange, "response", show_secrets=False) == "# exchange 1 has no response\n"


def test_hex_and_base64_are_the_whole_frame() -> None:
    exchange = asked(FIND_COORDINATOR, 1, {"key": "g", "key_type": 0})
    digits = raw_hex(exchange, "request", show_secrets=False)
    assert digits == "00000011000a00010000000100036170700001670" + "0\n"
    assert b64decode(base64(exchange, "request", show_secrets=False)) == bytes.fromhex(digits)


def test_secret_bytes_are_stars_in_a_dump_and_refused_elsewhere() -> None:
    _, exchanges = recorded(SCRAM)
    said = next(each for each in exchanges if each.api == "SaslAuthenticate")
    dump = hex_dump(said, "request", show_secrets=False)
    assert "of them secret" in dump.splitlines()[0]
    assert "** ** **" in dump
    assert "n=" not in dump
    for make in (raw_hex, base64):
        with pytest.raises(CannotCopyError, match="with --show-secrets"):
            make(said, "request", show_secrets=False)
