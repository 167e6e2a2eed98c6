"""Frames of many exchanges read together equal those read one by one."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from captures.exchanges import Capture, open_capture
from captures.exchanges.payloads import payloads, read_frames
from captures.packets.reader import BLOCK_SIZE
from captures.packets.tls import KeyLog
from dissectors.sides import SIDES
from tests.captures.exchanges.talk import capture_of, mixed, packets, random_talk
from tests.captures.recorded import FOLDER
from tests.lanes.hostile.messages import announced_holes


def compare(capture: Capture) -> tuple[int, int]:
    """Compare both ways for all frames; return their number, and that of whole frames not read together."""
    frames = missed = 0
    for side in SIDES:
        rows = np.flatnonzero(capture.table.column(f"{side}_size") > 0)
        for row, payload in zip(rows.tolist(), payloads(capture, rows, side), strict=True):
            values = capture.table.row(row)
            frame = capture.frame(
                values["connection"], side, values[f"{side}_position"], values[f"{side}_size"]
            )
            assert frame is not None
            frames += 1
            missed += payload is None and frame.complete and bool(frame.payload)
            if payload is not None:
                assert frame.complete
                assert payload == frame.payload
    return frames, missed


def talks(folder: Path, seed: int, block_size: int = BLOCK_SIZE) -> Capture:
    rng = Random(seed)
    connections = [packets(random_talk(rng, number), rng) for number in range(8)]
    return capture_of(folder, mixed(connections, rng), block_size)


@pytest.mark.parametrize("seed", range(6))
def test_frames_cut_anywhere(tmp_path: Path, seed: int) -> None:
    frames, missed = compare(talks(tmp_path, seed))
    assert frames > 50
    assert missed == 0


def test_frames_that_lie_in_two_blocks_are_left_to_be_read_alone(tmp_path: Path) -> None:
    frames, missed = compare(talks(tmp_path, 1, block_size=8192))
    assert 0 < missed < frames / 2


@pytest.mark.parametrize(
    "name",
    [
        "09_snaplen128.pcap",
        "09_loss3pct_before_tap.pcap.zst",
        "26_k430_add_controller_controller.pcap.zst",
        "35_k282_sasl_plain.pcap.zst",
    ],
)
def test_recorded_frames(name: str) -> None:
    """Cut, lost and repeated packets, connections opened before the capture, raw tokens."""
    capture = open_capture(str(FOLDER / name))
    capture.read()
    frames, missed = compare(capture)
    assert frames
    assert missed == 0


def test_decrypted_frames() -> None:
    name = FOLDER / "24_k430_tls13_franz"
    capture = open_capture(f"{name}.pcap", keylog=KeyLog(f"{name}.keylog"))
    capture.read()
    assert capture.decryption.tls
    frames, missed = compare(capture)
    assert frames
    assert missed == 0


def test_frames_that_announce_more_than_the_capture_has_take_no_room(tmp_path: Path) -> None:
    """Two gigabytes announced, the beginning and the end captured."""
    path = tmp_path / "holes.pcap"
    path.write_bytes(b"".join(announced_holes(4)))
    capture = open_capture(str(path))
    capture.read()
    rows = np.flatnonzero(capture.table.column("response_size") > 1 << 29)
    assert len(rows)
    frames = read_frames(capture, {"response": rows}, bytearray())["response"]
    assert len(frames.data) < path.stat().st_size
    assert frames.payload(0) is None
