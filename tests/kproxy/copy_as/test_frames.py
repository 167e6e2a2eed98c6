"""The bytes of frames, and their secret ranges."""

from __future__ import annotations

import pytest

from captures.exchanges import ExchangeReader, open_capture
from kproxy.copy_as import CannotCopyError
from kproxy.copy_as.frames import complete_frame, frame, open_frame
from tests.kproxy.copy_as.kit import DATA, SCRAM, asked, recorded

SECRET = "0123456789abcdef"
INCREMENTAL_ALTER_CONFIGS = 44
CHANGES = {
    "resources": [
        {
            "resource_type": 4,
            "resource_name": "1",
            "configs": [
                {"name": "ssl.keystore.password", "config_operation": 0, "value": SECRET},
                {"name": "log.retention.ms", "config_operation": 0, "value": "1000"},
            ],
        }
    ],
    "validate_only": False,
}


def test_a_masked_value_is_hidden_and_nothing_else() -> None:
    exchange = asked(INCREMENTAL_ALTER_CONFIGS, 1, CHANGES)
    found = frame(exchange, "request", show_secrets=False)
    assert found is not None
    ((begin, end),) = found.hidden
    assert found.data[begin:end].endswith(SECRET.encode())
    assert end - begin == len(SECRET) + 1  # its length
    assert len(found.data) == found.size == exchange.request_size


def test_nothing_is_hidden_where_secrets_are_shown() -> None:
    _, exchanges = recorded(SCRAM, show_secrets=True)
    for exchange in exchanges:
        found = frame(exchange, "request", show_secrets=True)
        assert found is not None
        assert found.hidden == ()


def test_no_frame_of_a_login_shows_its_token() -> None:
    tokens = [
        each.request.value["auth_bytes"]
        for each in recorded(SCRAM, show_secrets=True)[1]
        if each.api == "SaslAuthenticate" and each.request is not None and each.request.value is not None
    ]
    assert tokens
    _, exchanges = recorded(SCRAM)
    for exchange in exchanges:
        found = frame(exchange, "request", show_secrets=False)
        assert found is not None
        shown = bytearray(found.data)
        for begin, end in found.hidden:
            shown[begin:end] = bytes(end - begin)
        assert not any(token in shown for token in tokens)


def test_a_frame_that_was_not_read_to_its_end_hides_what_may_be_secret() -> None:
    exchange = asked(INCREMENTAL_ALTER_CONFIGS, 1, CHANGES)
    body = exchange.request
    assert body is not None
    body.raw = body.raw[: len(body.raw) // 2]
    body.value = None
    exchange.annotations.masked[:] = ["request.undecoded"]
    found = frame(exchange, "request", show_secrets=False)
    assert found is not None
    assert found.hidden == ((body.start, len(found.data)),)
    with pytest.raises(CannotCopyError, match="secrets"):
        open_frame(exchange, "request", show_secrets=False)
    with pytest.raises(CannotCopyError, match="were not captured"):
        complete_frame(exchange, "request", show_secrets=True)


def test_raw_tokens_are_hidden_as_a_whole() -> None:
    _, exchanges = recorded(DATA / "35_k282_sasl_plain.pcap.zst")
    tokens = [each for each in exchanges if each.tokens[0] is not None]
    assert tokens
    for exchange in tokens:
        found = frame(exchange, "request", show_secrets=False)
        assert found is not None
        assert found.hidden == ((4, len(found.data)),)


def test_a_frame_that_is_not_there_is_none() -> None:
    exchange = asked(INCREMENTAL_ALTER_CONFIGS, 1, CHANGES)
    assert frame(exchange, "response", show_secrets=True) is None
    with pytest.raises(CannotCopyError, match="exchange 1 has no response"):
        open_frame(exchange, "response", show_secrets=True)


def test_records_that_were_not_to_be_read_are_hidden() -> None:
    capture = open_capture(str(DATA / "20_k430_ck_zstd.pcap"))
    capture.read()
    for payload, expected in (("none", True), ("full", False)):
        reader = ExchangeReader(capture, payload=payload)  # type: ignore[arg-type]
        produce = next(each for each in reader if each.api == "Produce")
        found = frame(produce, "request", show_secrets=False)
        assert found is not None
        assert bool(found.hidden) is expected
