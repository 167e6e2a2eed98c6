"""Numbers of the packets of exchanges."""

from __future__ import annotations

import pytest

from captures.exchanges.exchange import FrameNumbers
from captures.export import packets
from captures.export.packets import PacketFinder, frame_numbers, packet_numbers
from tests.captures.export.files import DATA, SAMPLE, opened


@pytest.mark.parametrize(
    ("name", "near"),
    [
        (SAMPLE.name, packets.BLOCK_SIZE),
        (SAMPLE.name, 1024),  # the first record is guessed
        ("09_pcapng_dumpcap.pcapng", packets.BLOCK_SIZE),
        ("32_k0102_java_snappy.pcap", 1024),
    ],
)
def test_frames_are_those_that_a_pass_over_the_file_finds(
    name: str, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "BLOCK_SIZE", near)
    capture = opened(SAMPLE if name == SAMPLE.name else DATA / name)
    finder = PacketFinder(capture)
    for row in range(1, len(capture.table), 19):
        found = frame_numbers(capture, row)
        assert found is not None
        assert found[0] == capture.table.column("packet")[row]
        # a pass over the file also finds retransmissions
        assert set(found) <= set(packet_numbers(capture, [row]))
        assert len(found) >= 2
        request, response = finder.of(row)
        assert sorted({*(request or ()), *(response or ())}) == found


def test_decrypted_bytes_are_in_no_packet_as_they_are() -> None:
    capture = opened(DATA / "tls_kcat_13.pcap")
    assert frame_numbers(capture, 0) is None
    assert PacketFinder(capture).of(0) == FrameNumbers(None, None)


def test_a_request_log_has_no_packets() -> None:
    capture = opened(DATA.parent / "request_log" / "kafka_2.7.2.log.gz")
    assert PacketFinder(capture).of(0) == FrameNumbers(None, None)


def test_packets_far_apart_are_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "_NEAR", 100)
    assert frame_numbers(opened(SAMPLE), 0) is None
