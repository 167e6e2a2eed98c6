"""Damaged captures: only CaptureError, no hang, and all data before the damage."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.packets import CaptureError
from tests.captures.packets.kit import (
    Conversation,
    enhanced,
    interface,
    limited,
    option,
    pcap,
    read_bytes,
    section,
)
from tests.captures.packets.test_network import TUNNELS, fragments
from tests.captures.packets.test_network import WHOLE as HEADERS


def frames() -> list[bytes]:
    talk = Conversation()
    talk.handshake()
    for low in (0, 50, 150, 100, 120, 300):
        talk.send(low, bytes(range(50)))
    parts = fragments(talk.records[3].frame[34:], [24, 16, 30], 4) + fragments(
        talk.records[4].frame[34:], [40, 30], 6
    )
    return [record.frame for record in talk.records] + list(TUNNELS.values()) + list(HEADERS.values()) + parts


FRAMES = frames()
FILES = {
    "pcap": pcap(list(FRAMES)),
    "pcap big-endian": pcap(list(FRAMES), order=">", nano=True),
    "pcapng": section()
    + interface(1, option(9, b"\x09"))
    + b"".join(enhanced(frame, n, 0, option(1, b"comment")) for n, frame in enumerate(FRAMES))
    + section(">")
    + interface(order=">")
    + enhanced(FRAMES[0], 5, order=">"),
}


@pytest.mark.slow
@given(st.sampled_from(sorted(FILES)), st.randoms(use_true_random=False), st.integers(1, 12), st.booleans())
@settings(deadline=2000, max_examples=200)
def test_mutated_files(
    tmp_path_factory: pytest.TempPathFactory, name: str, chance: random.Random, changes: int, small: bool
) -> None:
    data = bytearray(FILES[name])
    for _ in range(changes):
        place = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[place : place + 4] = chance.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
        elif kind == 2:
            del data[place : place + chance.randrange(1, 40)]
        else:
            data[place:place] = data[place // 2 : place // 2 + chance.randrange(1, 60)]
    try:
        got = read_bytes(tmp_path_factory.getbasetemp(), bytes(data), 300 if small else 1 << 20)
    except CaptureError:
        return
    for stream in range(len(got.assembler.connections.streams)):
        got.stream(stream)
    for index in range(len(got.assembler.connections)):
        assert got.assembler.connections[index].closed


@pytest.mark.slow
@given(st.sampled_from(sorted(FILES)), st.data())
@settings(deadline=2000)
def test_a_cut_file_gives_all_whole_packets(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    whole = FILES[name]
    cut = data.draw(st.integers(200, len(whole)))
    got = read_bytes(tmp_path_factory.getbasetemp(), whole[:cut], 300)
    every = read_bytes(tmp_path_factory.getbasetemp(), whole).column("seq").tolist()
    seen = got.column("seq").tolist()
    assert seen == every[: len(seen)]
    assert got.reader.statistics.packets <= len(FRAMES) + 1
    assert bool(got.reader.statistics.damage) or got.reader.statistics.packets * 60 <= cut


@given(st.binary(max_size=300), st.sampled_from([b"", FILES["pcap"][:24], FILES["pcapng"][:60]]))
@settings(deadline=2000)
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, noise: bytes, head: bytes) -> None:
    try:
        got = read_bytes(tmp_path_factory.getbasetemp(), head + noise)
    except CaptureError:
        assert not head
    else:
        assert got.reader.statistics.packets <= len(noise) // 12


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FILES))
def test_what_is_found_behind_damage_does_not_depend_on_the_blocks(tmp_path: Path, name: str) -> None:
    """Two damaged records with few records between them, and the end of a block anywhere: found by fuzzing."""
    whole = FILES[name]
    starts = [
        whole.index(frame) - (16 if "pcap" in name and "ng" not in name else 28) for frame in FRAMES[:9]
    ]
    for first, second in ((0, 1), (1, 4), (2, 4), (5, 8)):
        data = bytearray(whole)
        for start in (starts[first], starts[second]):
            at = start + (4 if "ng" in name else 8)
            data[at : at + 4] = b"\x7f\xff\xff\xff"
        expected = read_bytes(tmp_path, bytes(data))
        assert len(expected.reader.statistics.damage) in (1, 2)
        for block_size in (256, 300, 450, 700, 1000):
            got = read_bytes(tmp_path, bytes(data), block_size)
            assert got.column("offset").tolist() == expected.column("offset").tolist(), block_size
            assert got.reader.statistics == expected.reader.statistics


def test_a_large_file_of_nonsense_takes_linear_time(tmp_path: Path) -> None:
    head = section() + interface()
    noise = (b"\x06\0\0\0\x20\0\0\0" + bytes(20)) * 200_000  # 5.6 MB of blocks that end wrong
    got = read_bytes(tmp_path, head + noise + enhanced(FRAMES[0], 1))
    assert got.reader.statistics.packets >= 0


def test_reading_ends_behind_so_many_damaged_places(tmp_path: Path) -> None:
    good = pcap([FRAMES[0]] * 4)
    data = good + (b"\xff" * 40 + good[24:]) * 5
    assert len(read_bytes(tmp_path, data).reader.statistics.damage) == 5
    with limited(file_damage=3):
        statistics = read_bytes(tmp_path, data).reader.statistics
    assert statistics.packets == 4 * 4
    assert [damage.skipped for damage in statistics.damage] == [40, 40, 40, 0]
    assert statistics.damage[-1].reason == (
        "stopped here: damaged place 4 would go over the limit file_damage (3 objects)"
    )
