"""Settings that the data plane receives through a pipe, and that are never shown."""

from __future__ import annotations

import msgspec
import pytest

from kproxy.proxy.tls.security import PLAINTEXT, Identity, Sasl, Security, Tls


@pytest.mark.parametrize(
    ("security", "protocol"),
    [
        (PLAINTEXT, "PLAINTEXT"),
        (Security(tls=Tls()), "SSL"),
        (Security(sasl=Sasl("PLAIN", "alice", "hunter2")), "SASL_PLAINTEXT"),
        (
            Security(
                Tls("PEM", Identity("chain", "hunter2"), False, False, ("TLSv1.2", "TLSv1.3"), "A:B"),
                Sasl("GSSAPI"),
            ),
            "SASL_SSL",
        ),
    ],
)
def test_it_goes_through_json_and_hides_secrets(security: Security, protocol: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode(security), type=Security) == security
    assert security.protocol == protocol
    assert "hunter2" not in repr(security)
