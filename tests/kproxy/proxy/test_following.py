"""A growing recording read by another process: exchanges arrive one by one, and reading ends with the recording."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from captures.exchanges import Capture
from captures.live.recorder import Match, Recorder
from captures.live.recording import is_being_recorded, newest_first, open_recording
from captures.packets import JoinedSource
from captures.packets.errors import CaptureError, SpoolDropped
from kproxy.proxy.recorder import RecordingOptions
from tests.dissectors.conversation import streams
from tests.kproxy.proxy.recordings import BROKER, MS, T0, RecordedTee, read
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow


class Follower(threading.Thread):
    """Reads a recording as ``kproxy attach`` does, in another thread."""

    def __init__(self, path: str, first: str = "", begin: int = 0) -> None:
        super().__init__(daemon=True)
        self.source = open_recording(path, first=first, begin=begin)
        self.capture = Capture(self.source)
        self.seen: list[int] = []
        self.pause = 0.0
        self.start()

    def run(self) -> None:
        for rows in self.capture.updates():
            self.seen += [self.capture.table.row(row)["correlation_id"] for row in rows.tolist()]
            time.sleep(self.pause)

    def ends(self) -> bool:
        self.join(PATIENCE)
        return not self.is_alive()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.source.stop()
        self.join(PATIENCE)
        self.source.close()


class Client:
    """A connection for requests and responses."""

    def __init__(self, recorded: RecordedTee, port: int = 50_001) -> None:
        self.recorded = recorded
        self.connection = recorded.tee.connection(("10.1.0.7", port), BROKER, T0)
        self.asked = 0

    def ask(self, size: int = 100) -> None:
        self.asked += 1
        now = T0 + self.asked * MS
        self.connection.data(0, streams.request(self.asked), now)
        self.connection.data(1, streams.response(self.asked, bytes(size)), now + MS // 2)


KINDS: dict[str, Callable[[Path], RecordingOptions]] = {
    "file": lambda folder: RecordingOptions(path=str(folder / "a.pcapng")),
    "series": lambda folder: RecordingOptions(path=str(folder / "a.pcapng"), rotate_size=20_000),
    "spool": lambda folder: RecordingOptions(folder=str(folder / "spool"), limit=4 << 20),
}


@pytest.mark.parametrize("end", ["closed", "killed"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_exchanges_come_as_they_are_recorded(kind: str, end: str, tmp_path: Path) -> None:
    settings = KINDS[kind](tmp_path)
    with RecordedTee(settings) as recorded, Follower(settings.capture) as follower:
        assert is_being_recorded(settings.capture)
        client = Client(recorded)
        for _ in range(5):
            client.ask()
            wait_until(lambda: follower.seen == list(range(1, client.asked + 1)))
        for _ in range(600):
            client.ask(1000)
        recorded.settle()
        if end == "closed":
            client.connection.end(0, T0 + 900 * MS)
            client.connection.end(1, T0 + 900 * MS)
            recorded.close()
        else:
            wait_until(lambda: len(follower.seen) == 605)
            recorded.process.send_signal(signal.SIGKILL)
            recorded.process.wait()
        assert follower.ends()
        assert not is_being_recorded(settings.capture)
        assert follower.seen == list(range(1, 606))
        assert follower.capture.statistics.damage == []
        assert follower.source.damage == ""
        assert len(follower.capture.connections) == 1


def test_the_oldest_chunks_vanish_while_it_is_followed(tmp_path: Path) -> None:
    """A reader slower than the traffic misses the deleted chunks, and continues with the remaining ones."""
    settings = RecordingOptions(folder=str(tmp_path / "spool"), limit=1 << 20)
    with RecordedTee(settings) as recorded, Follower(settings.capture) as follower:
        client = Client(recorded)
        follower.pause = 0.05
        for number in range(3000):
            client.ask(1000)
            if number % 50 == 0:
                recorded.settle()
        recorded.settle()
        assert sum(path.stat().st_size for path in (tmp_path / "spool").iterdir()) <= 1 << 20
        follower.pause = 0
        client.ask()
        wait_until(lambda: bool(follower.seen) and follower.seen[-1] == client.asked)
        recorded.close()
        assert follower.ends()
        assert follower.seen == sorted(set(follower.seen))
        assert isinstance(follower.source, JoinedSource)
        assert len(follower.source.deleted) > 10
        assert follower.source.unreadable == []
        # the deleted data is no longer held, so it takes no disk space
        assert not follower.source.held(100)
        with pytest.raises(SpoolDropped):
            follower.source.read(100, 10)


def test_it_can_be_followed_from_now_on(tmp_path: Path) -> None:
    settings = KINDS["spool"](tmp_path)
    with RecordedTee(settings) as recorded:
        client = Client(recorded)
        for _ in range(600):
            client.ask(1000)
        recorded.settle()
        newest = Path(newest_first(settings.capture)[0]).name
        with Follower(settings.capture, first=newest) as follower:
            wait_until(lambda: bool(follower.seen))
            client.ask()
            wait_until(lambda: follower.seen[-1] == 601)
            assert follower.seen[0] > 400
            recorded.close()
            assert follower.ends()


def test_a_recording_that_has_ended_is_read_to_its_end(tmp_path: Path) -> None:
    settings = KINDS["series"](tmp_path)
    with RecordedTee(settings) as recorded:
        client = Client(recorded)
        for _ in range(100):
            client.ask(1000)
        recorded.close()
    with Follower(settings.capture) as follower:
        assert follower.ends()
        assert follower.seen == list(range(1, 101))
    assert len(read(settings.capture).table) == 100
    with pytest.raises(CaptureError, match="no capture"):
        open_recording(str(tmp_path / "b-[0-9]*.pcapng"))


def test_of_a_file_that_is_appended_to_what_is_new_is_followed(tmp_path: Path) -> None:
    settings = KINDS["file"](tmp_path)
    for run in range(2):
        with RecordedTee(settings) as recorded:
            begin = recorded.events[0]["begin"]
            assert bool(begin) is bool(run)
            with Follower(settings.capture, begin=begin) as follower:
                client = Client(recorded)
                for _ in range(3 + run):
                    client.ask()
                    wait_until(lambda: len(follower.seen) == client.asked)  # noqa: B023
                assert follower.capture.frame(0, "response", 0, 114) is not None
                recorded.close()
                assert follower.ends()
                assert follower.capture.statistics.damage == []
    assert len(read(settings.capture).table) == 7


def test_following_can_be_stopped(tmp_path: Path) -> None:
    settings = KINDS["spool"](tmp_path)
    with RecordedTee(settings), Follower(settings.capture) as follower:
        time.sleep(0.2)
        follower.source.stop()
        assert follower.ends()


def test_the_flight_recorder_copies_from_the_spool(tmp_path: Path) -> None:
    settings = RecordingOptions(folder=str(tmp_path / "spool"), limit=1 << 20)
    with RecordedTee(settings) as recorded:
        client = Client(recorded)
        now, told = [T0], list[str]()
        keeper = Recorder(
            tmp_path / "spool", 1 << 20, tmp_path, 100 * MS, 50 * MS, told.append, lambda: now[0]
        )
        rng = Random(4)
        for number in range(2000):
            client.ask(rng.randrange(500, 1500))
            if number % 50 == 0:
                recorded.settle()
        recorded.settle()
        now[0] += 3000 * MS
        keeper.add(Match(T0 + 1800 * MS, T0 + 1800 * MS, "Fetch", "a failure"))
        keeper.save_due()
        recorded.close()
        (kept,) = keeper.kept
        assert kept.missing == ""
        found = {row["correlation_id"] for row in map(read(kept.path).table.row, range(150))}
        assert set(range(1702, 1849)) <= found
