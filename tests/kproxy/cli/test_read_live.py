"""``kproxy read`` on captures that are still being written: the real program, with a pipe or a growing file."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

from kproxy.cli import main
from tests.conftest import DATA
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

CAPTURE = DATA / "20_k430_ck_zstd.pcap"
HALF = CAPTURE.stat().st_size // 2

Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Return a function that starts ``kproxy read``, with input from ``run.stdin``."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kproxy", "read", "--utc", *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def feed(process: subprocess.Popen[str], data: bytes) -> None:
    assert process.stdin is not None
    os.write(process.stdin.fileno(), data)


def wait_until_read(process: subprocess.Popen[str]) -> None:
    """Wait until the pipe is empty."""
    assert process.stdin is not None
    left = bytearray(4)
    while not fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, left) and any(left):
        time.sleep(0.02)


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Wait for the next lines and return them."""
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def end(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    """Return the remaining lines, and standard error."""
    stdin, process.stdin = process.stdin, None
    assert stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    stdin.close()
    # not communicate(), which ignores lines that are already buffered
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(PATIENCE)
    return out.splitlines(), err


def whole(*arguments: str, path: Path = CAPTURE) -> list[Any]:
    """Return the exchanges of a finished file."""
    result = CliRunner().invoke(main, ["read", "--json", *arguments, str(path)])
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_exchanges_are_shown_while_the_pipe_is_open(run: Run) -> None:
    process = run("-")
    feed(process, CAPTURE.read_bytes()[:HALF])
    header, first = lines(process, 2)
    assert header.split()[:5] == ["#", "time", "ms", "client", "broker"]
    assert "ApiVersions v3" in first
    feed(process, CAPTURE.read_bytes()[HALF:])
    rest, err = end(process)
    assert len(rest) == len(whole()) - 1
    assert f"{len(whole())} exchanges of 1 client" in err
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_like_the_end_of_the_capture(run: Run, number: int) -> None:
    process = run("--json", "-")
    feed(process, CAPTURE.read_bytes()[:HALF])
    (first,) = lines(process, 1)
    assert json.loads(first)["api"] == "ApiVersions"
    process.send_signal(number)
    _, err = end(process)
    assert "exchanges of 1 client in" in err
    assert "damaged" not in err
    assert process.returncode == 0


def test_ctrl_c_before_anything_has_come(run: Run) -> None:
    process = run("-")
    feed(process, CAPTURE.read_bytes()[:24])
    wait_until_read(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 3
    assert "No Kafka exchanges." in end(process)[1]


def test_it_ends_after_as_many_as_were_wanted(run: Run) -> None:
    process = run("--json", "-c", "3", "-")
    feed(process, CAPTURE.read_bytes()[:HALF])
    assert len(lines(process, 3)) == 3
    assert process.wait(PATIENCE) == 0
    assert "3 exchanges" in end(process)[1]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-Y", "api == Fetch"),
        ("-Y", "group == 'none' or topic ~ qc"),
        ("--from", "1s"),
        ("--from", "100ms", "--to", "3500ms"),
    ],
)
def test_the_same_is_shown_as_of_the_finished_file(run: Run, arguments: tuple[str, ...]) -> None:
    process = run("--json", *arguments, "-")
    feed(process, CAPTURE.read_bytes())
    out, _ = end(process)

    def numberless(made: list[Any]) -> list[str]:
        return sorted(json.dumps(each | {"number": 0}) for each in made)

    assert numberless([json.loads(line) for line in out]) == numberless(whole(*arguments))


def test_every_field_is_shown_live(run: Run) -> None:
    process = run("-V", "-")
    feed(process, CAPTURE.read_bytes()[:HALF])
    shown = "".join(lines(process, 6))
    assert "client_software_name" in shown


def test_the_packets_of_what_was_shown_are_written(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    process = run("-Y", "api == Fetch", "-w", str(out), "-")
    feed(process, CAPTURE.read_bytes())
    _, said = end(process)
    assert {exchange["api"] for exchange in whole(path=out)} == {"Fetch", "Metadata"}
    assert "packets of 1 more exchange with the names of their topics were written" in said


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "zstd"])
def test_a_growing_file_is_followed(run: Run, tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "growing"
    data = CAPTURE.read_bytes()
    compressor = zstandard.ZstdCompressor().compressobj()

    def pack(part: bytes) -> bytes:
        return (
            compressor.compress(part) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            if packed
            else part
        )

    with path.open("wb", buffering=0) as file:
        process = run("--json", "-F", str(path))
        file.write(pack(data[:HALF]))
        (first,) = lines(process, 1)
        assert json.loads(first)["number"] == 1
        file.write(pack(data[HALF:]))
        last = len(whole())
        lines(process, last - 1)
        process.send_signal(signal.SIGINT)
        rest, err = end(process)
    assert (rest, process.returncode) == ([], 0)
    assert f"{last} exchanges" in err


def test_a_followed_file_that_is_cut_says_so(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_bytes(CAPTURE.read_bytes())
    process = run("--json", "-F", str(path))
    lines(process, 30)
    os.truncate(path, 24)
    _, err = end(process)
    assert "the file was truncated to 24 bytes while it was followed" in err
    assert process.returncode == 3


def test_one_exchange_of_a_pipe_is_numbered_as_in_the_file(run: Run) -> None:
    process = run("--exchange", "5", "-")
    feed(process, CAPTURE.read_bytes())
    out, _ = end(process)
    assert process.returncode == 0
    assert whole()[4]["api"] in out[0]


@pytest.mark.parametrize(
    ("size", "error"),
    [("lots", "'lots' is not a size: write 500MB or 8GiB"), ("1MB", "1MB is too small: use at least 64MiB")],
)
def test_a_spool_that_makes_no_sense_is_refused(run: Run, size: str, error: str) -> None:
    process = run("--spool", size, "-")
    _, err = end(process)
    assert error in err
    assert process.returncode == 2
