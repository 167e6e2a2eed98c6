from __future__ import annotations

import gzip
import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from captures.packets import CaptureError, open_source
from captures.packets.errors import SpoolDropped
from captures.packets.source import KEPT, Source
from captures.packets.spool import Quota

DATA = bytes(range(256)) * 9000  # 2.3 MB: more than one chunk


Pipe = tuple[Source, Callable[[bytes], int], Callable[[], None]]


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def whole(source: Source) -> bytes:
    source.wait_for(1 << 40)
    assert source.complete
    assert source.expected == source.size
    return source.read(0, source.size + 10)


def take(source: Source, offset: int, size: int) -> bytes:
    """The result of one read, once it is known whether the source is compressed."""
    source.wait_for(5)
    buffer = bytearray(size)
    return bytes(buffer[: source.read_into(offset, memoryview(buffer))])


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A source that reads a pipe, a function that writes to it, and one that closes it."""
    reader, writer = os.pipe()
    with os.fdopen(reader) as standard_input, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", standard_input)
        with open_source("-") as source:
            open_ends = [writer]
            yield source, lambda data: os.write(writer, data), lambda: os.close(open_ends.pop())
    for end in open_ends:
        os.close(end)


@pytest.mark.parametrize(
    ("content", "compression"),
    [
        (DATA, ""),
        (gzip.compress(DATA), "gzip"),
        (gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]), "gzip"),
        (gzip.compress(DATA[:1000]) + bytes(99) + gzip.compress(DATA[1000:]) + bytes(300_000), "gzip"),
        (zstd(DATA), "zstd"),
        (zstd(DATA[:1000]) + zstd(DATA[1000:]), "zstd"),
        (b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(DATA), "zstd"),  # skippable frame first, RFC 8878 3.1.2
        (gzip.compress(zstd(DATA)), "gzip+zstd"),
    ],
    ids=[
        "plain",
        "gzip",
        "gzip members",
        "gzip padding",
        "zstd",
        "zstd frames",
        "zstd skippable",
        "zstd in gzip",
    ],
)
def test_reads_what_was_compressed(tmp_path: Path, content: bytes, compression: str) -> None:
    path = tmp_path / "named.txt"
    path.write_bytes(content)
    with open_source(path) as source:
        assert not source.live
        assert source.compression == compression
        assert source.read(300, 5) == DATA[300:305]
        assert whole(source) == DATA
        assert (source.size, source.damage) == (len(DATA), "")
        assert source.read(len(DATA), 5) == b""
        assert take(source, len(DATA) - 4, 10) == DATA[-4:]


def test_a_compressed_file_is_decompressed_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    data = os.urandom(10 << 20)
    path.write_bytes(gzip.compress(data, 0))
    with open_source(path) as source:
        assert (source.size, source.complete) == (0, False)
        assert take(source, 0, 1000) == data[:1000]
        assert 1000 <= source.size < 5 << 20
        assert take(source, 500, 8 << 20) == data[500:][: 8 << 20]
        assert 8 << 20 <= source.size < len(data)
        assert not source.wait_for(len(data) + 1)
        assert (source.size, source.complete) == (len(data), True)


def test_how_much_a_compressed_file_will_be_is_estimated(tmp_path: Path) -> None:
    data = os.urandom(10 << 20)
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(data, 0))
    with open_source(path) as source:
        source.wait_for(1 << 20)
        assert source.expected == pytest.approx(len(data), rel=0.2)


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_a_cut_compressed_file_keeps_what_came_before(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    data = os.urandom(3 << 20)
    path = tmp_path / "cut"
    path.write_bytes(compress(data)[: 2 << 20])
    with open_source(path) as source:
        read = whole(source)
        assert 1 << 20 <= source.size < len(data)
        assert read == data[: source.size]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(DATA)[:-8] + b"\xff" * 8, "gzip data is damaged: .*checksum"),  # CRC and size are last
        (gzip.compress(DATA)[:-9], "gzip data is damaged: it ends early"),
        (zstd(DATA)[:-4], "zstd data is damaged: it ends early"),
        (gzip.compress(DATA) + b"something else", "gzip data is damaged"),
        (zstd(DATA) + b"something else", "zstd data is damaged"),
    ],
    ids=["checksum", "cut gzip", "cut zstd", "no gzip behind", "no zstd behind"],
)
def test_damage_of_a_compressed_file_is_told(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content)
    with open_source(path) as source:
        assert whole(source) == DATA[: source.size]
        assert source.size > len(DATA) - 100_000
        assert re.match(reason, source.damage, re.IGNORECASE)


# ---------------------------------------------------------------- pipes
def test_a_pipe_gives_what_is_there(pipe: Pipe) -> None:
    source, write, close = pipe
    assert (source.path, source.live, source.complete, source.size) == ("-", True, False, 0)
    assert source.read(0, 4) == b""
    write(b"hello")
    assert take(source, 0, 4000) == b"hello"
    write(b" world")
    assert take(source, 5, 4000) == b" world"
    assert source.read(3, 4000) == b"lo world"
    assert (source.size, source.expected) == (11, None)
    close()
    assert take(source, 11, 4000) == b""
    assert whole(source) == b"hello world"


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_a_compressed_pipe_gives_what_was_flushed(pipe: Pipe, compression: str) -> None:
    source, write, close = pipe
    parts = []
    if compression == "gzip":
        file = io.BytesIO()
        zipped = gzip.GzipFile(fileobj=file, mode="wb")
        for text in (b"hello", b" world"):
            zipped.write(text)
            zipped.flush()
            parts.append(file.getvalue()[sum(map(len, parts)) :])
    else:
        zstandard_ = zstandard.ZstdCompressor().compressobj()
        flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        parts = [zstandard_.compress(text) + zstandard_.flush(flush) for text in (b"hello", b" world")]
    write(parts[0])
    assert take(source, 0, 4000) == b"hello"
    write(parts[1])
    assert take(source, 5, 4000) == b" world"
    assert source.compression == compression
    close()
    source.wait_for(12)
    assert source.complete


@pytest.mark.slow
def test_a_pipe_can_be_stopped_while_it_is_waited_for(pipe: Pipe) -> None:
    source, write, _ = pipe
    write(b"hello")
    assert take(source, 0, 10) == b"hello"
    threading.Timer(0.05, source.stop).start()
    assert take(source, 5, 10) == b""
    assert (source.complete, source.stopped, source.damage, source.size) == (True, True, "", 5)


def test_a_stopped_pipe_is_read_to_its_end(pipe: Pipe) -> None:
    """tcpdump writes its last packets when Ctrl-C reaches it and us."""
    source, write, close = pipe
    source.stop()
    write(b"the last packets")
    close()
    assert whole(source) == b"the last packets"


@pytest.mark.slow
def test_what_was_cut_by_a_stop_is_no_damage(pipe: Pipe) -> None:
    source, write, _ = pipe
    write(gzip.compress(DATA)[:1000])
    assert take(source, 0, 100)
    source.stop()
    whole(source)
    assert source.damage == ""


def test_standard_input_that_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(zstd(DATA))))
    with open_source("-") as source:
        assert (source.path, source.live) == ("-", False)
        assert whole(source) == DATA
        assert source.compression == "zstd"


@pytest.mark.parametrize("follow", [False, True])
def test_a_file_on_standard_input_is_read_in_place_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, follow: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        with open_source("-", follow=follow) as source:
            assert (source.live, source.complete, source.size) == (False, True, len(DATA))
            assert whole(source) == DATA


def test_a_named_pipe_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with open_source(path) as source:
        writer = threading.Thread(target=path.write_bytes, args=(DATA,))
        writer.start()
        assert source.live
        assert whole(source) == DATA
    writer.join()


def test_a_bounded_spool_drops_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(DATA))
    with open_source(path, spool=1 << 20) as source:
        source.wait_for(len(DATA))
        assert source.held(source.size - 1)
        assert not source.held(0)
        assert source.read(len(DATA) - 500, 500) == DATA[-500:]
        with pytest.raises(SpoolDropped):
            source.read(0, 10)
        assert source.read_or_zeros(0, 10) == bytes(10)


# ---------------------------------------------------------------- following
def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    with open_source(path, follow=True) as source, path.open("ab", buffering=0) as file:
        assert (source.live, source.complete) == (True, False)
        assert take(source, 0, 4000) == b"hello"
        later = threading.Timer(0.05, file.write, (b" world",))
        later.start()
        assert take(source, 5, 4000) == b" world"
        later.join()
        assert source.read(0, 4000) == b"hello world"
        threading.Timer(0.05, source.stop).start()
        assert take(source, 11, 4000) == b""
        assert (source.complete, source.stopped, source.damage) == (True, True, "")


def test_a_compressed_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "file.zst"
    zstandard_ = zstandard.ZstdCompressor().compressobj()
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    with path.open("wb", buffering=0) as file, open_source(path, follow=True) as source:
        later = threading.Timer(0.05, file.write, (zstandard_.compress(b"hello") + zstandard_.flush(flush),))
        later.start()
        assert take(source, 0, 4000) == b"hello"
        later.join()
        file.write(zstandard_.compress(b" world") + zstandard_.flush(flush))
        assert take(source, 5, 4000) == b" world"


def test_a_followed_file_that_is_cut_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello world")
    with open_source(path, follow=True) as source:
        assert take(source, 0, 4000) == b"hello world"
        os.truncate(path, 5)
        assert take(source, 11, 4000) == b""
        assert "truncated to 5 bytes while it was followed" in source.damage
        assert source.complete


@pytest.mark.parametrize("replaced", [True, False])
def test_a_followed_file_that_is_moved_away_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    monkeypatch.setattr("captures.packets.feeds.GONE", 0.05)
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    with open_source(path, follow=True) as source:
        assert take(source, 0, 4000) == b"hello"
        moved = path.rename(tmp_path / "file.1")
        if replaced:
            path.write_bytes(b"another")
        with moved.open("ab") as file:
            file.write(b" world")  # its writer may go on
        assert take(source, 5, 4000) == b" world"
        assert take(source, 11, 4000) == b""
        assert "moved or deleted" in source.damage


def test_stopping_a_large_file_does_not_wait_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 1 << 40)
    with open_source(path, follow=True) as source:
        assert take(source, 0, 100) == bytes(100)
        source.stop()
        while take(source, source.size, 1 << 20):
            pass
        assert source.complete
        assert source.size <= 16 << 20


def test_a_file_nobody_writes_to_cannot_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with open_source(path) as source:
        source.stop()
        assert not source.stopped
        assert whole(source) == DATA


# ---------------------------------------------------------------- bytes beside the capture
def test_kept_bytes_are_read_like_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"capture")
    with open_source(path) as source:
        assert source.read(KEPT, 5) == b""
        first, second = source.keep(b"hello"), source.keep(b"world")
        assert first == KEPT
        assert source.read(second, 5) == b"world"
        assert source.read(first, 10) == b"helloworld"
        assert source.read(0, 99) == b"capture"


def test_kept_bytes_are_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"capture")
    with open_source(path, spool=Quota(1 << 20)) as source:
        first = source.keep(DATA[: 1 << 19])
        last = source.keep(DATA[: 1 << 20])
        assert (source.held(first), source.held(last + (1 << 19))) == (False, True)
        assert source.held(0)
        with pytest.raises(SpoolDropped):
            source.read(first, 5)


@pytest.mark.parametrize("name", ["absent", "."])
@pytest.mark.parametrize("follow", [False, True])
def test_what_cannot_be_opened(tmp_path: Path, name: str, follow: bool) -> None:
    with pytest.raises(CaptureError, match=r"No such file|Is a directory") as caught:
        open_source(tmp_path / name, follow=follow)
    assert caught.value.path == str(tmp_path / name)


def test_no_room_for_the_spool_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(DATA))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with open_source(path) as source:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(
            CaptureError, match=r"no room for temporary files in .*; name another place in TMPDIR"
        ):
            source.wait_for(1)


def test_all_files_are_given_back(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc to count open files")
    before = len(list(descriptors.iterdir()))
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(DATA))
    for follow in (False, True):
        source = open_source(path, follow=follow)
        source.wait_for(100)
        source.keep(b"something")
        assert len(list(descriptors.iterdir())) > before
        source.close()
        assert len(list(descriptors.iterdir())) == before


def test_a_followed_file_may_be_read_from_a_byte_on(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(b"what was there before" + b"capture")
    ended = [False]
    with open_source(path, follow=True, over=lambda: ended[0], first=21) as source:
        assert source.wait_for(7)
        assert (source.size, source.read(0, 100), source.complete) == (7, b"capture", False)
        with path.open("ab") as file:
            file.write(b" that grows")
        assert source.wait_for(8)
        assert source.read(4, 9) == b"ure that "
        assert source.held(0)
        ended[0] = True
        assert not source.wait_for(19)
        assert (source.size, source.complete, source.damage) == (18, True, "")
