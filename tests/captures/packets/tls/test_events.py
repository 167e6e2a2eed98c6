"""Alerts in words, and the line that lists a connection."""

from __future__ import annotations

import pytest

from captures.packets.tls import Alert, TlsInfo
from dissectors.conversation import Side


@pytest.mark.parametrize(
    ("level", "code", "text"),
    [  # levels and codes: RFC 8446, section 6
        (1, 0, "warning alert close_notify from the client: the sender is done"),
        (2, 22, "fatal alert record_overflow from the client"),
        (2, 199, "fatal alert alert 199 from the client"),
        (7, 80, "level 7 alert internal_error from the client"),
    ],
)
def test_text(level: int, code: int, text: str) -> None:
    assert Alert(Side.CLIENT, 0, 7, level, code).text == text


def test_nothing_known() -> None:
    assert TlsInfo().summary() == "TLS"


def test_everything_known() -> None:
    info = TlsInfo(
        version="TLS 1.3",
        suite="TLS_AES_128_GCM_SHA256",
        server_name="broker-1",
        offered_alpn=("kafka", "h2"),
        alpn="kafka",
        certificate=("broker-1", "10.0.0.2"),
        client_certificate=("user",),
        resumed=True,
        early_data=True,
        records=5,
        reason="it broke",
    )
    info.add_alert(Alert(Side.BROKER, 0, 7, 2, 80))
    info.add_alert(Alert(Side.CLIENT, 0, 7, 1, 0))
    assert info.summary() == (
        "TLS 1.3, TLS_AES_128_GCM_SHA256, SNI broker-1, ALPN kafka, certificate broker-1 10.0.0.2, "
        "client certificate user, resumed, early data, fatal alert internal_error from the broker, "
        "decryption stopped: it broke"
    )


def test_bounds() -> None:
    info = TlsInfo()
    for number in range(100):
        info.note(f"note {number % 50}")
        info.add_alert(Alert(Side.CLIENT, number, number + 7, 1, 0))
    assert info.notes == [f"note {number}" for number in range(16)]
    assert len(info.alerts) == 16
