"""The recorder as a process: a reader finds what the tee received, whatever happens to either."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures.packets import open_source, read_packets
from kproxy.proxy.recorder import RecordingOptions
from tests.captures.exchanges.talk import exchanges, random_talk
from tests.kproxy.proxy.recordings import BROKER, CLIENT, MS, T0, RecordedTee, followed, read, streams
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow

NO_TSHARK = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
CHECKED = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE")
UNUSUAL = "(tcp.analysis.flags && !tcp.analysis.window_update)"
FAULTS = f"{UNUSUAL} || _ws.malformed"
WRONG_SUMS = "ip.checksum.status != 1 || (tcp.checksum.status != 1 && tcp.len <= 4096)"


def comments(path: Path) -> list[str]:
    return [text for block in read_packets(open_source(str(path))) for text in block.comments.values()]


def file(path: Path) -> RecordingOptions:
    return RecordingOptions(path=str(path))


@pytest.mark.parametrize("size", [1 << 12, 1 << 16])
@pytest.mark.parametrize("seed", range(3))
def test_exchanges_are_read_back(seed: int, size: int, tmp_path: Path) -> None:
    """Frames are cut at arbitrary places, connections are mixed, and the ring buffers wrap around many times."""
    rng = random.Random(seed)
    talks = [random_talk(rng, number) for number in range(4)]
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path), size, lossless=True) as recorded:
        made = [recorded.tee.connection(("10.1.0.7", 50_000 + n), BROKER, T0) for n in range(4)]
        waiting = [list(talk.messages) for talk in talks]
        now = T0
        while any(waiting):
            number = rng.choice([n for n, messages in enumerate(waiting) if messages])
            from_client, data = waiting[number].pop(0)
            cuts = sorted(rng.choices(range(len(data)), k=rng.randrange(3)))
            for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
                now += MS
                made[number].data(0 if from_client else 1, data[start:end], now)
            if rng.random() < 0.2:
                made[number].note(rng.randrange(2), "a sample", now)
            recorded.tee.congested  # noqa: B018  # asking hands on what is kept
        for connection in made:
            connection.end(0, now)
            connection.end(1, now)
        recorded.close()
        assert recorded.tee.dropped_bytes == 0
    capture = read(path)
    assert exchanges(capture) == [each for talk in talks for each in talk.exchanges]
    assert capture.statistics.damage == []
    assert [capture.endpoints(n) for n in range(4)] == [
        (f"10.1.0.7:{50_000 + n}", "10.9.0.1:9092") for n in range(4)
    ]
    assert [str(capture.connections[n].closed).split()[0] for n in range(4)] == ["closed"] * 4


@given(
    sent=st.lists(
        st.tuples(st.integers(0, 1), st.binary(max_size=3000), st.text(max_size=30)), min_size=1, max_size=30
    ),
    broken=st.booleans(),
)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_are_read_back(sent: list[tuple[int, bytes, str]], broken: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.unlink(missing_ok=True)
    with RecordedTee(file(path), 1 << 12, lossless=True) as recorded:
        connection = recorded.tee.connection(("::1", 50_001), ("127.0.0.1", 9092), T0)
        for number, (side, data, comment) in enumerate(sent):
            connection.data(side, data, T0 + number * MS, comment)
        if broken:
            connection.reset(1, T0 + 100 * MS)
        recorded.close()
    capture = read(path)
    both = tuple(b"".join(data for side, data, _ in sent if side == wanted) for wanted in (0, 1))
    assert streams(capture) == [both]
    assert comments(path) == [text for _, _, text in sent if text]
    assert capture.endpoints(0) == ("[::1]:50001", "[::ffff:127.0.0.1]:9092")
    assert capture.connections[0].closed.startswith("reset" if broken else "open")


@NO_TSHARK
def test_wireshark_finds_no_fault(tmp_path: Path) -> None:
    """tshark checks reassembly and checksums, if present, and finds nothing unusual; notes look like window updates."""
    rng = random.Random(5)
    path = tmp_path / "a.pcapng"
    sent = [bytearray(), bytearray()]
    with RecordedTee(file(path)) as recorded:
        connection = recorded.tee.connection(CLIENT, BROKER, T0)
        for number in range(200):
            side, data = rng.randrange(2), rng.randbytes(rng.choice((1, 7, 200, 511, 513, 5001, 150_001)))
            recorded.settle()
            connection.data(side, data, T0 + number * MS, "größe" if number == 17 else "")
            sent[side] += data
            if number % 20 == 0:
                connection.note(0, "a sample", T0 + number * MS)
                connection.note(0, "another one", T0 + number * MS)
        connection.end(0, T0 + 300 * MS)
        connection.end(1, T0 + 301 * MS)
        recorded.close()
    assert followed(path, ("10.1.0.7:50001", "10.9.0.1:9092")) == (bytes(sent[0]), bytes(sent[1]))
    # a network card, absent here, would fill in checksums of large payloads
    for faults in ([FAULTS], [WRONG_SUMS, *CHECKED]):
        found = subprocess.run(
            ["tshark", "-r", str(path), "-Y", *faults], check=True, capture_output=True, text=True
        )
        assert found.stdout == ""
    assert sorted(set(comments(path))) == ["a sample", "another one", "größe"]


def test_files_are_for_their_owner(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with (
            RecordedTee(file(tmp_path / "a.pcapng")),
            RecordedTee(RecordingOptions(folder=str(tmp_path / "spool"))),
        ):
            assert (tmp_path / "a.pcapng").stat().st_mode & 0o777 == 0o600
            assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o700
            assert (tmp_path / "spool" / "00000001.pcapng").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    for run in range(2):  # with the same endpoints and connection numbers
        with RecordedTee(file(path)) as recorded:
            recorded.tee.connection(CLIENT, BROKER, T0 + run).data(0, b"run %d" % run, T0 + run)
            recorded.close()
    assert streams(read(path)) == [(b"run 0", b""), (b"run 1", b"")]


@pytest.mark.parametrize("text", [b"precious", b""])
def test_what_is_no_capture_is_not_written_to(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(text)
    with RecordedTee(file(path)) as recorded:
        if not text:
            assert recorded.events[0]["event"] == "file"
            return
        assert "not a pcapng file" in recorded.events[0]["text"]
        assert recorded.events[0]["fatal"]
        assert recorded.process.wait(PATIENCE) == 1
    assert path.read_bytes() == text


@pytest.mark.parametrize("path", ["/dev/full", "folder", "nowhere/a.pcapng"])
def test_what_cannot_be_written_is_told(path: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with RecordedTee(file(tmp_path / path)) as recorded:
        assert recorded.events[0]["text"].startswith(f"nothing can be recorded: {tmp_path / path}: ")
        assert recorded.process.wait(PATIENCE) == 1


@pytest.mark.parametrize("seed", range(3))
def test_what_is_dropped_is_counted_and_nothing_else_is_missing(seed: int, tmp_path: Path) -> None:
    """Bursts exceed the queue: every byte is either read back at its position, or counted."""
    rng = random.Random(seed)
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path), 1 << 15) as recorded:
        made = [recorded.tee.connection(("10.1.0.7", 50_000 + n), BROKER, T0) for n in range(5)]
        sent = [(bytearray(), bytearray()) for _ in made]
        for number in range(400):
            which, side = rng.randrange(5), rng.randrange(2)
            data = rng.randbytes(rng.choice((30, 300, 3000)))
            made[which].data(side, data, T0 + number * MS, "said" if number % 50 == 0 else "")
            sent[which][side].extend(data)
            if number % 60 == 59:
                recorded.settle()
        for connection in made:
            recorded.settle()
            connection.end(0, T0 + 500 * MS)
            connection.end(1, T0 + 500 * MS)
        recorded.close()
        dropped = recorded.tee.dropped_bytes
        assert dropped
    capture = read(path)
    assert capture.statistics.damage == []
    assert [capture.endpoints(n)[0] for n in range(5)] == [f"10.1.0.7:{50_000 + n}" for n in range(5)]
    missing = 0
    for number, both in enumerate(sent):
        client = capture.client_stream(number)
        for side, data in enumerate(both):
            places = capture.index.pieces(client ^ side, 0, len(data))
            for at, offset, size in zip(*(column.tolist() for column in places), strict=True):
                assert capture.source.read(offset, size) == data[at : at + size]
            missing += len(data) - int(places[2].sum())
        assert capture.connections[number].closed.startswith("closed")
    assert missing == dropped
    told = [int(text.split()[3]) for text in comments(path) if text.startswith("kproxy: tee dropped")]
    assert sum(told) == dropped


def test_two_recorders_do_not_share_a_file(tmp_path: Path) -> None:
    with RecordedTee(file(tmp_path / "a.pcapng")), RecordedTee(file(tmp_path / "a.pcapng")) as second:
        assert "another kproxy is recording to it" in second.events[0]["text"]
        assert second.events[0]["fatal"]


def test_it_is_on_disk_before_more_comes(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path)) as recorded:
        connection = recorded.tee.connection(CLIENT, BROKER, T0)
        for number in range(20):
            size = path.stat().st_size
            connection.data(0, b"x" * 100, T0 + number)
            wait_until(lambda size=size: path.stat().st_size > size)  # type: ignore[misc]


def test_signals_do_not_end_it(tmp_path: Path) -> None:
    with RecordedTee(file(tmp_path / "a.pcapng")) as recorded:
        connection = recorded.tee.connection(CLIENT, BROKER, T0)
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            recorded.process.send_signal(each)
        connection.data(0, b"still there", T0)
        recorded.close()
        assert recorded.process.returncode == 0
    assert streams(read(tmp_path / "a.pcapng")) == [(b"still there", b"")]


PRODUCER = """
import os, signal, sys, time
from kproxy.proxy.recorder import RecordingOptions, start_recorder
from kproxy.proxy.tee import Tee
tee = Tee(1 << 20)
recorder = start_recorder(tee, RecordingOptions(path=sys.argv[1]))
recorder.stdout.readline()
connection = tee.connection(("10.1.0.7", 50001), ("10.9.0.1", 9092), 1)
for number in range(2000):
    connection.data(0, number.to_bytes(4), number)
print(recorder.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_when_the_data_plane_is_killed_the_rest_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    ran = subprocess.run([sys.executable, "-c", PRODUCER, str(path)], capture_output=True, text=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    recorder = Path("/proc") / ran.stdout.strip()
    wait_until(lambda: not recorder.exists() or "\nState:\tZ" in (recorder / "status").read_text())
    assert streams(read(path)) == [(b"".join(number.to_bytes(4) for number in range(2000)), b"")]


@NO_TSHARK
def test_when_it_is_killed_the_file_is_readable_and_another_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    rng = random.Random(1)
    with RecordedTee(file(path)) as recorded:
        connection = recorded.tee.connection(CLIENT, BROKER, T0)
        first = rng.randbytes(300_000)
        connection.data(0, first, T0)
        recorded.settle()
        recorded.process.kill()
        recorded.process.communicate()
        # as if it had died within a block
        with path.open("ab") as killed:
            killed.write(b"\x06\0\0\0\xff\0\0\0half a block")
        assert streams(read(path)) == [(first, b"")]
        assert subprocess.run(["capinfos", "-c", str(path)], capture_output=True).stdout
        second = rng.randbytes(2000)
        connection.data(0, second, T0 + MS)
        connection.data(1, b"answer", T0 + 2 * MS)
        recorded.start()
        connection.end(0, T0 + 3 * MS)
        recorded.close()
    capture = read(path)
    assert streams(capture) == [(first + second, b"answer")]
    assert capture.statistics.damage == []
    assert followed(path, ("10.1.0.7:50001", "10.9.0.1:9092")) == (first + second, b"answer")


def limit_file_size(process: subprocess.Popen[bytes], size: int) -> None:
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_full_disk_is_told_once_and_recording_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path)) as recorded:
        early = recorded.tee.connection(CLIENT, BROKER, T0)
        early.data(0, b"before", T0)
        recorded.settle()
        limit_file_size(recorded.process, path.stat().st_size + 100)
        late = recorded.tee.connection(("10.1.0.7", 50_002), BROKER, T0 + MS)
        for number in range(5):
            early.data(0, b"lost", T0 + number * MS)
            late.data(0, b"lost too", T0 + number * MS)
            recorded.settle()
        assert "File too large" in recorded.wait_for_event("error")["text"]
        assert streams(read(path)) == [(b"before", b"")]  # nothing of the data that did not fit
        limit_file_size(recorded.process, 1 << 20)
        wait_until(lambda: resume(recorded, path))
        recorded.close()
        assert len(recorded.of("error")) == 1
        assert recorded.of("recovered")[0]["lost_bytes"] == 60
        assert recorded.of("end")[0]["lost_bytes"] == 60
    capture = read(path)
    assert [capture.endpoints(n)[0] for n in range(2)] == ["10.1.0.7:50001", "10.1.0.7:50002"]
    assert all(capture.connections.client_known)
    assert capture.statistics.damage == []


def resume(recorded: RecordedTee, path: Path) -> bool:
    size = path.stat().st_size
    for connection in list(recorded.tee.live.values()):
        connection.data(1, b"", T0 + 100 * MS)
        connection.note(1, "after", T0 + 100 * MS)
    recorded.settle()
    return path.stat().st_size > size


def test_lossless_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path), 1 << 14, lossless=True) as recorded:
        connection = recorded.tee.connection(CLIENT, BROKER, T0)
        limit_file_size(recorded.process, 4096)
        data = random.Random(3).randbytes(60_000)
        for at in range(0, len(data), 600):
            connection.data(0, data[at : at + 600], T0 + at)
        recorded.wait_for_event("error")
        assert recorded.tee.congested
        limit_file_size(recorded.process, 1 << 20)
        recorded.settle()
        recorded.close()
        assert recorded.tee.dropped_bytes == recorded.of("end")[0]["lost_bytes"] == 0
    assert streams(read(path)) == [(data, b"")]


def test_lossless_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A full disk does not keep a recorder alive after its data plane has ended."""
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path), lossless=True) as recorded:
        limit_file_size(recorded.process, path.stat().st_size)
        recorded.tee.connection(CLIENT, BROKER, T0).data(0, b"no room", T0)
        recorded.wait_for_event("error")
        recorded.close()
        assert recorded.process.returncode == 0
        assert recorded.of("end")[0]["lost_bytes"] == 7


def test_what_nobody_announced_is_counted(tmp_path: Path) -> None:
    """A recorder starts late, after the end of a connection."""
    path = tmp_path / "a.pcapng"
    with RecordedTee(file(path)) as recorded:
        connection = recorded.tee.connection(CLIENT, BROKER, T0)
        recorded.settle()
        recorded.process.kill()
        recorded.process.communicate()
        connection.data(0, b"nobody's", T0)
        connection.reset(0, T0)
        recorded.start()
        recorded.close()
        assert recorded.of("end")[0]["lost_bytes"] == 8
    assert read(path).statistics.damage == []
