"""Hostile clients and brokers against a running proxy: ``python -m tests.lanes.hostile.live``.

While a client or broker attacks, a probe measures how long other clients wait: it sends ApiVersions requests on its own
connections, one after the other, through the proxy and directly. The difference is caused by the proxy, however busy
the machine is. Afterwards the lane checks the peak memory of the forwarding process (``VmHWM``) and its listening
ports. The exit code is 1 if a limit is exceeded.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import click
import psutil

from docs import generate
from docs.tools import security
from tests.kproxy.fake_broker import METADATA, Body, FakeBroker
from tests.kproxy.frames import request_frame
from tests.lanes.hostile.beside import measuring
from tests.lanes.hostile.records import million, packed
from tests.lanes.hostile.wire import API_VERSIONS, PRODUCE, TOPIC, heartbeat, produced, raw_request
from tests.lanes.kproxy_run import Kproxy
from tests.lanes.tools import CannotRun, free_ports, listens, wait_for

_MIB = 1 << 20
_LYING_TOPIC = "everywhere"
"""Who asks for it is told of thousands of brokers."""
_BROKERS = 12_000
_RECORDS = 1_000_000
_ANNOUNCED, _SENT, _SENDERS = 60_000_000, 59_000_000, 12
_AT_MOST_S = 60
"""How long a hostile client waits for an answer, and the probe goes on."""


class Bounds(NamedTuple):
    """The limits of an attack: seconds that others wait, MiB of the forwarding process, listening ports."""

    waits: float = 3.0
    memory: int = 512
    ports: int = 1_000


DEFAULT = Bounds()


@dataclass(frozen=True)
class Attack:
    """An attack on a running proxy.

    :ivar options: options of the proxy
    :ivar attack: runs it, given the proxy's port; errors of the system, such as a reset, are ignored
    """

    name: str
    about: str
    options: tuple[str, ...]
    attack: Callable[[int], None]
    bounds: Bounds = DEFAULT


@dataclass
class Probe:
    """Sends ApiVersions requests one after the other.

    :ivar waited: seconds until each response
    """

    port: int
    waited: list[float] = field(default_factory=list)
    failed: str = ""

    def run(self, until: threading.Event) -> None:
        """Probe until there are enough responses; each may take :data:`_AT_MOST_S` at most."""
        asked = raw_request(API_VERSIONS, 0, b"", 7)
        began = monotonic()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=_AT_MOST_S) as connection:
                while not until.is_set():
                    began = monotonic()
                    connection.sendall(asked)
                    _answer(connection)
                    self.waited.append(monotonic() - began)
                    until.wait(0.01)
        except OSError as error:
            self.failed = str(error) or type(error).__name__
            self.waited.append(monotonic() - began)


def _answer(connection: socket.socket) -> bytes:
    """Return the payload of the next frame."""
    return _exactly(connection, int.from_bytes(_exactly(connection, 4), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    held = bytearray()
    while len(held) < size:
        data = connection.recv(min(size - len(held), 1 << 20))
        if not data:
            raise ConnectionError("the connection was closed")
        held += data
    return bytes(held)


# ---------------------------------------------------------------- what is hostile
@contextmanager
def _client(port: int) -> Iterator[socket.socket]:
    """A connection that has sent a valid request."""
    with socket.create_connection(("127.0.0.1", port), timeout=_AT_MOST_S) as connection:
        connection.sendall(heartbeat()[0])
        _answer(connection)
        yield connection


def _regex(port: int) -> None:
    with _client(port) as connection:
        connection.sendall(heartbeat(1, "a" * 28 + "!")[0])
        _answer(connection)


def _bomb(port: int) -> None:
    batches = (million(_RECORDS, number) for number in range(10))
    with _client(port) as connection:
        connection.sendall(produced(b"".join(batches))[0])
        _answer(connection)


def _brokers(port: int) -> None:
    with _client(port) as connection:
        connection.sendall(request_frame(METADATA, 1, {"topics": [{"name": _LYING_TOPIC}]}))
        _answer(connection)


def _announced(port: int) -> None:
    head = (
        _ANNOUNCED.to_bytes(4, "big") + raw_request(PRODUCE, 8, b"\xff\xff\xff\xff\0\0\x75\x30\0\0\0\1")[4:]
    )
    opened = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(_SENDERS)]
    try:
        for connection in opened:
            with suppress(OSError):  # the connection may be suspended or closed
                connection.sendall(head)
                connection.sendall(bytes(_SENT))
    finally:
        for connection in opened:
            connection.close()


_ON_KEY = ("--fault", "api == Produce and key == zzz => delay 1ms")

ATTACKS = (
    Attack(
        "a rule that backtracks",
        'a rule with ^(a+)+$, and a client ID of 28 letters "a"',
        ("--fault", 'client_id ~ "^(a+)+$" => delay 1ms'),
        _regex,
    ),
    Attack("a Produce request of ten million records", "476 KB, with a rule on keys", _ON_KEY, _bomb),
    Attack("a Metadata response with 12,000 brokers", "the broker lies", (), _brokers),
    Attack(
        "twelve requests of 60 MB that are never whole",
        "59 MB of each come, with a rule on Produce",
        _ON_KEY,
        _announced,
    ),
)


# ---------------------------------------------------------------- the broker
def _lie(broker: FakeBroker, body: Body, version: int) -> Body:
    told = broker.metadata(body, version)
    if any(each.get("name") == _LYING_TOPIC for each in body["topics"] or ()):
        told["brokers"] = [
            *told["brokers"],
            *(
                {"node_id": 10 + number, "host": f"b{number}.example", "port": 9092}
                for number in range(_BROKERS)
            ),
        ]
    return told


def _serve(port: int) -> None:
    async def served() -> None:
        broker = FakeBroker(port=port)
        broker.topic(TOPIC)
        broker.answers[METADATA] = lambda body, version: _lie(broker, body, version)
        async with broker:
            await asyncio.Event().wait()

    asyncio.run(served())


@contextmanager
def broker() -> Iterator[int]:
    """Run a broker in another process; yields its port."""
    [port] = free_ports(1)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(port,), daemon=True)
    process.start()
    try:
        wait_for("the broker", lambda: listens(port), timeout=20)
        yield port
    finally:
        process.terminate()
        process.join()


# ---------------------------------------------------------------- the lane
class Felt(NamedTuple):
    """The effects of an attack.

    :ivar waited: the longest wait of others in seconds, through the proxy and directly
    :ivar memory: peak memory of the forwarding process, MiB
    :ivar ports: number of its listening ports
    """

    waited: float
    without: float
    memory: int
    ports: int
    failed: str = ""

    def wrong(self, bounds: Bounds) -> str:
        """Return the exceeded limits as text, empty if there are none."""
        found = [self.failed] if self.failed else []
        if self.waited - self.without > bounds.waits:
            found.append(f"others waited {self.waited:.2f} s")
        if self.memory > bounds.memory:
            found.append(f"{self.memory:,} MiB")
        if self.ports > bounds.ports:
            found.append(f"{self.ports:,} ports")
        return ", ".join(found)


def felt(attack: Attack, broker_port: int, folder: Path) -> Felt:
    """Start a proxy, attack it, and measure the effects on others."""
    kproxy = Kproxy(f"127.0.0.1:{broker_port}", folder, awaited=1)
    kproxy.start(("-q", "--no-capture", *attack.options))
    plane = kproxy.plane
    try:
        through, past = Probe(kproxy.port), Probe(broker_port)
        enough = threading.Event()
        probes = [threading.Thread(target=each.run, args=(enough,)) for each in (through, past)]
        for probe in probes:
            probe.start()
        enough.wait(0.5)
        failed = ""
        try:
            attack.attack(kproxy.port)
        except OSError as error:  # refused or aborted, which is fine as long as others are served
            failed = f"the attacker was not answered: {error}" if isinstance(error, TimeoutError) else ""
        enough.wait(0.5)
        enough.set()
        for probe in probes:
            probe.join()
        return Felt(
            max(through.waited, default=0.0),
            max(past.waited, default=0.0),
            _peak(plane.pid),
            sum(each.status == psutil.CONN_LISTEN for each in plane.net_connections("tcp")),
            through.failed or failed,
        )
    finally:
        kproxy.kill()


def _peak(pid: int) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) // 1024


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help="Bring docs/security.md up to date.")
def main(names: tuple[str, ...], write: bool) -> None:
    wrong, told = 0, []
    entry = measuring("live")
    packed(_RECORDS)  # before anything is timed
    with tempfile.TemporaryDirectory(prefix="hostile-live-") as folder, broker() as port:
        for number, attack in enumerate(ATTACKS):
            if names and not any(name in attack.name for name in names):
                continue
            try:
                found = felt(attack, port, Path(folder) / str(number))
            except CannotRun as why:
                click.echo(f"{attack.name}: {why}")
                wrong += 1
                continue
            what = found.wrong(attack.bounds)
            wrong += bool(what)
            verdict = f": {what}" if what else ""
            click.echo(
                f"{attack.name}: others waited {found.waited * 1000:,.0f} ms at most "
                f"(past it {found.without * 1000:,.0f}), {found.memory:,} MiB, {found.ports:,} ports{verdict}"
            )
            told.append({"name": attack.name, "about": attack.about, **found._asdict()})
    if write:
        security.write("live", entry | {"attacks": told})
        generate.main()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
