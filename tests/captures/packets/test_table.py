"""The table of packets."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np

from captures.packets.table import PacketBlock
from tests.captures.packets import kit


def test_all_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    path.write_bytes(kit.pcap([kit.packet(kit.CLIENT, kit.BROKER, 1000, 0, kit.ACK, b"hello")]))
    [block] = kit.read(path).blocks
    arrays = [each.name for each in fields(block) if isinstance(getattr(block, each.name), np.ndarray)]
    assert list(PacketBlock.COLUMNS) == arrays
