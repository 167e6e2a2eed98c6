"""Names in certificates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from captures.packets.tls.certificates import certificate_names
from tests.captures.packets.tls.peers import certificate_der


def test_names() -> None:
    assert certificate_names(certificate_der()) == ("broker-1", "broker-1.example", "10.0.0.2")


@given(st.data())
def test_damaged_certificates_have_what_names_can_be_read(data: st.DataObject) -> None:
    der = bytearray(certificate_der())
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    names = certificate_names(bytes(der))
    assert all(isinstance(name, str) for name in names)


def test_no_certificate() -> None:
    assert certificate_names(b"") == certificate_names(b"\x30\x03\x02\x01\x00") == ()
