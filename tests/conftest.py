"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data" / "captures"


@pytest.fixture
def recorded_scram() -> Path:
    """A consumer that authenticates by SCRAM-SHA-256 in SaslAuthenticate (recorded against Kafka 4.3.0)."""
    return DATA / "24_k430_franz_scramsha256.pcap"


@pytest.fixture
def recorded_garbage() -> Path:
    """HTTP, random bytes and impossible sizes sent to a Kafka port."""
    return DATA / "06_tansu_garbage.pcap"
