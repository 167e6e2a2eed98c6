"""The files that the flight recorder keeps of known chunks; scapy reads the result."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader

from captures.live.recorder import Match, RecordedFile, Recorder
from tests.captures.live.kit import HEADER, record
from tests.captures.packets.kit import T0

pytestmark = pytest.mark.quick

SECOND = 1_000_000_000
LIMIT = 6 * len(HEADER + 10 * record(0, 20))  # six chunks of ten seconds


class Clock:
    """A clock that stands still until it is set, in seconds from the beginning."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> int:
        return T0 + round(self.seconds * SECOND)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def recorder(tmp_path: Path, clock: Clock, notices: list[str]) -> Recorder:
    (tmp_path / "ring").mkdir()
    (tmp_path / "kept").mkdir()
    return Recorder(
        tmp_path / "ring", LIMIT, tmp_path / "kept", 10 * SECOND, 5 * SECOND, notices.append, clock
    )


@pytest.fixture
def chunk(tmp_path: Path) -> Callable[[int, int, int], None]:
    """Write chunk number n with a packet for each second of a range."""

    def write(number: int, begin: int, end: int) -> None:
        records = [record(second, 20, T0 + second * SECOND) for second in range(begin, end)]
        (tmp_path / "ring" / f"{number:08}.pcap").write_bytes(HEADER + b"".join(records))

    return write


def match(second: float, text: str = "Produce v9") -> Match:
    moment = T0 + round(second * SECOND)
    return Match(moment, moment + SECOND // 10, "Produce", text)


def seconds(kept: RecordedFile) -> list[int]:
    """Times of the packets in a kept file, in seconds from the beginning."""
    with RawPcapNgReader(str(kept.path)) as reader:
        return [((info.tshigh << 32 | info.tslow) - T0) // SECOND for _, info in reader]


def comments(kept: RecordedFile) -> list[str]:
    with RawPcapNgReader(str(kept.path)) as reader:
        return [comment.decode() for _, info in reader for comment in info.comments or ()]


def test_what_surrounds_a_match_is_kept(
    recorder: Recorder, clock: Clock, chunk: Callable, notices: list[str]
) -> None:
    chunk(1, 0, 20)
    chunk(2, 20, 40)
    chunk(3, 40, 60)
    recorder.add(match(30))
    clock.seconds = 60
    recorder.save_due()
    (kept,) = recorder.kept
    assert seconds(kept) == list(range(20, 36))
    assert kept.packets == 16
    assert kept.missing == ""
    assert notices == [f"kept 16 packets around Produce v9 in {kept.path}"]


def test_the_file_is_named_by_time_and_cause_and_says_why(
    recorder: Recorder, clock: Clock, chunk: Callable
) -> None:
    chunk(1, 0, 60)
    recorder.add(match(30, "Produce v9  a > b  NOT_LEADER_OR_FOLLOWER"))
    clock.seconds = 60
    recorder.save_due()
    (kept,) = recorder.kept
    assert kept.path.name == "2023-11-14T22-13-50Z-Produce.pcapng"
    assert kept.path.stat().st_mode & 0o777 == 0o600
    assert (
        b"2023-11-14T22:13:50.000Z Produce v9  a > b  NOT_LEADER_OR_FOLLOWER" in kept.path.read_bytes()[:400]
    )
    assert comments(kept) == ["kproxy: Produce v9  a > b  NOT_LEADER_OR_FOLLOWER"]


def test_a_window_is_kept_when_it_is_over_and_not_before(
    recorder: Recorder, clock: Clock, chunk: Callable
) -> None:
    chunk(1, 0, 60)
    clock.seconds = 31
    recorder.add(match(30))
    for clock.seconds in (31, 34, 35.2):
        recorder.save_due()
        assert recorder.kept == []
    clock.seconds = 36
    recorder.save_due()
    assert len(recorder.kept) == 1
    recorder.save_due()
    recorder.save_all()
    assert len(recorder.kept) == 1


def test_windows_that_overlap_become_one(recorder: Recorder, clock: Clock, chunk: Callable) -> None:
    chunk(1, 0, 200)
    for second in (100, 20, 114, 25, 60):  # 100 and 114 touch, 20 and 25, 60 stands alone
        recorder.add(match(second, f"match at {second}"))
    clock.seconds = 200
    recorder.save_due()
    assert sorted(map(seconds, recorder.kept)) == [
        list(range(10, 31)),
        list(range(50, 66)),
        list(range(90, 120)),
    ]
    first = next(kept for kept in recorder.kept if kept.packets == 21)
    assert comments(first) == ["kproxy: match at 20", "kproxy: match at 25"]


def test_a_window_that_joins_two_others(recorder: Recorder, clock: Clock, chunk: Callable) -> None:
    chunk(1, 0, 200)
    for second in (100, 126, 113):
        recorder.add(match(second))
    clock.seconds = 200
    recorder.save_due()
    assert [seconds(kept) for kept in recorder.kept] == [list(range(90, 132))]


def test_what_is_no_longer_in_the_ring_is_said(
    recorder: Recorder, clock: Clock, chunk: Callable, tmp_path: Path
) -> None:
    chunk(1, 0, 25)
    recorder.save_due()  # it has seen the first chunk
    recorder.add(match(30))
    chunk(2, 25, 60)
    (tmp_path / "ring" / "00000001.pcap").unlink()
    clock.seconds = 60
    recorder.save_due()
    (kept,) = recorder.kept
    assert seconds(kept) == list(range(25, 36))
    assert kept.missing == "the first 5 s were no longer in the ring"
    assert kept.missing.encode() in kept.path.read_bytes()[:400]


def test_a_match_soon_after_the_beginning(recorder: Recorder, clock: Clock, chunk: Callable) -> None:
    chunk(1, 0, 60)
    recorder.add(match(3))
    clock.seconds = 60
    recorder.save_due()
    (kept,) = recorder.kept
    assert seconds(kept) == list(range(9))
    assert kept.missing == "recording began 7 s after the beginning of the window"


def test_what_is_about_to_leave_the_ring_is_kept_early(
    recorder: Recorder, clock: Clock, chunk: Callable
) -> None:
    for number in range(1, 4):
        chunk(number, 10 * number, 10 * number + 10)
    recorder.add(match(38))
    recorder.add(match(39))
    clock.seconds = 40
    recorder.save_due()
    assert recorder.kept == []  # there is room
    chunk(4, 40, 50)
    recorder.add(match(43))
    clock.seconds = 43.5
    recorder.save_due()  # the third chunk begins at 30, the window at 28
    assert [seconds(kept) for kept in recorder.kept] == [list(range(28, 44))]
    assert recorder.kept[0].missing == ""
    clock.seconds = 50
    recorder.save_due()
    assert [seconds(kept) for kept in recorder.kept[1:]] == [list(range(44, 49))]


def test_a_window_longer_than_the_ring_goes_to_files_that_follow_each_other(
    recorder: Recorder, clock: Clock, chunk: Callable, tmp_path: Path
) -> None:
    chunk(1, 0, 10)
    recorder.save_due()
    for second in range(0, 100, 2):  # a fault that does not end
        clock.seconds = second
        number = second // 10 + 1
        chunk(number, 10 * number - 10, second + 2)
        (tmp_path / "ring" / f"{number - 6:08}.pcap").unlink(missing_ok=True)
        recorder.add(match(second))
        recorder.save_due()
    recorder.save_all()
    times = [second for kept in recorder.kept for second in seconds(kept)]
    assert len(recorder.kept) > 1
    assert times == list(range(100))


def test_the_end_of_recording_keeps_what_was_asked_for_so_far(
    recorder: Recorder, clock: Clock, chunk: Callable
) -> None:
    chunk(1, 0, 33)
    recorder.add(match(30))
    clock.seconds = 32
    recorder.save_all()
    (kept,) = recorder.kept
    assert seconds(kept) == list(range(20, 33))
    assert kept.missing == "recording ended 3.1 s before the end of the window"


def test_a_record_that_is_being_written_is_left_out(
    recorder: Recorder, clock: Clock, chunk: Callable, tmp_path: Path
) -> None:
    chunk(1, 0, 33)
    with (tmp_path / "ring" / "00000001.pcap").open("ab") as file:
        file.write(record(33, 20, T0 + 33 * SECOND)[:30])
    (tmp_path / "ring" / "00000002.pcap").write_bytes(HEADER[:10])
    recorder.add(match(30))
    clock.seconds = 60
    recorder.save_due()
    assert [seconds(kept) for kept in recorder.kept] == [list(range(20, 33))]


def test_two_files_of_one_second_have_different_names(
    recorder: Recorder, clock: Clock, chunk: Callable
) -> None:
    chunk(1, 0, 60)
    clock.seconds = 60
    for _ in range(2):
        recorder.add(match(30))
        recorder.save_due()
    assert [kept.path.name for kept in recorder.kept] == [
        "2023-11-14T22-13-50Z-Produce.pcapng",
        "2023-11-14T22-13-50Z-Produce-2.pcapng",
    ]


def test_a_full_disk_is_said_and_leaves_nothing_half_written(
    recorder: Recorder,
    clock: Clock,
    chunk: Callable,
    notices: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    chunk(1, 0, 60)
    recorder.add(match(30))
    clock.seconds = 60
    monkeypatch.setattr("captures.export.pcapng_writer.PcapngWriter.write_packets", full)
    recorder.save_due()
    assert recorder.kept == []
    assert list((tmp_path / "kept").iterdir()) == []
    (notice,) = notices
    assert notice.endswith("No space left on device: what surrounds Produce v9 was not kept")


def test_the_thread_keeps_on_demand(recorder: Recorder, clock: Clock, chunk: Callable) -> None:
    chunk(1, 0, 33)
    clock.seconds = 32
    recorder.start()
    recorder.keep_now("asked", "the request to keep (SIGUSR1)")
    recorder.close()
    (kept,) = recorder.kept
    assert seconds(kept) == list(range(22, 33))
    assert kept.path.name.endswith("-asked.pcapng")
    assert kept.missing == "recording ended 5 s before the end of the window"


def test_the_end_keeps_what_came_before_it(recorder: Recorder, clock: Clock, chunk: Callable) -> None:
    chunk(1, 0, 33)
    clock.seconds = 32
    recorder.start()
    recorder.close()
    (kept,) = recorder.kept
    assert seconds(kept) == list(range(22, 33))
    assert kept.path.name.endswith("-end.pcapng")
    assert kept.missing == ""
