"""Every kind of client in ``docs/tls.md``: its traffic is decrypted to the last byte with its key log.

Recorded by ``python -m tests.lanes.tls --record``, which keeps only recordings that tshark reads alike, and
``python -m tests.lanes.tls_attach --record``.
"""

from __future__ import annotations

import json

import pytest

from captures.packets.tls import KeyLog
from tests.lanes import tls_attach
from tests.lanes.decrypted import decrypted
from tests.lanes.tls import CAPTURES, CLIENTS, EXPECTED, LISTENERS, RECORDS

RECORDED = json.loads(EXPECTED.read_text())


@pytest.mark.sample(11)
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_client(name: str) -> None:
    keylog = KeyLog(CAPTURES / f"{name}.keylog")
    assert keylog.ignored == 0
    found = decrypted(CAPTURES / f"{name}.pcap", keylog)
    assert found.fault(RECORDS) == ""
    expected = RECORDED[name]
    assert found.connections == expected["connections"]
    assert (found.requests, found.responses) == (expected["requests"], expected["responses"])


@pytest.mark.parametrize("name", RECORDED)
def test_without_its_key_log_nothing_is_read(name: str) -> None:
    found = decrypted(CAPTURES / f"{name}.pcap", None)
    assert (found.requests, found.responses) == (0, 0)
    assert len(found.opaque) == found.connections == RECORDED[name]["connections"]


@pytest.mark.parametrize("name", ["tls_attach_12", "tls_attach_13"])
def test_an_agent_that_was_attached_later(name: str) -> None:
    """Earlier connections stay opaque, with the reason; later ones are read."""
    found = decrypted(CAPTURES / f"{name}.pcap", KeyLog(CAPTURES / f"{name}.keylog"))
    assert tls_attach.fault(found) == ""


def test_every_client_is_recorded() -> None:
    assert set(RECORDED) == {
        f"tls_{name.replace('-', '_')}_{listener[-2:]}"
        for name, client in CLIENTS.items()
        for listener in client.listeners
    }
    assert set(LISTENERS) == {"TLS12", "TLS13"}
