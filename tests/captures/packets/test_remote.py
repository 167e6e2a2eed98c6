"""Remote captures are read in place, like those of this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from captures.exchanges import ExchangeReader, open_capture
from captures.json_objects import to_json
from captures.packets import CaptureError, remote
from captures.packets.files import FileStatus, expanded, find_files, is_one_file
from captures.packets.remote import RemoteFile, is_remote, local
from captures.packets.source import open_source
from captures.packets.spool import Quota
from captures.ranges.jobs import Input, read_here
from captures.ranges.plan import make_plan
from kproxy.cli import main
from tests.captures.export.files import DATA, SAMPLE

fsspec = pytest.importorskip("fsspec", reason="captures elsewhere are read through fsspec (extra 'remote')")

ZSTD = DATA / "21_k430_share_group.pcap.zst"
PCAPNG = DATA / "09_pcapng_dumpcap.pcapng"


@pytest.fixture
def memory() -> Iterator[Any]:
    """A file system with captures and other files, in ``/captures``."""
    files = fsspec.filesystem("memory")
    for path in (SAMPLE, ZSTD, PCAPNG):
        files.pipe_file(f"/captures/{path.name}", path.read_bytes())
    files.pipe_file("/captures/.hidden.pcap", SAMPLE.read_bytes())
    files.pipe_file("/captures/notes.txt", b"no capture" * 9)
    files.pipe_file("/captures/deeper/more.pcap", SAMPLE.read_bytes())
    yield files
    files.rm("/captures", recursive=True)


def exchanges(*paths: str | Path) -> list[bytes]:
    capture = open_capture([str(path) for path in paths])
    capture.read()
    return [msgspec.json.encode(to_json(each)) for each in ExchangeReader(capture)]


# ---------------------------------------------------------------- the same as local ones
@pytest.mark.sample(1)
@pytest.mark.parametrize("path", [SAMPLE, ZSTD, PCAPNG], ids=lambda path: path.suffix)
def test_a_file_is_read_where_it_is(memory: Any, path: Path) -> None:
    assert exchanges(f"memory://captures/{path.name}") == exchanges(path)


@pytest.mark.slow
def test_a_folder_and_a_pattern(memory: Any) -> None:
    here = exchanges(SAMPLE, ZSTD, PCAPNG)
    assert exchanges("memory://captures") == exchanges("memory://captures/") == here
    assert exchanges("memory://captures/*.pcap*") == here
    found = find_files(["memory://captures"], Quota())
    assert found.passed_over == ["memory://captures/notes.txt"]
    assert not found.unreadable
    assert not is_one_file("memory://captures")
    assert is_one_file("memory://captures/rebalance.pcap")
    assert expanded("memory://captures/*.zst") == [f"memory://captures/{ZSTD.name}"]


@pytest.mark.slow
def test_files_of_this_machine_as_urls() -> None:
    here = exchanges(SAMPLE)
    assert exchanges(f"file://{SAMPLE}") == here
    assert expanded(f"FILE://{SAMPLE.parent}") == expanded(str(SAMPLE.parent))
    assert exchanges(f"local://{SAMPLE}") == here  # the same through fsspec
    assert expanded(f"local://{SAMPLE.parent}/*.pcap") == [f"local://{SAMPLE}"]
    assert local("file:///a%20b/c.pcap") == "/a b/c.pcap"
    assert [is_remote(path) for path in ("s3://b/k", "file:///x", "/a://b", "c:x", "-", "a.pcap")] == [
        True
    ] + 5 * [False]


@pytest.mark.slow
def test_ranges_are_read_side_by_side(memory: Any) -> None:
    read = read_here(Input(make_plan(["memory://captures/rebalance.pcap"], 30_000)))
    assert len(read.given.plan.ranges) == 8
    assert read.numbered.exchanges == 402


def test_any_bytes_by_any_thread(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_BLOCK", 1000)
    data = Random(4).randbytes(20_500)
    memory.pipe_file("/captures/bytes", data)
    store = RemoteFile("memory://captures/bytes", len(data))

    def read(seed: int) -> bool:
        rng = Random(seed)
        at, size = rng.randrange(21_000), rng.choice((0, 1, 17, 999, 1000, 2500, 30_000))
        buffer = bytearray(size)
        count = store.read_into(at, memoryview(buffer))
        return store.read(at, size) == data[at : at + size] == buffer[:count]

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, range(400)))


def test_little_is_read_of_a_large_file(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    fetched = RemoteFile._fetched

    def counted(self: RemoteFile, begin: int, end: int) -> bytes:
        asked.append((begin, end))
        return fetched(self, begin, end)

    monkeypatch.setattr(RemoteFile, "_fetched", counted)
    memory.pipe_file("/captures/large.pcap", SAMPLE.read_bytes() + bytes(5 << 20))
    with open_source("memory://captures/large.pcap") as source:
        assert source.read(0, 24) == SAMPLE.read_bytes()[:24]
        assert source.read(10, 100) == SAMPLE.read_bytes()[10:110]
    assert asked == [(0, 1 << 20)]


@pytest.mark.slow
def test_all_commands_take_them(memory: Any, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        return result.stdout

    there = "memory://captures/rebalance.pcap"
    assert said("read", "--json", there) == said("read", "--json", str(SAMPLE))
    assert said("groups", there) == said("groups", str(SAMPLE))
    said("export", there, "-o", str(tmp_path / "out.json"))
    said("tables", there, "-o", str(tmp_path / "tables"))
    again = said("tables", there, "-o", str(tmp_path / "tables"), "--append", "--json")
    assert [each["path"] for each in msgspec.json.decode(again)["skipped"]] == [there]


# ---------------------------------------------------------------- errors
def test_what_is_not_there_is_told(memory: Any) -> None:
    with pytest.raises(CaptureError, match=r"^memory://captures/no\.pcap: No such file or directory$"):
        open_capture(["memory://captures/no.pcap"])
    capture = open_capture([str(SAMPLE), "memory://captures/no.pcap", "memory://captures/deeper/*.txt"])
    told = [str(error) for error in getattr(capture.source, "unreadable", [])]
    assert told == [
        "memory://captures/no.pcap: No such file or directory",
        "memory://captures/deeper/*.txt: no capture matches this pattern",
    ]


def test_another_file_under_its_name_is_noticed(memory: Any) -> None:
    plan = make_plan(["memory://captures/rebalance.pcap"])
    before = FileStatus.of("memory://captures/rebalance.pcap")
    memory.pipe_file("/captures/rebalance.pcap", SAMPLE.read_bytes())
    assert FileStatus.of("memory://captures/rebalance.pcap").identity != before.identity
    with plan.source() as source, pytest.raises(CaptureError, match="another file replaced it"):
        source.read(0, 1)


def test_a_server_that_gives_no_parts_of_files(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RemoteFile("memory://captures/rebalance.pcap", 200_000)
    monkeypatch.setattr(type(memory), "cat_file", lambda *_, **__: SAMPLE.read_bytes())
    with pytest.raises(OSError, match=r"received 213,588 of 200,000 bytes from offset 0: it has changed"):
        store.read(0, 200_000)


def test_faults_of_packages_are_faults_of_files(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoCredentialsError(Exception):
        """As packages have them."""

    def refuse(*_: Any, **__: Any) -> None:
        raise NoCredentialsError("Unable to locate credentials")

    monkeypatch.setattr(type(memory), "cat_file", refuse)
    with pytest.raises(
        CaptureError, match=r"rebalance\.pcap: it cannot be reached: Unable to locate credentials"
    ):
        open_capture(["memory://captures/rebalance.pcap"])
    monkeypatch.setattr(type(memory), "info", refuse)
    with pytest.raises(CaptureError, match="it cannot be reached: Unable to locate credentials"):
        open_capture(["memory://captures/rebalance.pcap"])


def test_a_file_elsewhere_is_not_followed(memory: Any) -> None:
    with pytest.raises(CaptureError, match="cannot be followed"):
        open_source("memory://captures/rebalance.pcap", follow=True)


def test_what_is_missing_is_named_with_the_command_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaptureError, match="fsspec knows no scheme nope://"):
        open_capture(["nope://x/y.pcap"])
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(CaptureError, match=r"supports s3://: pip install 'fsspec\[s3\]'"):
        open_capture(["s3://bucket/monday.pcap"])
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(CaptureError, match=r"pip install 'kproxy\[remote\]'"):
        open_capture(["s3://bucket/monday.pcap"])
    result = CliRunner().invoke(main, ["read", "s3://bucket/monday.pcap"])
    assert result.exit_code == 1
    assert "pip install 'kproxy[remote]'" in result.output
    assert "Traceback" not in result.output
