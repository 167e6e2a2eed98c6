"""Exchanges to copy: requests built from bodies, and those of recorded captures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.packets.tls import KeyLog
from kproxy.copy_as import Context
from kproxy.copy_as.shell import Command
from tests.kproxy.frames import Body
from tests.kproxy.replay.recording import Recording

BROKER = ("10.0.0.9", 9092)
ADDRESS = "10.0.0.9:9092"
DATA = Path(__file__).parents[2] / "data" / "captures"
SCRAM = DATA / "24_k430_franz_scramsha256.pcap"


def asked(key: int, version: int, body: Body) -> Exchange:
    """Return the exchange of an unanswered request."""
    recording = Recording()
    recording.connection("app", broker=BROKER).ask(1, key, version, body, answered=False)
    with TemporaryDirectory() as folder:
        reader = ExchangeReader(recording.capture(Path(folder)))
        return next(iter(reader))


def recorded(
    path: Path | str, *, show_secrets: bool = False, keylog: Path | None = None
) -> tuple[Context, list[Exchange]]:
    """Return the content of a capture."""
    capture = open_capture(str(path), keylog=None if keylog is None else KeyLog(str(keylog)))
    capture.read()
    return context(capture, show_secrets=show_secrets), list(
        ExchangeReader(capture, show_secrets=show_secrets)
    )


def context(capture: Capture, *, show_secrets: bool = False) -> Context:
    """Return the context that formats need for a capture."""
    return Context(capture, show_secrets=show_secrets)


def lines(commands: list[Command]) -> list[str]:
    """Return command lines with their preceding comments."""
    return [line for command in commands for line in command.lines()]


def words(commands: list[Command]) -> Iterator[list[str]]:
    """Yield the words of command lines, without the broker."""
    for command in commands:
        yield [word for word in command.words if word not in (ADDRESS, "--bootstrap-server")]
