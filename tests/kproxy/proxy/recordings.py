"""A tee with its recorder process, for tests, and readers for the recording."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import structs

from captures.exchanges import Capture
from captures.exchanges.capture import open_capture
from kproxy.proxy.recorder import RecordingOptions, start_recorder
from kproxy.proxy.tee import Tee
from tests.waiting import PATIENCE, wait_until

CLIENT, BROKER = ("10.1.0.7", 50_001), ("10.9.0.1", 9092)
T0 = 1_790_000_000_000_000_000
MS = 1_000_000


class RecordedTee:
    """A tee with a running recorder."""

    def __init__(self, settings: RecordingOptions, size: int = 1 << 20, *, lossless: bool = False) -> None:
        self.tee = Tee(size, lossless=lossless)
        self.settings = structs.replace(settings, lossless=lossless)
        self.events: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        """Start a recorder, and wait until it is ready."""
        self.process = start_recorder(self.tee, self.settings)
        self.next_event()

    def next_event(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        event: dict[str, Any] = json.loads(line) if line else {"event": "gone"}
        self.events.append(event)
        return event

    def wait_for_event(self, name: str) -> dict[str, Any]:
        while self.next_event()["event"] not in (name, "gone"):
            pass
        assert self.events[-1]["event"] == name, self.events
        return self.events[-1]

    def of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    def settle(self) -> None:
        """Wait until the recorder has processed everything so far."""
        wait_until(lambda: not self.tee.congested and not self.tee.waiting)

    def close(self) -> None:
        """Close the tee, and wait for the recorder to end; its last events are in :attr:`events` then."""
        self.tee.close()
        assert self.process.stdout is not None
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.events += [json.loads(line) for line in rest.splitlines()]

    def __enter__(self) -> RecordedTee:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tee.close()
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            self.process.kill()
            self.process.communicate()


def read(path: Path | str) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def streams(capture: Capture) -> list[tuple[bytes, bytes]]:
    """Return the recorded bytes of each side of each connection."""
    found = []
    for connection in range(len(capture.connections)):
        client = capture.client_stream(connection)
        ends = [int(capture.connections.streams.end[client ^ side]) for side in (0, 1)]
        found.append(
            (
                capture.index.read_captured(client, 0, ends[0]),
                capture.index.read_captured(client ^ 1, 0, ends[1]),
            )
        )
    return found


def followed(path: Path | str, ends: tuple[str, str]) -> tuple[bytes, bytes]:
    """Return the bytes of each side of a connection, by tshark's own reassembly."""
    out = subprocess.run(
        ["tshark", "-r", str(path), "-q", "-z", f"follow,tcp,raw,{','.join(ends)}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    node = next(line for line in out if line.startswith("Node 0:"))
    lines = [line for line in out if line and all(each in "0123456789abcdef\t" for each in line)]
    first = b"".join(bytes.fromhex(line) for line in lines if not line.startswith("\t"))
    second = b"".join(bytes.fromhex(line.strip()) for line in lines if line.startswith("\t"))
    return (first, second) if node.split()[-1] == ends[0] else (second, first)
