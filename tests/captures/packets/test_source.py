from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest
import zstandard

from captures.packets import CaptureError, open_source
from captures.packets.source import KEPT, Source

DATA = bytes(range(256)) * 9000  # 2.3 MB: more than one chunk


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


def whole(source: Source) -> bytes:
    return source.read(0, source.size + 10)


@pytest.mark.parametrize(
    ("content", "compression"),
    [
        (DATA, ""),
        (gzip.compress(DATA), "gzip"),
        (gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]), "gzip"),
        (zstd(DATA), "zstd"),
        (zstd(DATA[:1000]) + zstd(DATA[1000:]), "zstd"),
        (b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd(DATA), "zstd"),  # skippable frame first, RFC 8878 3.1.2
        (gzip.compress(zstd(DATA)), "gzip+zstd"),
    ],
    ids=["plain", "gzip", "gzip members", "zstd", "zstd frames", "zstd skippable", "zstd in gzip"],
)
def test_reads_what_was_compressed(tmp_path: Path, content: bytes, compression: str) -> None:
    path = tmp_path / "named.txt"
    path.write_bytes(content)
    with open_source(path) as source:
        assert (source.size, source.compression, source.damage) == (len(DATA), compression, "")
        assert whole(source) == DATA
        assert source.read(300, 5) == DATA[300:305]
        assert source.read(len(DATA), 5) == b""
        buffer = bytearray(10)
        assert source.read_into(len(DATA) - 4, memoryview(buffer)) == 4
        assert buffer == DATA[-4:] + bytes(6)


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_a_cut_compressed_file_keeps_what_came_before(tmp_path: Path, compress: object) -> None:
    data = os.urandom(3 << 20)
    assert callable(compress)
    path = tmp_path / "cut"
    path.write_bytes(compress(data)[: 2 << 20])
    with open_source(path) as source:
        assert 1 << 20 <= source.size < len(data)
        assert whole(source) == data[: source.size]


def test_damage_of_a_compressed_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(gzip.compress(DATA)[:-8] + b"\xff" * 8)  # the last 8 bytes are CRC and size
    with open_source(path) as source:
        assert "gzip data is damaged" in source.damage
        assert whole(source) == DATA[: source.size]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(zstd(DATA))))
    with open_source("-") as source:
        assert (source.path, source.compression) == ("-", "zstd")
        assert whole(source) == DATA


def test_a_named_pipe_is_spooled(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(DATA,))
    writer.start()
    with open_source(path) as source:
        assert whole(source) == DATA
    writer.join()


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


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_cannot_be_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(CaptureError, match=r"No such file|Is a directory") as caught:
        open_source(tmp_path / name)
    assert caught.value.path == str(tmp_path / name)
