"""The headers of the packets between some endpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.packets import ACK, CaptureError, joined_reader, open_source
from captures.packets.header_scan import Headers, headers_between
from captures.packets.source import Source
from tests.captures.packets.kit import BROKER6, CLIENT6, MS, T0, Conversation, Endpoint, pcap

SECOND = 1_000_000_000
CLIENT, OTHER, BROKER = ("10.0.0.1", 40000), ("10.0.0.1", 40001), ("10.0.0.2", 9092)
ENDS = ("10.0.0.1:40000", "10.0.0.2:9092")
BACK = ("10.0.0.2:9092", "10.0.0.1:40000")


def talk(client: Endpoint = CLIENT, broker: Endpoint = BROKER, *, seconds: int = 5) -> Conversation:
    """Each second a request of 10 bytes, 1 ms later its response of 4, 1 ms later an acknowledgment."""
    made = Conversation(client=client, broker=broker)
    for second in range(seconds):
        made.now = T0 + second * SECOND - MS
        made.send(second * 10, b"x" * 10, ack=second * 4)
        made.send(second * 4, b"y" * 4, ack=second * 10 + 10, from_client=False)
        made.acknowledge(second * 4 + 4, from_client=True, position=second * 10 + 10)
    return made


def written(folder: Path, *talks: Conversation) -> Source:
    path = folder / "capture.pcap"
    records = sorted((record for each in talks for record in each.records), key=lambda each: each.time)
    path.write_bytes(pcap(list(records)))
    return open_source(str(path))


def test_both_directions_with_what_carries_nothing(tmp_path: Path) -> None:
    found = headers_between(written(tmp_path, talk(), talk(OTHER)), [ENDS, BACK], 0, T0 + 9 * SECOND)
    sent, came = found[ENDS], found[BACK]
    assert sent.length.tolist() == [10, 0] * 5
    assert came.length.tolist() == [4] * 5
    assert came.ack.tolist() == [1000 + 1 + 10 * n for n in range(1, 6)]
    assert sent.seq.tolist()[:3] == [1001, 1011, 1011]
    assert all(flags & ACK for flags in sent.flags.tolist())


def test_only_those_of_the_time(tmp_path: Path) -> None:
    found = headers_between(written(tmp_path, talk()), [BACK], T0 + 1 * SECOND, T0 + 3 * SECOND)
    assert [(time - T0) // SECOND for time in found[BACK].time.tolist()] == [1, 2]
    assert set(found) == {BACK}


def test_small_blocks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path, talk(seconds=50), talk(OTHER, seconds=50))
    whole = headers_between(source, [ENDS], 0, 1 << 62)[ENDS]
    from captures.packets import header_scan

    monkeypatch.setattr(header_scan, "read_packets", lambda each: joined_reader.read_packets(each, 300))
    parts = headers_between(source, [ENDS], 0, 1 << 62)[ENDS]
    assert len(whole) == 100
    assert parts.time.tolist() == whole.time.tolist()
    assert parts.seq.tolist() == whole.seq.tolist()


def test_ipv6(tmp_path: Path) -> None:
    ends = (f"[{CLIENT6[0]}]:{CLIENT6[1]}", f"[{BROKER6[0]}]:{BROKER6[1]}")
    assert len(headers_between(written(tmp_path, talk(CLIENT6, BROKER6)), [ends], 0, 1 << 62)[ends]) == 10


def test_ends_that_are_not_there_have_no_headers(tmp_path: Path) -> None:
    source = written(tmp_path, talk())
    assert headers_between(source, [("1.2.3.4:5", "10.0.0.2:9092")], 0, 1 << 62) == {}
    assert headers_between(source, [], 0, 1 << 62) == {}


def test_what_is_no_capture_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no capture")
    with pytest.raises(CaptureError):
        headers_between(open_source(str(tmp_path / "x")), [ENDS], 0, 1)


def test_within_takes_both_bounds_in(tmp_path: Path) -> None:
    found = headers_between(written(tmp_path, talk()), [ENDS], 0, 1 << 62)[ENDS]
    assert len(found.within(T0 + SECOND, T0 + 2 * SECOND)) == 3
    assert len(Headers.none().within(0, 1 << 62)) == 0
