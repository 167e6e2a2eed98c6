"""The cache of captures: a second read is the same as the first, and unsuitable files are ignored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from captures.exchanges import Capture, ExchangeReader, capture_cache, open_capture
from captures.exchanges.capture_cache import CaptureCache
from captures.exchanges.columns import COLUMNS, ExchangeColumns, RaggedArray
from captures.json_objects import to_json
from captures.packets.tls import KeyLog
from dissectors import budget
from kproxy.text.summary import notes
from tests.captures.exchanges.proxied import Recording, metadata, rewritten
from tests.captures.recorded import CAPTURES, FOLDER

VERSION = "1.0"
ORDINARY = "32_k0102_java_snappy.pcap"
PATHS = (
    "request.group_id",
    "request.topics.partitions.partition_index",
    "response.throttle_time_ms",
    "response.topics.name",
)
PLAIN = sorted(each for each in CAPTURES if each.endswith((".pcap", ".pcapng")))


@pytest.fixture(autouse=True)
def files_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_cache, "_AT_REST", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def opened(path: Path, folder: Path, version: str = VERSION, **options: Any) -> Capture:
    capture = open_capture(str(path), **options)
    capture.cache = CaptureCache(folder, capture.source, version)
    return capture


def read(path: Path, folder: Path, version: str = VERSION) -> tuple[Capture, bool]:
    """Read a capture; return whether it had to be read in full."""
    capture = opened(path, folder, version)
    taken = []
    take = capture.take
    capture.take = lambda block: (taken.append(block), take(block))[1]  # type: ignore[method-assign]
    capture.read()
    return capture, bool(taken)


def shown(capture: Capture) -> tuple[list[Any], list[str], list[Any]]:
    """Everything in a capture."""
    exchanges = [to_json(each) for each in ExchangeReader(capture, show_secrets=True)]
    connections = [capture.connections[each] for each in range(len(capture.connections))]
    rest = [
        connections,
        capture.statistics,
        capture.foreign,
        capture.skipped,
        list(capture.samples),
        capture.notes.by_frame(),
        capture.notes.ended_connections,
        capture.latest,
        capture.done,
        [capture.path_of(row) for row in range(len(capture.table))],
        capture.observed_until(np.arange(len(capture.connections))).tolist(),
        [capture.endpoints(each) for each in range(len(capture.connections))],
    ]
    return exchanges, list(notes(capture)), rest


def columns_of(capture: Capture) -> dict[str, list[Any]]:
    columns = ExchangeColumns(capture, capture.table.order())
    columns.prepare(COLUMNS)
    found = {}
    for name, kind in COLUMNS.items():
        values = columns[name]
        rows = [each.tolist() for each in values] if isinstance(values, RaggedArray) else values.tolist()
        found[name] = [rows, list(columns.texts(name)) if kind.coded else []]
    for path in PATHS:
        values = columns.path(path)
        numbers, others = values.column("numbers"), values.column("values")
        found[path] = [
            [*map(np.ndarray.tolist, numbers)],
            [*map(np.ndarray.tolist, others)],
            list(values.texts),
        ]
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PLAIN)
def test_a_second_look_is_the_first(name: str, folder: Path) -> None:
    path = FOLDER / name
    without = open_capture(str(path))
    without.read()
    (first, _), (second, again) = read(path, folder), read(path, folder)
    assert again == bool(first.decryption.tls)
    assert shown(first) == shown(second) == shown(without)
    assert columns_of(first) == columns_of(second) == columns_of(without)
    assert columns_of(read(path, folder)[0]) == columns_of(without)


def test_columns_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = FOLDER / "22_k430_java_commit_abort.pcap"
    expected = columns_of(read(path, folder)[0])
    monkeypatch.setattr(ExchangeColumns, "_decode", lambda *_: pytest.fail("they are decoded again"))
    assert columns_of(read(path, folder)[0]) == expected


def test_columns_of_few_exchanges_are_not_kept(folder: Path) -> None:
    capture, _ = read(FOLDER / "22_k430_java_commit_abort.pcap", folder)
    ExchangeColumns(capture, np.arange(len(capture.table) // 5)).prepare(["topics"])
    assert len(list(folder.iterdir())) == 1


def test_notes_of_packets_and_what_the_proxy_did_are_kept(tmp_path: Path, folder: Path) -> None:
    path = rewritten(tmp_path / "proxied.pcapng")
    (first, _), (second, again) = read(path, folder), read(path, folder)
    assert not again
    assert shown(first) == shown(second)
    assert first.notes.by_frame()
    assert len(second.samples) == 2
    assert first.samples.upstreams == second.samples.upstreams != {}


def test_numbers_that_cannot_be_kept_cost_nothing(tmp_path: Path, folder: Path) -> None:
    recording = Recording()
    asked, answered = metadata(1)
    recording.data(0, asked, 'kproxy: {"changed":[{"path":"a","sent":' + "9" * 30 + ',"got":1}]}')
    recording.data(1, answered)
    path = recording.write(tmp_path / "odd.pcapng")
    assert read(path, folder)[1]
    capture, again = read(path, folder)
    assert again
    assert len(capture.table) == 1


def test_updates_give_all_at_once(folder: Path) -> None:
    path = FOLDER / "22_k430_java_commit_abort.pcap"
    expected = read(path, folder)[0].table.order().tolist()
    assert [rows.tolist() for rows in opened(path, folder).updates()] == [expected]


def test_several_files_are_kept(tmp_path: Path, folder: Path) -> None:
    data = (FOLDER / ORDINARY).read_bytes()
    for number, name in enumerate(("22_k430_java_commit_abort.pcap", "09_snaplen128.pcap")):
        (tmp_path / f"{number}.pcap").write_bytes((FOLDER / name).read_bytes())
    capture = open_capture([str(tmp_path / "0.pcap"), str(tmp_path / "1.pcap")])
    capture.cache = CaptureCache(folder, capture.source, VERSION)
    capture.read()
    again = open_capture([str(tmp_path / "0.pcap"), str(tmp_path / "1.pcap")])
    again.cache = CaptureCache(folder, again.source, VERSION)
    assert again.cache.capture() is not None
    again.read()
    assert shown(again) == shown(capture)
    (tmp_path / "1.pcap").write_bytes(data)
    other = open_capture([str(tmp_path / "0.pcap"), str(tmp_path / "1.pcap")])
    assert CaptureCache(folder, other.source, VERSION).capture() is None


# ---------------------------------------------------------------- unsuitable files
def copied(tmp_path: Path) -> Path:
    path = tmp_path / "capture.pcap"
    path.write_bytes((FOLDER / "22_k430_java_commit_abort.pcap").read_bytes())
    return path


def test_a_changed_file_is_read_again(tmp_path: Path, folder: Path) -> None:
    path = copied(tmp_path)
    assert read(path, folder)[1]
    assert not read(path, folder)[1]
    told = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))  # like a program that hides the change
    assert path.stat().st_mtime_ns == told.st_mtime_ns
    assert read(path, folder)[1]


def test_another_file_in_its_place_is_read(tmp_path: Path, folder: Path) -> None:
    path = copied(tmp_path)
    assert read(path, folder)[1]
    (tmp_path / "other").write_bytes(path.read_bytes())
    (tmp_path / "other").replace(path)
    assert read(path, folder)[1]


def test_what_changes_while_it_is_read_is_not_kept(tmp_path: Path, folder: Path) -> None:
    path = copied(tmp_path)
    capture = opened(path, folder)
    with path.open("ab") as file:
        file.write(bytes(16))
    capture.read()
    assert not folder.exists()


def test_what_was_written_just_now_is_not_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_cache, "_AT_REST", 3600 * 10**9)
    read(copied(tmp_path), folder)
    assert not folder.exists()


def test_program_and_limits_matter(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(tmp_path)
    assert read(path, folder)[1]
    assert read(path, folder, "1.1")[1]
    monkeypatch.setitem(budget.IN_FORCE, "message_records", 7)
    assert read(path, folder)[1]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "other part"])
def test_a_damaged_part_is_made_anew(damage: str, tmp_path: Path, folder: Path) -> None:
    path = copied(tmp_path)
    expected, _ = read(path, folder)
    columns = columns_of(expected)
    parts = sorted(folder.iterdir())
    (table,) = (each for each in parts if each.name.endswith("-table.part"))
    whole = table.read_bytes()
    spoiled = {
        "cut": whole[: len(whole) // 2],
        "flipped": whole[:99] + bytes([whole[99] ^ 1]) + whole[100:],
        "empty": b"",
        "foreign": b"\x80\x04K\x01." * 99,
        "other part": next(each for each in parts if "topics" in each.name).read_bytes(),
    }
    for part in parts:
        part.write_bytes(spoiled[damage])
    capture, again = read(path, folder)
    assert again
    assert shown(capture) == shown(expected)
    assert columns_of(capture) == columns
    assert not read(path, folder)[1]
    assert table.read_bytes() == whole


def test_a_part_of_another_form_is_made_anew(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied(tmp_path)
    capture, _ = read(path, folder)
    odd = {"table": 1}
    assert capture.cache is not None
    capture.cache._store("table", odd)
    assert read(path, folder)[1]
    assert not read(path, folder)[1]


@pytest.mark.parametrize("mode", [0o640, 0o602])
def test_what_others_could_have_written_or_read_is_left(mode: int, tmp_path: Path, folder: Path) -> None:
    path = copied(tmp_path)
    read(path, folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    (table,) = folder.iterdir()
    assert table.stat().st_mode & 0o777 == 0o600
    table.chmod(mode)
    assert read(path, folder)[1]
    assert not read(path, folder)[1]  # it was replaced
    folder.chmod(0o755)
    assert read(path, folder)[1]


def test_a_link_is_not_followed(tmp_path: Path, folder: Path) -> None:
    path = copied(tmp_path)
    read(path, folder)
    (table,) = folder.iterdir()
    (tmp_path / "elsewhere").write_bytes(table.read_bytes())
    (tmp_path / "elsewhere").chmod(0o600)
    table.unlink()
    table.symlink_to(tmp_path / "elsewhere")
    assert read(path, folder)[1]


def test_a_folder_that_cannot_be_had_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    capture, again = read(copied(tmp_path), tmp_path / "file" / "kept")
    assert again
    assert len(capture.table)


@pytest.mark.parametrize("name", ["20_k430_ck_zstd.pcap.gz", "tls_java_13.pcap"])
def test_what_is_not_in_the_file_is_not_kept(name: str, tmp_path: Path, folder: Path) -> None:
    import gzip

    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress((FOLDER / ORDINARY).read_bytes()))
        keylog = None
    else:
        path.write_bytes((FOLDER / name).read_bytes())
        keylog = KeyLog(str((FOLDER / name).with_suffix(".keylog")))
    capture = opened(path, folder, keylog=keylog)
    capture.read()
    assert len(capture.table)
    assert not folder.exists()


# ---------------------------------------------------------------- the folder
def test_what_was_not_used_for_longest_goes(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = []
    for number, name in enumerate(("06_noida_acks0_java.pcap", "22_k430_java_commit_abort.pcap")):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes((FOLDER / name).read_bytes())
        read(paths[-1], folder)
    size = sum(each.stat().st_size for each in folder.iterdir())
    for number, each in enumerate(sorted(folder.iterdir())):
        os.utime(each, (number, number))
    assert not read(paths[0], folder)[1]  # its parts were used most recently
    monkeypatch.setattr(capture_cache, "MOST_BYTES", max(size, 1 << 20))
    (folder / "unfinished").write_bytes(bytes(1 << 20))
    os.utime(folder / "unfinished", (0, 0))
    third = tmp_path / "3.pcap"
    third.write_bytes((FOLDER / "09_any_sll2.pcap").read_bytes())
    read(third, folder)
    assert not (folder / "unfinished").exists()
    assert not read(paths[0], folder)[1]
    monkeypatch.setattr(capture_cache, "MOST_BYTES", 1)
    monkeypatch.setattr(capture_cache, "ROW_BYTES", 0)
    read(copied(tmp_path), folder)
    assert not list(folder.iterdir())


def test_parts_are_data() -> None:
    with pytest.raises(TypeError):
        msgspec.msgpack.encode(object(), enc_hook=capture_cache._plain)
