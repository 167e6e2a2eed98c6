"""Scrubbed captures: the same exchange table, valid checksums, and no user data."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.table import COLUMNS
from captures.export.scrub.frames import FrameScrubber
from captures.packets import read_packets
from captures.packets.source import open_source
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.captures.export.files import RECORDED, SAMPLE, exported, opened
from tests.captures.packets import kit
from tests.reference import captures_dir, needs_reference

MOST_SEARCHED = 100


def batches(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "crc_valid" in value:
            yield value
        for item in value.values():
            yield from batches(item)
    elif isinstance(value, list):
        for item in value:
            yield from batches(item)


def columns(capture: Capture) -> dict[str, list]:
    """The table in order of its numbers, without columns about the file."""
    order = capture.table.order()
    names = [name for name in COLUMNS if name not in ("packet", "connection", "client_id")]
    return {name: capture.table.column(name)[order].tolist() for name in names}


def secrets_of(capture: Capture) -> set[bytes]:
    """User data and secrets that are too long to occur by chance."""
    found: set[bytes] = set()
    for exchange in ExchangeReader(capture, show_secrets=True):
        found.update(token for token in exchange.tokens if token)
        for body in (exchange.request, exchange.response):
            if body is None or body.value is None:
                continue
            found.add(body.value.get("auth_bytes") or b"")
            for batch in batches(body.value):
                for record in [] if batch["control"] else batch["records"]:
                    found.update((record["key"], record["value"]))
    return {text for text in found if text and len(text.replace(b"\0", b"")) >= 8}


def check(path: Path, out: Path, *, synthetic: bool) -> int:
    """Scrub a capture, compare, and return the number of records."""
    capture = opened(path)
    exported(capture, out, scrub=True, synthetic=synthetic)
    again, records = opened(out), 0
    assert columns(again) == columns(capture)
    readers = (ExchangeReader(one, show_secrets=True) for one in (capture, again))
    plain = [out.read_bytes()]
    for before, after in zip(*readers, strict=True):
        assert (after.api, after.client_id) == (before.api, before.client_id)
        for was, now in ((before.request, after.request), (before.response, after.response)):
            if was is None or now is None:
                continue
            plain.append(now.raw)
            for old, new in zip(batches(was.value), batches(now.value), strict=True):
                assert new["crc_valid"] == old["crc_valid"]
                assert [r["offset"] for r in new["records"]] == [r["offset"] for r in old["records"]]
                if not new["control"]:
                    records += len(new["records"])
                    for now_is, it_was in zip(new["records"], old["records"], strict=True):
                        for name in ("key", "value"):
                            text = it_was[name]
                            assert now_is[name] == (None if text is None else b"x" * len(text))
    everything = b"\0\0".join(plain)
    searched = sorted(secrets_of(capture), key=len)[-MOST_SEARCHED:]
    assert [text for text in searched if text in everything and text.strip(b"x")] == []
    return records


@pytest.mark.sample(4)
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
@pytest.mark.parametrize("synthetic", [False, True], ids=["original", "synthetic"])
def test_recorded(path: Path, synthetic: bool, tmp_path: Path) -> None:
    check(path, tmp_path / "out.pcapng", synthetic=synthetic)


@needs_reference
@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["20_*.pcap", "01_*.pcap"])
def test_every_client_broker_and_codec(pattern: str, tmp_path: Path) -> None:
    paths = sorted(captures_dir().glob(pattern))
    records = sum(check(path, tmp_path / "out.pcapng", synthetic=False) for path in paths)
    assert records > 5_000


def conversation(*segments: tuple[int, bytes]) -> list[bytes]:
    """A handshake, then the client's segments by stream position."""
    c, b = kit.CLIENT, kit.BROKER
    frames = [kit.packet(c, b, 99, 0, kit.SYN), kit.packet(b, c, 0, 100, kit.SYN | kit.ACK)]
    return [*frames, *(kit.packet(c, b, 100 + at, 1, kit.ACK, data) for at, data in segments)]


def produce() -> bytes:
    """A Produce v3 request (ProduceRequest.json) with one record."""
    batch = build_batch([Record(0, 0, b"key-of-Ada", b"Ada Lovelace, London", (("who", b"Ada herself"),))])
    topic = b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + len(batch).to_bytes(4) + batch
    body = b"\xff\xff\xff\xff\0\0\x03\xe8" + topic  # no transactional ID, acks -1, timeout; then the topics
    body = b"\xff\xff\xff\xff\0\0\x03\xe8"[0:2] + b"\xff\xff\0\0\x03\xe8" + topic
    frame = b"\0\0\0\3\0\0\0\7\0\1c" + body
    return len(frame).to_bytes(4) + frame


def test_bytes_that_were_sent_again_are_blanked_again(tmp_path: Path) -> None:
    request = produce()
    half = len(request) // 2
    frames = conversation((0, request), (0, request), (half, request[half:]), (0, request[: half + 20]))
    path, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    path.write_bytes(kit.pcap([kit.Record(frame, kit.T0 + n) for n, frame in enumerate(frames)]))
    capture = opened(path)
    assert len(capture.table) == 1
    assert path.read_bytes().count(b"Ada Lovelace") == 3
    exported(capture, out, scrub=True)
    data = out.read_bytes()
    assert b"Ada" not in data
    payloads = [
        block.source.read(int(offset), int(size))
        for block in read_packets(open_source(out))
        for offset, size in zip(block.offset, block.captured, strict=True)
        if size
    ]
    blanked = payloads[0]
    assert payloads == [blanked, blanked, blanked[half:], blanked[: half + 20]]


def test_what_belongs_to_no_frame_is_zeroed(tmp_path: Path) -> None:
    request = produce()
    frames = conversation(
        (0, request), (len(request), request[:-40])
    )  # the capture ends inside the second one
    path, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    # Ethernet padding and bytes after it do not belong to the connection, and are arbitrary
    path.write_bytes(
        kit.pcap([kit.Record(frame + b"Ada in the padding", kit.T0 + n) for n, frame in enumerate(frames)])
    )
    capture = opened(path)
    writer = exported(capture, out, scrub=True)
    assert b"Ada" not in out.read_bytes()
    assert columns(opened(out)) == columns(capture)
    assert any("could not be decoded" in note for note in writer.notes)


@pytest.mark.slow
def test_checksums_are_right_where_they_were(tmp_path: Path) -> None:
    from captures.export.checksum import tcp_checksum

    made, out, again = tmp_path / "made.pcapng", tmp_path / "out.pcapng", tmp_path / "again.pcapng"
    exported(opened(SAMPLE), made, synthetic=True)  # whose checksums are right
    exported(opened(made), out, scrub=True)
    wrong = 0
    for block in read_packets(open_source(out)):
        for at in range(len(block)):
            end = int(block.offset[at] + block.length[at])
            segment = bytearray(
                block.source.read(end - int(block.length[at]) - 20, int(block.length[at]) + 20)
            )
            if block.flags[at] & 2:
                continue  # a SYN has options: its header is longer
            segment[16:18], found = b"\0\0", int.from_bytes(segment[16:18])
            ends = (block.addresses.address(int(end)) for end in (block.src[at], block.dst[at]))
            wrong += tcp_checksum(*ends, bytes(segment)) != found
    assert wrong == 0
    exported(
        opened(SAMPLE), again, scrub=True
    )  # recorded on the sending host: the network card never computed them
    headers = [np.concatenate([block.seq for block in read_packets(open_source(p))]) for p in (SAMPLE, again)]
    assert np.array_equal(*headers)


def scrubbed(frames: list[bytes], tmp_path: Path) -> tuple[bytes, list[str]]:
    """Export packets unchanged, scrub them, and return the file and its notes."""
    path, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    path.write_bytes(kit.pcap([kit.Record(frame, kit.T0 + n) for n, frame in enumerate(frames)]))
    writer = exported(opened(path), out, scrub=True)
    return out.read_bytes(), writer.notes


def test_what_a_frame_announces_costs_nothing(tmp_path: Path) -> None:
    announced = (50 << 20).to_bytes(4) + produce()[4:]
    tracemalloc.start()
    try:
        data, _ = scrubbed(conversation((0, produce()), (len(produce()), announced)), tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert b"Ada" not in data
    assert peak < 25 << 20


def test_what_cannot_be_scrubbed_is_blanked_whole_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> bytes:
        raise IndexError("in a frame")

    monkeypatch.setattr(FrameScrubber, "request", broken)
    data, notes = scrubbed(conversation((0, produce())), tmp_path)
    assert b"Ada" not in data
    assert any(
        note == "1 frames or packets could not be scrubbed and were blanked whole: "
        "exchange 1, request: IndexError: in a frame"
        for note in notes
    )


@pytest.mark.parametrize("cut", range(1, 70, 4))
def test_packets_that_end_inside_their_headers(cut: int, tmp_path: Path) -> None:
    frames = conversation((0, produce()), (0, produce()))
    path, out = tmp_path / "in.pcap", tmp_path / "out.pcapng"
    records = [kit.Record(frame, kit.T0 + n) for n, frame in enumerate(frames)]
    records[-1] = kit.Record(frames[-1][:cut], kit.T0 + 9, len(frames[-1]))
    path.write_bytes(kit.pcap(records))
    writer = exported(opened(path), out, scrub=True)
    assert b"Ada" not in out.read_bytes()
    assert not any("blanked whole" in note for note in writer.notes)
