"""``kproxy sniff`` as its users run it: recorded conversations are repeated on the loopback interface.

Tests that need no live traffic run on a fake device that plays a capture file.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner, Result

from captures.live.device import Counts, DeviceError, NotPermittedError, Settings
from kproxy.cli import main
from kproxy.cli.sniff import _output
from kproxy.cli.sniff_run import _ring_folder
from tests.captures.live.kit import needs_capturing, needs_libpcap, needs_root, replay
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "captures"
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
EXCHANGES = 402  # INDEX.tsv of the recordings: framed_requests of 21_k430_java_eager_range.pcap
PLAIN = DATA / "22_k430_java_commit_abort.pcap"
TLS = DATA / "tls_kafka_python_13.pcap"
STAY = ["-Z", "root"] if os.geteuid() == 0 else []  # the test process must not change its user


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["sniff", *arguments])


def read(path: Path, *arguments: str) -> list[dict]:
    result = CliRunner().invoke(main, ["read", "--json", *arguments, str(path)], catch_exceptions=False)
    return [json.loads(line) for line in result.stdout.splitlines()]


def essence(exchanges: list[dict]) -> list[tuple]:
    """Return the properties of exchanges that do not depend on place and time, in a fixed order."""
    return sorted(
        (
            each["api"],
            each["version"],
            each["correlation_id"],
            json.dumps((each["request"], each["response"])),
        )
        for each in exchanges
    )


# ------------------------------------------------------------ files
def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "kafka.pcap"
    path.write_bytes(b"before")
    path.chmod(0o644)
    found = _output(str(path), None)
    assert found is not None
    with found[0] as file:
        file.write(b"after")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"after", 0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(click.UsageError, match="it is a symbolic link"):
        _output(str(link), None)
    assert path.read_bytes() == b"after"


def test_the_folder_of_a_ring_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = _ring_folder(tmp_path / "kept")
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


# ------------------------------------------------------------ live
@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@contextmanager
def sniffing(
    server: socket.socket, *arguments: str, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A running ``kproxy sniff`` on one port; it is stopped with Ctrl-C and has to exit with success."""
    expression = ["-f", f"tcp port {server.getsockname()[1]}"]
    command = [sys.executable, "-m", "kproxy", "sniff", "-i", "lo", *expression, *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
    )
    try:
        assert process.stderr is not None
        assert "capturing on lo" in until("capturing on", process.stderr)
        yield process
    finally:
        process.kill()
        process.communicate()


def until(text: str, lines: IO[str]) -> str:
    """Read up to the line with a text; return that line, or all lines."""
    seen = ""
    for line in lines:
        seen += line
        if text in line:
            return line
    return seen


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C; return the remaining output."""
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stderr is not None
    # not communicate(), which ignores lines that are already buffered
    printed = process.stdout.read(), process.stderr.read()
    process.wait(PATIENCE)
    return printed


@pytest.mark.slow
@needs_capturing
@needs_libpcap
def test_exchanges_are_shown_while_capturing_goes_on(server: socket.socket) -> None:
    recorded = read(PLAIN)
    with sniffing(server, "--json") as process:
        replay(PLAIN, server)
        assert process.stdout is not None
        shown = [process.stdout.readline() for _ in recorded]  # before it is asked to stop
        out, err = interrupt(process)
    assert out == ""
    assert essence(list(map(json.loads, shown))) == essence(recorded)
    counts, closing = err.splitlines()[-2:]
    assert counts.endswith(", 0 dropped by the kernel, 0 dropped by the interface")
    assert closing.startswith(f"{len(recorded)} exchanges of ")
    assert process.returncode == 0


@pytest.mark.slow
@needs_capturing
@needs_libpcap
def test_tls_is_read_as_its_key_log_grows(server: socket.socket, tmp_path: Path) -> None:
    keylog = TLS.with_suffix(".keylog")
    recorded = read(TLS, "--keylog", str(keylog))
    growing = Path(tempfile.mkdtemp()) / "keys.log"  # readable by the user that kproxy switches to
    growing.parent.chmod(0o755)
    with sniffing(server, "--json", "--keylog", str(growing)) as process:
        shutil.copyfile(keylog, growing)
        replay(TLS, server)
        out, _ = interrupt(process)
    shutil.rmtree(growing.parent)
    assert recorded
    assert essence(list(map(json.loads, out.splitlines()))) == essence(recorded)


@pytest.mark.slow
@needs_capturing
@needs_libpcap
@needs_root
def test_what_is_written_belongs_to_who_called_sudo(server: socket.socket) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        path = Path(folder, "out.pcap")
        sudo = {"SUDO_UID": "65533", "SUDO_GID": "65532", "SUDO_USER": "caller"}
        with sniffing(server, "-w", str(path), environment=sudo) as process:
            status = Path(f"/proc/{process.pid}/status").read_text()
            replay(PLAIN, server)
            out, _ = interrupt(process)
        assert "Uid:\t65533\t65533\t65533\t65533\n" in status
        assert "CapEff:\t0000000000000000\n" in status
        assert (path.stat().st_uid, path.stat().st_gid) == (65533, 65532)
        assert essence(read(path)) == essence(read(PLAIN))
        assert len(out.splitlines()) == len(read(PLAIN)) + 1


@pytest.mark.slow
@needs_capturing
@needs_libpcap
def test_a_number_of_packets_to_standard_output(server: socket.socket, tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    command = [sys.executable, "-m", "kproxy", "sniff", "-i", "lo", "-c", "20", "-w", "-"]
    command += ["tcp", "port", str(server.getsockname()[1])]
    with (
        path.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        until("capturing on", process.stderr)
        replay(PLAIN, server)
        process.wait(PATIENCE)
        assert process.stderr.read().startswith("20 packets captured, ")
    assert len(read(path)) > 0


@pytest.mark.slow
@needs_capturing
@needs_libpcap
def test_the_flight_recorder_keeps_what_surrounds_a_match(server: socket.socket) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        recorder = ["-q", "--ring", "64MiB", "--keep", "api == EndTxn", "--keep-dir", folder]
        with sniffing(server, *recorder, "--before", "1h", "--after", "1ms") as process:
            replay(PLAIN, server)
            assert process.stderr is not None
            until("kept", process.stderr)
            process.send_signal(signal.SIGUSR1)
            out, err = interrupt(process)
        assert out == ""
        assert "the request to keep this moment" in err
        kept = sorted(path.name for path in Path(folder).iterdir())
        assert [name.rpartition("-")[2] for name in kept] == ["EndTxn.pcapng", "asked.pcapng"]
        exchanges = read(Path(folder, kept[0]))
        assert [each["api"] for each in exchanges].count("EndTxn") > 0
        assert exchanges[0]["api"] == "ApiVersions"


# ------------------------------------------------------------ on a fake device
class Playback:
    """A device that plays a capture file, and then disappears.

    :param kernel: number of packets dropped by the kernel
    """

    warning = ""
    delay = 0.0

    def __init__(self, path: Path, kernel: Counts) -> None:
        self._rest = path.read_bytes()
        self._kernel = kernel
        self._file = -1
        self._readable, self._other = os.pipe()
        os.write(self._other, b"\0")

    def fileno(self) -> int:
        return self._readable

    def write_to(self, descriptor: int) -> None:
        self._file = os.dup(descriptor)

    def pump(self, most: int) -> int:
        if not self._rest:
            raise DeviceError("lo: The interface disappeared")
        return 1

    def flush(self) -> None:
        os.write(self._file, self._rest)
        self._rest = b""

    def end_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def counts(self) -> Counts:
        return self._kernel

    def close(self) -> None:
        os.close(self._readable)
        os.close(self._other)


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces live capturing with a capture file."""

    def play(path: Path, kernel: Counts) -> None:
        monkeypatch.setattr("captures.live.devices.open_device", lambda _: Playback(path, kernel))

    return play


def test_what_seems_absent_may_have_been_dropped(playing: Callable[..., None]) -> None:
    playing(SAMPLE, Counts(received=3000, dropped=7, interface_dropped=2))
    result = run(*STAY)
    assert "7 dropped by the kernel, 2 dropped by the interface" in result.stderr
    assert "9 packets dropped by the capturing machine" in result.stderr
    assert "1 unanswered (may have been dropped by the capture)" in result.stderr


@pytest.mark.slow
def test_nothing_is_said_of_drops_where_there_were_none(playing: Callable[..., None]) -> None:
    playing(SAMPLE, Counts(received=3000))
    result = run(*STAY)
    assert "0 dropped by the kernel" in result.stderr
    assert "may have been dropped" not in result.stderr


@pytest.mark.slow
def test_what_is_wrong_is_told(playing: Callable[..., None]) -> None:
    playing(SAMPLE, Counts(received=3000))
    result = run(*STAY, "-q", "--diagnose")
    assert result.stdout == ""
    assert "kproxy: member_absence-1  09:51:18.741  m3 of group gr2-java_eager_range" in result.stderr
    assert (
        "kproxy: MEDIUM: No member of group gr2-java_eager_range consumed" not in result.stderr
    )  # its effect
    assert "\nMEDIUM  (" in result.stderr  # all of it, with advice, at the end


def test_an_interface_that_goes_away(playing: Callable[..., None]) -> None:
    playing(SAMPLE, Counts())
    result = run(*STAY)
    assert result.exit_code == 1
    assert "kproxy: lo: The interface disappeared" in result.stderr
    assert len(result.stdout.splitlines()) == 1 + EXCHANGES


def test_a_number_of_exchanges_that_fit(playing: Callable[..., None]) -> None:
    playing(SAMPLE, Counts())
    result = run("-c", "3", "-Y", "api == JoinGroup and group ~ .", "--json", *STAY)
    assert [json.loads(line)["api"] for line in result.stdout.splitlines()] == ["JoinGroup"] * 3


def test_interfaces_are_listed() -> None:
    result = run("-D")
    assert result.exit_code == 0
    assert " lo" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["-f", "tcp", "port", "9092"], "not both"),
        (["-q"], "say with -w or --ring what is to be recorded"),
        (["--keep", "error"], "--keep needs --ring"),
        (["--ring", "1GB", "-w", "x.pcap"], "use one or the other"),
        (["-q", "-w", "x.pcap", "--json"], "use one or the other"),
        (["--before", "soon"], "is not a duration"),
    ],
)
def test_contradictions(arguments: list[str], problem: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert problem in result.stderr


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out.pcap"
    path.write_text("mine")
    result = run("-w", str(path))
    assert result.exit_code == 2
    assert "--force overwrites it" in result.stderr
    assert path.read_text() == "mine"


def test_without_the_privilege_there_are_lines_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(settings: Settings) -> None:
        raise NotPermittedError(f"{settings.interface}: Operation not permitted")

    monkeypatch.setattr("captures.live.devices.open_device", refused)
    result = run("-i", "eth0", "tcp", "port", "9092", *STAY)
    assert result.exit_code == 1
    assert "kproxy: eth0: Operation not permitted" in result.stderr
    assert "CAP_NET_RAW" in result.stderr


def test_taps_say_what_they_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def tap(settings: Settings, processes: tuple[int, ...]) -> Playback:
        asked.append((settings.interface, processes))
        return Playback(SAMPLE, Counts(received=3000, dropped=7))

    monkeypatch.setattr("captures.live.taps.device.TlsTap", tap)
    result = run("--tls-of", "7", "--tls-of", "8", *STAY)
    assert asked == [("processes 7, 8", (7, 8))]
    assert "reads what processes 7, 8 say over TLS, decrypted, secrets included" in result.stderr
    assert "7 dropped by the kernel" in result.stderr
    assert "JoinGroup" in result.stdout


def test_where_taps_are_not_possible_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.live.taps.device.obstacles", lambda: ["bpftrace is not installed"])
    result = run("--tls-all", *STAY)
    assert result.exit_code == 1
    assert "kproxy: bpftrace is not installed. kproxy doctor and docs/tls.md" in result.stderr


@pytest.mark.parametrize("more", [["-i", "lo"], ["--keylog", "keys"], ["tcp"], ["--tls-all"]])
def test_taps_read_no_packets(more: list[str]) -> None:
    assert run("--tls-of", "7", *more).exit_code == 2


@pytest.mark.parametrize(
    "more", [["-w", "x.pcap"], ["--ring", "1GB"], ["--keylog", "keys"], ["--tls-of", "8"]]
)
def test_an_agent_is_for_one_jvm_and_nothing_is_kept(more: list[str]) -> None:
    result = run("--tls-of", "7", "--tls-agent", "agent.jar", *more)
    assert (result.exit_code, "--tls-agent" in result.stderr) == (2, True)


@needs_capturing
@needs_libpcap
def test_a_capture_filter_with_a_mistake() -> None:
    result = run("-i", "lo", "tcp", "prt", "9092", *STAY)
    assert result.exit_code == 2
    assert "the capture filter is not understood: tcp prt 9092" in result.stderr


@needs_capturing
def test_an_interface_that_does_not_exist() -> None:
    result = run("-i", "eth77", *STAY)
    assert result.exit_code == 1
    assert "there is no interface eth77; -D lists the interfaces" in result.stderr


@needs_root
def test_a_user_that_does_not_exist() -> None:
    result = run("-Z", "gregor-samsa")
    assert result.exit_code == 1
    assert "there is no user gregor-samsa" in result.stderr


@pytest.mark.slow
@needs_root
@needs_capturing
def test_a_folder_that_the_user_may_not_write(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "kproxy",
        "sniff",
        "-i",
        "lo",
        "--ring",
        "64MiB",
        "--keep-dir",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert "cannot be made by nobody: Permission denied; -Z chooses another user" in done.stderr
