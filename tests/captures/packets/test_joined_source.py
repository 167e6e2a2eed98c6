"""Several files read as one capture."""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import subprocess
from pathlib import Path
from random import Random

import numpy as np
import pytest

from captures.packets import JoinedReader, PacketBlock, joined_source, open_files, read_packets
from captures.packets.errors import SpoolDropped
from tests.captures.packets import kit
from tests.captures.packets.test_network import fragments


def tcp_record(position: int, payload: bytes, at: int) -> kit.Record:
    """A packet of the client, `at` ms after the first."""
    frame = kit.packet(kit.CLIENT, kit.BROKER, 1000 + position, 1, kit.ACK, payload)
    return kit.Record(frame, kit.T0 + at * kit.MS)


def udp_record(at: int) -> kit.Record:
    frame = kit.ethernet(kit.ipv4("10.0.0.1", "10.0.0.2", bytes(20), 17))
    return kit.Record(frame, kit.T0 + at * kit.MS)


def written(folder: Path, files: list[list[kit.Record]]) -> list[str]:
    paths = [folder / f"{number}.pcap" for number in range(len(files))]
    for path, records in zip(paths, files, strict=True):
        path.write_bytes(kit.pcap(list(records)))
    return [str(path) for path in paths]


def read(*paths: Path | str, block_size: int = 1 << 22) -> tuple[JoinedReader, list[PacketBlock]]:
    reader = read_packets(open_files([str(path) for path in paths]), block_size)
    assert isinstance(reader, JoinedReader)
    blocks = list(reader)
    statistics = reader.statistics
    assert statistics.packets == statistics.tcp + statistics.not_tcp.total() + statistics.fragments_waiting
    assert reader.done == reader.source.expected or reader.source.live or statistics.damage
    return reader, blocks


def column(blocks: list[PacketBlock], name: str) -> list[int]:
    return [value for block in blocks for value in getattr(block, name).tolist()]


def payloads(blocks: list[PacketBlock]) -> list[bytes]:
    """The payload of each packet, in memory and from the source: both must be the same."""
    found = []
    for block in blocks:
        for offset, size in zip(block.offset.tolist(), block.captured.tolist(), strict=True):
            found.append(block.bytes_at(offset, size))
            assert block.source.read(offset, size) == found[-1]
    return found


def test_files_that_follow_each_other_are_numbered_through(tmp_path: Path) -> None:
    first = [tcp_record(0, b"one", 0), udp_record(1), tcp_record(3, b"two", 2), udp_record(3)]
    second = [udp_record(4), tcp_record(6, b"three", 5)]
    _, blocks = read(*reversed(written(tmp_path, [first, second])))
    assert column(blocks, "number") == [1, 3, 6]
    assert payloads(blocks) == [b"one", b"two", b"three"]


def test_blocks_of_one_file_are_handed_on_as_they_are(tmp_path: Path) -> None:
    files = [[tcp_record(i, b"x" * 100, i) for i in range(start, start + 100)] for start in (0, 100)]
    reader, blocks = read(*written(tmp_path, files), block_size=4000)
    assert all(len(block.windows) == 1 for block in blocks)
    assert len(blocks) == pytest.approx(reader.done / 4000, abs=4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("block_size", [300, 1000, 1 << 22])
@pytest.mark.parametrize("seed", range(4))
def test_overlapping_files_are_merged_by_time(seed: int, block_size: int, tmp_path: Path) -> None:
    rng = Random(seed)
    whole = [udp_record(at) if rng.random() < 0.3 else tcp_record(at, b"%d" % at, at) for at in range(300)]
    files: list[list[kit.Record]] = [[] for _ in range(5)]
    for at, record in enumerate(whole):  # two throughout, the others one after the other
        files[rng.choice((0, 1, 2 + at // 100))].append(record)
    _, blocks = read(*written(tmp_path, files), block_size=block_size)
    times = [record.time for record in whole if len(record.frame) != len(udp_record(0).frame)]
    assert column(blocks, "time") == times
    assert payloads(blocks) == [b"%d" % ((time - kit.T0) // kit.MS) for time in times]
    numbers = column(blocks, "number")
    assert numbers == sorted(set(numbers))
    assert numbers[-1] <= 300
    # the contents of blocks depend on their size; numbers do not
    _, again = read(*written(tmp_path, files), block_size=2000)
    assert column(again, "number") == numbers


def test_a_clock_set_back_does_not_change_the_order_of_a_file(tmp_path: Path) -> None:
    stepping = [tcp_record(n, b"%d" % n, at) for n, at in enumerate((0, 10, 20, 3, 4, 30))]
    steady = [tcp_record(100 + n, b"s%d" % n, at) for n, at in enumerate((1, 5, 15, 25))]
    _, blocks = read(*written(tmp_path, [stepping, steady]))
    assert payloads(blocks) == [b"0", b"s0", b"s1", b"1", b"s2", b"2", b"3", b"4", b"s3", b"5"]


def test_frames_of_one_datagram_may_be_in_two_files(tmp_path: Path) -> None:
    segment = kit.tcp(40000, 9092, 1, 1, kit.ACK, b"Kafka" * 60)
    parts = [
        kit.Record(part, kit.T0 + n)
        for n, part in enumerate(fragments(segment, [104, len(segment) - 104], 4))
    ]
    reader, blocks = read(*written(tmp_path, [[parts[0]], [parts[1]]]))
    assert payloads(blocks) == [b"Kafka" * 60]
    assert reader.statistics.fragments_waiting == 0


def test_comments_stay_with_their_packets(tmp_path: Path) -> None:
    def commented(at: int, text: str, *, udp: bool = False) -> bytes:
        record = udp_record(at) if udp else tcp_record(at, b"x", at)
        return kit.enhanced(record.frame, record.time // 1000, 0, kit.option(1, text.encode()))

    files = [
        [commented(0, "a"), commented(2, "b", udp=True), commented(4, "c"), commented(9, "last", udp=True)],
        [commented(1, "d"), commented(3, "e", udp=True), commented(5, "f"), commented(6, "g")],
    ]
    for number, blocks in enumerate(files):
        (tmp_path / f"{number}.pcapng").write_bytes(kit.section() + kit.interface() + b"".join(blocks))
    for block_size in (300, 1 << 22):
        _, read_blocks = read(tmp_path, block_size=block_size)
        comments = {number: text for block in read_blocks for number, text in block.comments.items()}
        assert [text for _, text in sorted(comments.items())] == ["a", "d", "b", "c", "last", "e", "f", "g"]
        numbers = column(read_blocks, "number")
        assert [comments[number] for number in numbers] == ["a", "d", "c", "f", "g"]


def test_interfaces_are_numbered_over_all_files(tmp_path: Path) -> None:
    def file(name: str, link_name: bytes, *times: int) -> None:
        records = [tcp_record(at, b"x", at) for at in times]
        packets = b"".join(kit.enhanced(record.frame, record.time // 1000) for record in records)
        declared = kit.interface(1, kit.option(2, link_name))
        (tmp_path / name).write_bytes(kit.section() + declared + packets)

    file("a0", b"eth0", 0, 2)
    file("b", b"eth0", 1, 6)  # another host, at the same time
    file("a1", b"eth0", 3, 4)  # continues where a0 ended
    file("c", b"eth1", 7)
    reader, blocks = read(tmp_path)
    assert column(blocks, "interface") == [0, 1, 0, 0, 0, 1, 2]
    assert [interface.name for interface in reader.interfaces] == ["eth0", "eth0", "eth1"]


def test_damage_names_the_file_and_the_place_in_it(tmp_path: Path) -> None:
    first, second = written(
        tmp_path, [[tcp_record(n, b"x" * 50, n + 10 * f) for n in range(9)] for f in (0, 1)]
    )
    size = Path(second).stat().st_size
    os.truncate(second, size - 10)
    reader, blocks = read(first, second)
    (damage,) = reader.statistics.damage
    assert damage.path == second
    assert 24 < damage.offset < size
    assert len(column(blocks, "number")) == 17


def test_a_file_that_was_replaced_meanwhile_is_not_taken_for_itself(tmp_path: Path) -> None:
    first, second = written(tmp_path, [[tcp_record(0, b"one", 0)], [tcp_record(3, b"two", 1)]])
    source = open_files([first, second])
    (tmp_path / "new").write_bytes(kit.pcap([tcp_record(9, b"new", 9)] * 9))
    (tmp_path / "new").replace(second)
    assert payloads(list(read_packets(source))) == [b"one"]
    (error,) = source.unreadable
    assert error.path == second
    assert "another file replaced it" in error.reason


def test_compressed_files_among_others(tmp_path: Path) -> None:
    first, second = written(tmp_path, [[tcp_record(0, b"one", 0)], [tcp_record(3, b"two", 1)]])
    Path(first).write_bytes(gzip.compress(Path(first).read_bytes()))
    _, blocks = read(first, second)
    assert payloads(blocks) == [b"one", b"two"]


def test_a_named_pipe_among_others(tmp_path: Path) -> None:
    (first,) = written(tmp_path, [[tcp_record(0, b"one", 0)]])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = subprocess.Popen(["sh", "-c", 'cat > "$0"', str(pipe)], stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(kit.pcap([tcp_record(3, b"two", 1)]))
    writer.stdin.close()
    _, blocks = read(pipe, first)
    assert writer.wait() == 0
    assert payloads(blocks) == [b"one", b"two"]


@pytest.mark.slow
def test_more_files_than_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_source, "MOST_OPEN", 8)
    files = [[tcp_record(n, b"%d" % n, n), tcp_record(n + 500, b"%d" % n, n + 5)] for n in range(200)]
    paths = written(tmp_path, files)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/dev/fd").iterdir())) + 40, hard))
    try:
        _, blocks = read(*paths)
        assert sorted(payloads(blocks)) == sorted(b"%d" % (n // 2) for n in range(400))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(shutil.which("mergecap") is None, reason="mergecap is not installed")
def test_the_order_is_that_of_mergecap(tmp_path: Path) -> None:
    rng = Random(1)
    whole = [tcp_record(at, b"%d" % at, at) for at in range(400)]
    files: list[list[kit.Record]] = [[], [], []]
    for record in whole:
        rng.choice(files).append(record)
    paths = written(tmp_path, files)
    merged = tmp_path / "merged.pcapng"
    subprocess.run(["mergecap", "-w", merged, *paths], check=True)
    expected = kit.read(merged)
    _, blocks = read(*paths)
    for name in ("number", "time", "seq", "length"):
        assert np.array_equal(column(blocks, name), expected.column(name)), name
    assert payloads(blocks) == expected.payloads()


# ------------------------------------------------------------ followed
class FollowedFolder:
    """A folder that a rotating capture is written to while it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "none"
        self.sent = 0

    def rotate(self, name: str) -> None:
        self.file = self.folder / name
        self.file.write_bytes(kit.pcap([]))

    def send(self, payload: bytes) -> bytes:
        record = kit.pcap([tcp_record(self.sent, payload, self.sent)])[24:]
        self.sent += len(payload)
        with self.file.open("ab") as file:
            file.write(record)
        return payload


def test_a_folder_is_followed_from_file_to_file(tmp_path: Path) -> None:
    capture = FollowedFolder(tmp_path)
    capture.rotate("z.pcap")
    first = [capture.send(b"one"), capture.send(b"two")]
    source = open_files([str(tmp_path)], follow=True)
    assert source.live
    assert source.expected is None
    blocks = iter(read_packets(source, 1000))
    assert payloads([next(blocks)]) == first
    assert payloads([capture.send(b"three") and next(blocks)]) == [b"three"]
    capture.send(b"last of its file")
    capture.rotate("a.pcap")
    assert payloads([next(blocks)]) == [b"last of its file"]
    assert payloads([capture.send(b"in the next") and next(blocks)]) == [b"in the next"]
    for name in ("b.pcap", "c.pcap"):  # two at once
        capture.rotate(name)
        capture.send(name.encode())
    (tmp_path / "notes.txt").write_text("these are no packets at all, as can be seen")
    assert payloads([next(blocks), next(blocks)]) == [b"b.pcap", b"c.pcap"]
    source.stop()
    assert not list(blocks)
    assert source.path == "4 files"
    # read data can be read again
    again = list(read_packets(source))
    assert column(again, "number") == list(range(1, 8))
    assert b"".join(payloads(again)) == b"onetwothreelast of its filein the nextb.pcapc.pcap"


def test_a_file_without_a_header_is_waited_for(tmp_path: Path) -> None:
    capture = FollowedFolder(tmp_path)
    capture.rotate("1.pcap")
    capture.send(b"one")
    blocks = iter(read_packets(open_files([str(tmp_path / "*.pcap")], follow=True)))
    assert payloads([next(blocks)]) == [b"one"]
    (tmp_path / "2.pcap").touch()  # tcpdump has opened it, and has written nothing yet
    assert payloads([capture.send(b"two") and next(blocks)]) == [b"two"]
    capture.rotate("2.pcap")
    assert payloads([capture.send(b"three") and next(blocks)]) == [b"three"]


def test_files_that_were_deleted_can_be_read_while_they_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files deleted by a ring (dumpcap -b files:N) count as dropped; they are not an error."""
    monkeypatch.setattr(joined_source, "MOST_OPEN", 2)
    capture = FollowedFolder(tmp_path)
    capture.rotate("0.pcap")
    source = open_files([str(tmp_path)], follow=True)
    reader, blocks = iter(read_packets(source)), []
    for number in range(1, 5):
        capture.send(b"in file %d" % number)
        blocks.append(next(reader))
        capture.file.unlink()
        capture.rotate(f"{number}.pcap")
    offsets = [int(block.offset[0]) for block in blocks]
    capture.send(b"last")
    next(reader)
    assert [source.held(offset) for offset in offsets] == [False, False, True, True]
    assert source.read(offsets[-1], 9) == b"in file 4"
    with pytest.raises(SpoolDropped, match="No such file"):
        source.read(offsets[0], 9)
