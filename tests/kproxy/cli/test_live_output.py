"""Recordings of a running proxy, shown as they grow: with ``Watching`` itself, and with ``kproxy attach``."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from captures.analysis.findings.rules.rebalances import SessionTimeouts
from captures.exchanges import Exchange
from captures.export.pcapng_writer import PcapngWriter
from captures.live.recorder import Match
from captures.packets import CaptureError
from kproxy.cli import attach_run, main
from kproxy.cli.attach_run import first_to_read
from kproxy.cli.live_output import LiveOutput, open_growing
from kproxy.cli.options import LiveOptions
from kproxy.proxy.run_folder import RunFolder
from tests.captures.exchanges.proxied import DELAYED, Recording, metadata, rewritten
from tests.captures.packets.kit import Conversation
from tests.kproxy.proxy.fake_plane import FakePlane, serving
from tests.waiting import PATIENCE

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"


class Recorder:
    """Records to a file under a lock, like the proxy's recorder."""

    def __init__(self, path: Path, now: int) -> None:
        self._file = path.open("wb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._writer = PcapngWriter(self._file)
        self._writer.interface(name="kproxy")
        self.recording = Recording(Conversation(now=now))
        self._written = 0

    def exchange(self, number: int) -> None:
        """Record another exchange."""
        asked, answered = metadata(number)
        self.recording.data(0, asked, DELAYED)
        self.recording.data(1, answered)
        self.flush()

    def flush(self) -> None:
        packets = self.recording.packets(self._written)
        self._writer.write_packets(packets)
        self._written += len(packets)

    def end(self) -> None:
        self._file.close()


def watching(*, as_json: bool = True, diagnose: bool = False, **how: Any) -> LiveOutput:
    return LiveOutput(LiveOptions(as_json=as_json, utc=True, color="never", diagnose=diagnose), **how)


# ------------------------------------------------------------ Watching
def test_everything_that_was_recorded_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = open_growing(rewritten(tmp_path / "proxied.pcapng"))
    assert capture is not None
    looked: list[int] = []
    view = watching(look=lambda exchange: looked.append(exchange.number))
    tally = view.watch(capture)
    assert view.conclude(capture, tally)
    out, err = capsys.readouterr()
    assert [json.loads(line)["number"] for line in out.splitlines()] == [1, 2, 3]
    assert looked == [1, 2, 3]
    assert err.startswith("3 exchanges of 1 client")
    capture.source.close()


def test_what_fits_is_told_to_the_flight_recorder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = open_growing(rewritten(tmp_path / "proxied.pcapng"))
    assert capture is not None
    matches: list[Match] = []
    view = watching(quiet=True, keep="held")
    recorder: Any = SimpleNamespace(match=matches.append)
    view.recorder = recorder
    tally = view.watch(capture)
    assert view.conclude(capture, tally)
    (match,) = matches
    assert match.name == "Metadata"
    assert "[request delayed by 200 ms; held 2.5 s, released]" in match.text
    assert match.end > match.begin
    assert capsys.readouterr() == ("", "")
    capture.source.close()


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True], ids=["lines", "json"])
def test_it_is_diagnosed_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    """This also holds if bodies are prepared for display, unlike those that rules see."""
    capture = open_growing(SAMPLE)
    assert capture is not None
    view = watching(as_json=as_json, diagnose=True)
    tally = view.watch(capture)
    assert len(capsys.readouterr().out.splitlines()) == 402 + (not as_json)  # a heading
    assert view.conclude(capture, tally)
    err = capsys.readouterr().err
    assert (
        "m3 was removed from group gr2-java_eager_range after 6 s of silence: its process ended"
        in " ".join(err.split())
    )
    assert "#252" in err
    capture.source.close()


@pytest.mark.slow
def test_the_diagnosis_goes_on_after_an_error_in_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(rule: SessionTimeouts, exchange: Exchange) -> None:
        if exchange.number in (17, 18):
            raise KeyError("no such topic")

    monkeypatch.setattr(SessionTimeouts, "apis", None)
    monkeypatch.setattr(SessionTimeouts, "add", broken)
    capture = open_growing(SAMPLE)
    assert capture is not None
    view = watching(diagnose=True)
    tally = view.watch(capture)
    assert not view.conclude(capture, tally)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 402
    assert err.count("exchange 17: the rule session_timeouts failed: KeyError: 'no such topic'") == 1
    assert err.count("exchange 18: the rule session_timeouts failed") == 1
    assert "Please report" in err
    assert "m3 was removed from group gr2-java_eager_range" in " ".join(err.split())
    capture.source.close()


@pytest.mark.slow
def test_a_diagnosis_that_fails_every_time_says_nothing_is_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("no such topic")

    monkeypatch.setattr("captures.analysis.findings.diagnosis.Diagnosis.add", broken)
    capture = open_growing(SAMPLE)
    assert capture is not None
    view = watching(diagnose=True)
    tally = view.watch(capture)
    assert not view.conclude(capture, tally)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 402
    assert "these are 402 internal errors in kproxy (397 of them are not listed)" in err
    assert "Nothing is wrong" not in err
    capture.source.close()


def test_what_began_earlier_is_only_learned_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rewritten(tmp_path / "proxied.pcapng")
    whole = [
        json.loads(line)
        for line in CliRunner().invoke(main, ["read", "--json", str(path)]).stdout.splitlines()
    ]
    capture = open_growing(path)
    assert capture is not None
    watching(since=_nanoseconds(whole[1]["time"])).watch(capture)
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert shown == whole[1:]
    capture.source.close()


def _nanoseconds(text: str) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(fraction)


def test_so_many_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(tmp_path / "growing.pcapng", 1)
    recorder.exchange(1)
    recorder.exchange(2)
    capture = open_growing(tmp_path / "growing.pcapng")
    assert capture is not None
    watching(count=1).watch(capture)  # although the recording continues
    assert len(capsys.readouterr().out.splitlines()) == 1
    capture.source.close()
    recorder.end()


def test_a_recording_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path, looks = tmp_path / "later.pcapng", 0

    def wanted() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            rewritten(path)
        return True

    capture = open_growing(path, wanted=wanted)
    assert capture is not None
    capture.source.close()
    assert looks == 2
    assert open_growing(tmp_path / "never.pcapng", wanted=lambda: False) is None
    with pytest.raises(CaptureError):
        open_growing(tmp_path / "never.pcapng", patience=0)


def test_which_file_is_the_first_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        (tmp_path / f"{number:08d}.pcapng").write_bytes(b"x" * 100)
    assert first_to_read(str(tmp_path)) == ""
    monkeypatch.setattr(attach_run, "_MOST_BEFORE", 250)
    assert first_to_read(str(tmp_path)) == "00000004.pcapng"
    monkeypatch.setattr(attach_run, "_MOST_BEFORE", 1)
    assert first_to_read(str(tmp_path)) == "00000005.pcapng"
    assert first_to_read(str(tmp_path / "00000001.pcapng")) == ""


# ------------------------------------------------------------ attach
@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


class Plane(FakePlane):
    def __init__(self, path: Path) -> None:
        self.recording = {"dropped_bytes": 0, "dropped_connections": 0}
        self.more: dict[str, Any] = {"clusters": {"east": {}, "west": {}}}
        super().__init__(path, {"status": lambda _: {"recording": self.recording, **self.more}})


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    folder = RunFolder.create(9092)
    folder.write(listen="127.0.0.1:9092", capture=str(tmp_path / "growing.pcapng"))
    with serving(Plane(folder.control_socket)) as made:
        yield made


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    made = Recorder(tmp_path / "growing.pcapng", time.time_ns() - 3600 * 10**9)
    made.exchange(1)
    made.recording.made.now = time.time_ns() + 3600 * 10**9  # unaffected by the clock of the test
    yield made
    made.end()


Attach = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def attach() -> Iterator[Attach]:
    """Start ``kproxy attach``."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kproxy", "attach", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for the process to exit; return its remaining output."""
    assert process.stdout is not None
    assert process.stderr is not None
    rest = process.stdout.read(), process.stderr.read()
    process.wait(PATIENCE)
    return rest


@pytest.mark.slow
def test_attach_shows_what_comes(plane: Plane, recorder: Recorder, attach: Attach) -> None:
    process = attach("--json")
    plane.until(lambda: len(plane.server._subscribers) == 1)
    recorder.exchange(2)
    assert process.stdout is not None
    shown = json.loads(process.stdout.readline())
    assert (shown["correlation_id"], shown["flags"]) == (2, ["fault", "intervened"])
    recorder.end()  # this ends attach, too
    out, err = end(process)
    assert (out, process.returncode) == ("", 0)
    assert err.startswith("1 exchange of 1 client")


@pytest.mark.slow
def test_attach_from_the_start(plane: Plane, recorder: Recorder, attach: Attach) -> None:
    process = attach("--from-start", "--json")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["correlation_id"] == 1
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == ""
    assert process.returncode == 0


@pytest.mark.slow
def test_attach_diagnoses_too(plane: Plane, recorder: Recorder, attach: Attach) -> None:
    process = attach("--from-start", "--diagnose")
    assert process.stdout is not None
    assert "Metadata" in process.stdout.readline() + process.stdout.readline()  # after the heading
    process.send_signal(signal.SIGINT)
    assert re.search(r"^(Nothing is wrong.*|\d+ findings?: .*)\.$", end(process)[1], re.MULTILINE)
    assert process.returncode == 0


@pytest.mark.slow
def test_attach_knows_the_names_of_the_clusters(plane: Plane, recorder: Recorder, attach: Attach) -> None:
    process = attach("-Y", "cluster == wset")
    assert "there is no cluster wset" in end(process)[1]
    assert process.returncode == 2


@pytest.mark.slow
def test_attach_to_a_proxy_of_an_earlier_release(plane: Plane, recorder: Recorder, attach: Attach) -> None:
    plane.more = {}  # it tells nothing of clusters
    process = attach("--from-start", "--json", "--count=1", "-Y", "not cluster == east")
    assert json.loads(end(process)[0])["correlation_id"] == 1
    assert process.returncode == 0


@pytest.mark.slow
def test_attach_says_what_the_proxy_tells_and_what_it_drops(
    plane: Plane, recorder: Recorder, attach: Attach
) -> None:
    process = attach("--json")
    plane.until(lambda: len(plane.server._subscribers) == 1)
    plane.do(lambda: plane.server.publish({"event": "warning", "text": "something is wrong"}))
    plane.do(lambda: plane.server.publish({"event": "of_a_later_version"}))
    assert process.stderr is not None
    assert process.stderr.readline() == "kproxy: something is wrong\n"
    dropped = {"event": "dropped", "bytes": 1_000, "total": 1_000, "connections": 2}
    plane.do(lambda: plane.server.publish(dropped))
    assert process.stderr.readline() == (
        "kproxy: 1,000 bytes were forwarded but not recorded: recording is slower than traffic "
        "(1,000 of 2 connections so far)\n"
    )
    recovered = {"event": "recorder_recovered", "lost_packets": 1, "lost_bytes": 2_000}
    plane.do(lambda: plane.server.publish(recovered))
    assert process.stderr.readline() == (
        "kproxy: recording goes on: 1 packet with 2,000 bytes were not recorded meanwhile\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "controllers"), [((), 0), (("--control",), 1)])
def test_only_with_control_somebody_is_there(
    plane: Plane, recorder: Recorder, attach: Attach, arguments: tuple[str, ...], controllers: int
) -> None:
    process = attach(*arguments)
    plane.until(lambda: len(plane.server._subscribers) == 1)
    assert plane.do(lambda: plane.server.controllers) == controllers
    process.send_signal(signal.SIGINT)
    end(process)
    plane.until(lambda: plane.left == controllers)


def test_attach_needs_a_recording(plane: Plane) -> None:
    RunFolder(plane.path.parent).write(listen="127.0.0.1:9092", capture="")
    result = CliRunner().invoke(main, ["attach"])
    assert (result.exit_code, result.stderr) == (
        1,
        "kproxy: this proxy records nothing, so there is nothing to show\n",
    )


def test_a_proxy_that_does_not_answer_is_no_mystery() -> None:
    RunFolder.create(9092).write(listen="127.0.0.1:9092", capture="")
    result = CliRunner().invoke(main, ["attach"])
    assert result.exit_code == 1
    assert "the proxy does not listen on its control socket" in result.stderr


@pytest.mark.parametrize("outlives", ["", "forwarding goes on"])
def test_nobody_reads_what_is_printed_any_more(
    outlives: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with ``kproxy proxy | head``; commands that only print end in this case."""
    silenced: list[bool] = []
    monkeypatch.setattr("kproxy.cli.live_output.discard_output", lambda: silenced.append(True))

    def shown() -> None:
        raise BrokenPipeError

    looking = watching(outlives=outlives)
    if outlives:
        looking._unless_unread(shown)
        assert "the reader of the output has gone: forwarding goes on" in capsys.readouterr().err
    else:
        with pytest.raises(BrokenPipeError):
            looking._unless_unread(shown)
    assert silenced == [True] * bool(outlives)
