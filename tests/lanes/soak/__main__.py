"""The soak: an hour of mixed load through two proxies, with one failure after the other.

    python -m tests.lanes.soak                      # an hour
    python -m tests.lanes.soak --minutes 10 --keep

One proxy runs in front of three real brokers, with real clients that produce and consume all the time (see ``endure``
in ``clients/proxy/common.py``), and looks for findings. Brokers are stopped and killed, leaders move, clients are
suspended. The other one runs between the lane's own peers (:mod:`tests.lanes.soak.peers`), which know every expected
byte: connections are reset in the middle of requests and responses, half-closed, not read from, fed byte by byte, and
overloaded; their broker disappears. This proxy records to a disk that is full at times; its recorder is suspended and
killed. The clocks of both are set forward and back.

The checks at the end: no client missed an acknowledged record. No byte was altered, added or lost in transit. Every
byte missing from the capture was reported, by number; every exchange with all its bytes is read and decoded. Memory and
descriptors of all processes have not grown since the first quarter. The exit code is 1 if a check failed, 2 if a part
could not run here. The soak needs root (for its own network and a file system in memory) and libfaketime.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import psutil

from kproxy.proxy.control import CommandError
from tests.lanes.cluster import Cluster
from tests.lanes.confined import enter
from tests.lanes.kproxy_run import Kproxy
from tests.lanes.proxy import wait_for_progress
from tests.lanes.soak import accounts
from tests.lanes.soak.mishaps import Clock, SmallDisk
from tests.lanes.soak.peers import AWAY_S
from tests.lanes.soak.watch import Watch
from tests.lanes.through import CLIENTS, Endurer, JavaEndurer, ProgramEndurer
from tests.lanes.tools import CannotRun, Wrong, free_ports, listens, wait_for

_MIB = 1 << 20
_DISK = 640 * _MIB
_PIECE = "96MB"
_QUEUE = "4MB"  # size of the recorder's queue: small, so that it overflows
_INCOMPLETE = 3  # kproxy's exit code if bytes were not recorded
_AWAY_S = 15.0  # duration of a suspended recorder or client, and of a full disk
_HOUR_S = 3600
_TELLING_S = 1200  # live views remember five minutes, a quarter of this duration
_KILLS = 3  # of the recorder: the number of restarts is limited
_CLIENTS = ("java", "confluent-kafka", "kafka-python", "aiokafka", "kafkajs")
_PARTITIONS = 3


class Peers:
    """The lane's own client and broker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.journals = {role: folder / f"{role}.jsonl" for role in ("client", "broker")}
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        [self.port] = free_ports(1)
        self.away: list[tuple[float, float]] = []

    def start(self, role: str, port: int) -> None:
        with (self._folder / f"{role}.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.lanes.soak.peers", role, str(port), self.journals[role]]
            self._processes[role] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def go_away(self) -> None:
        """Have the broker reset all connections, and return after a while."""
        began = time.monotonic()
        self._processes["broker"].send_signal(signal.SIGUSR1)
        time.sleep(AWAY_S)
        wait_for("the peers' broker", lambda: listens(self.port))
        self.away.append((began, time.monotonic()))

    def end(self, role: str) -> None:
        """Stop one of them cleanly.

        :raises Wrong: if that fails, or it had already exited
        """
        process = self._processes[role]
        if process.poll() is not None:
            raise Wrong(f"the {role} ended: {(self._folder / f'{role}.log').read_text()[-1000:]}")
        process.terminate()
        if process.wait(300):
            raise Wrong(f"the {role} failed: {(self._folder / f'{role}.log').read_text()[-1000:]}")

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    @property
    def ended(self) -> int:
        """Number of ended connections."""
        path = self.journals["client"]
        return path.read_bytes().count(b"\n") if path.exists() else 0


class Soak:
    """The whole run.

    :ivar faults: number of failed checks
    """

    def __init__(self, work: Path, minutes: float) -> None:
        self.faults = 0
        self._seconds = minutes * 60
        self._work = work
        self._clock = Clock(work / "clock")
        self._stack = ExitStack()
        self._enduring: list[Endurer] = []
        self._kills = 0

    @contextmanager
    def _part(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except (Wrong, CannotRun, CommandError, OSError, psutil.Error) as why:
            self.faults += 1
            click.echo(f"  {what}: FAILED: {why} ({time.monotonic() - began:.0f} s)")
        else:
            click.echo(f"  {what}: passed ({time.monotonic() - began:.0f} s)")

    # -- set up ------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Run everything."""
        with self._stack:
            self._start()
            watch = Watch({"clients": self._clients, "peers": self._peered}, self._work / "watch.jsonl")
            self._stack.callback(watch.end)
            self._go_on(time.monotonic() + self._seconds)
            courses = watch.end()
            self._finish()
        if self._seconds < _TELLING_S:
            click.echo(f"too short to tell whether memory stays: that takes {_TELLING_S // 60} minutes")
            return
        click.echo("what stayed")
        for course in courses:
            with self._part(str(course)):
                if course.grown:
                    raise Wrong(course.grown)

    def _start(self) -> None:
        commands = {name: CLIENTS[name].prepare() for name in _CLIENTS}
        enter()
        work, stack = self._work, self._stack
        self._cluster = stack.enter_context(Cluster(work / "cluster"))
        self._disk = stack.enter_context(SmallDisk(work / "disk", work / "peers-capture", _DISK))
        self._peers = Peers(work / "peers")
        stack.callback(self._peers.kill)
        self._peers.start("broker", self._peers.port)
        wait_for("the peers' broker", lambda: listens(self._peers.port))
        env = self._clock.env
        self._clients = Kproxy(self._cluster.bootstrap, work / "clients", env=env)
        stack.callback(self._clients.kill)
        self._clients.start(["-q", "--diagnose", "-w", str(self._clients.capture)])
        self._peered = Kproxy(f"127.0.0.1:{self._peers.port}", work / "peered", awaited=0, env=env)
        stack.callback(self._peered.kill)
        bounded = ("-w", str(self._disk.folder / "peers.pcapng"), "--rotate-size", _PIECE, "--queue", _QUEUE)
        self._peered.start(["-q", "--metrics", f"127.0.0.1:{free_ports(1)[0]}", *bounded])
        for name, command in commands.items():
            topic = f"soak-{name}"
            self._cluster.create_topic(topic, _PARTITIONS)
            one: Endurer
            if name == "java":
                one = JavaEndurer(name, self._clients.address, topic, work)
            else:
                one = ProgramEndurer(name, command, self._clients.address, topic, work)
            stack.callback(one.kill)
            self._enduring.append(one)
        self._peers.start("client", self._peered.port)

    # -- the hour ----------------------------------------------------------------------------------------------
    def _go_on(self, until: float) -> None:
        with self._part("all at work"):
            self._progress()
        mishaps = self._mishaps()
        pause = max(self._seconds / _HOUR_S * 12, 1)
        while time.monotonic() < until:
            for what, happen in mishaps.items():
                if time.monotonic() > until:
                    break
                if happen == self._recorder_killed and self._kills == _KILLS:
                    continue
                with self._part(what):
                    happen()
                    self._progress()
                time.sleep(pause)
        with self._part("the clock as it was"):
            self._clock.set(0)
            time.sleep(3)
            self._progress()

    def _progress(self) -> None:
        ended = self._peers.ended
        wait_for_progress(self._enduring)
        wait_for("connections of the peers", lambda: self._peers.ended > ended + 3)

    def _mishaps(self) -> dict[str, Callable[[], None]]:
        def clock(seconds: int) -> Callable[[], None]:
            return lambda: self._clock.set(seconds)

        return {
            "clocks an hour ahead": clock(3600),
            "the disk is full": self._disk_full,
            "broker 2 stopped, and started again": lambda: self._without(2, kill=False),
            "the recorder stands still": self._recorder_still,
            "clocks three hours behind": clock(-3 * 3600),
            "a client stands still": self._client_still,
            "the peers' broker away": self._peers.go_away,
            "all leaders moved": self._leaders_moved,
            "clocks right again": clock(0),
            "broker 3 killed, and started again": lambda: self._without(3, kill=True),
            "the recorder killed": self._recorder_killed,
        }

    def _disk_full(self) -> None:
        with self._disk.full():
            time.sleep(_AWAY_S)

    def _without(self, node: int, *, kill: bool) -> None:
        one = self._cluster.nodes[node]
        if kill:
            one.kill()
        else:
            one.stop()
        wait_for_progress(self._enduring)
        self._cluster.restart(node)

    def _recorder_still(self) -> None:
        recorder = self._peered.processes["recorder"]
        recorder.suspend()
        time.sleep(_AWAY_S)
        recorder.resume()

    def _recorder_killed(self) -> None:
        self._kills += 1
        self._peered.processes["recorder"].kill()

    def _client_still(self) -> None:
        """Suspend a client, which then does not read either."""
        [process] = [
            psutil.Process(each.pid)
            for each in self._enduring
            if isinstance(each, ProgramEndurer) and each.name == "confluent-kafka"
        ]
        process.suspend()
        time.sleep(_AWAY_S)
        process.resume()

    def _leaders_moved(self) -> None:
        topics = [each.topic for each in self._enduring]
        first = int(time.monotonic()) % 3
        replicas = [(first + each) % 3 + 1 for each in range(3)]
        self._cluster.move_leaders(topics, _PARTITIONS, replicas)

    # -- the end -----------------------------------------------------------------------------------------------
    def _finish(self) -> None:
        click.echo("in the end")
        for each in self._enduring:
            with self._part(f"{each.name}: nothing missing of {each.acknowledged:,} records"):
                missed = each.finish()
                if missed:
                    raise Wrong(f"{len(missed)} of {each.acknowledged} records are missing: {missed[:5]}")
        for role in ("client", "broker"):
            with self._part(f"the peers' {role} ended"):
                self._peers.end(role)
        statuses = {}
        for name, kproxy in {"clients": self._clients, "peers": self._peered}.items():
            with self._part(f"kproxy of the {name} ended"):
                statuses[name] = _settled(kproxy)
                kproxy.stop(_INCOMPLETE)
                if statuses[name]["escaped_addresses"]:
                    raise Wrong(f"{statuses[name]['escaped_addresses']} addresses of brokers went to clients")
        self._disk.close()
        self._account(statuses.get("peers", {}).get("recording", {}))
        with self._part("what the clients' proxy recorded"):
            recording = statuses["clients"]["recording"]
            if recording["dropped_bytes"] or recording["lost_bytes"]:
                raise Wrong(f"bytes were left out: {recording}")
            count, problems = accounts.decode(str(self._clients.capture))
            click.echo(f"    {count:,} exchanges, {self._clients.capture.stat().st_size / _MIB:,.0f} MiB")
            if not count or problems:
                raise Wrong(f"{problems} of {count} exchanges cannot be decoded")

    def _account(self, recording: dict[str, Any]) -> None:
        """Compare the journals of both ends, and the recording, with each other."""
        told = accounts.told(self._peers.journals["client"], self._peers.journals["broker"])
        files = sorted((self._work / "peers-capture").glob("*.pcapng"))
        recorded: dict[int, accounts.RecordedConnection] = {}
        with self._part("no byte altered, no connection ended as it was not meant to"):
            counts = accounts.judge(told.values(), self._peers.away)
            total = sum(sum(each.received) for each in told.values())
            click.echo(f"    {len(told):,} connections, {total / _MIB:,.0f} MiB: {counts}")
        with self._part("what is not in the capture was reported"):
            recorded = accounts.compare(files, self._peers.port, told)
            lack = accounts.missing(told, recorded)
            reported = recording["dropped_bytes"] + recording["lost_bytes"]
            click.echo(f"    reported {reported:,} bytes; {lack}")
            if not lack.at_least <= reported <= lack.at_most:
                raise Wrong(f"reported {reported:,}, missing {lack.at_least:,} to {lack.at_most:,}")
        with self._part("every exchange that is in the capture is read and decoded"):
            reading = accounts.read_exchanges(str(self._work / "peers-capture" / "*.pcapng"), told, recorded)
            click.echo(f"    {reading}")
            if reading.problems or not reading.wanted:
                raise Wrong(f"{reading.problems} exchanges have problems")


def _settled(kproxy: Kproxy) -> dict[str, Any]:
    """Return kproxy's status once all connections have ended and the recorder has written everything."""
    wait_for("the end of all connections", lambda: not kproxy.ask("status")["connections"]["open"])
    wait_for("the recorder", lambda: not kproxy.ask("status")["recording"]["waiting_bytes"])
    time.sleep(2)  # its counts are updated once a second
    status: dict[str, Any] = kproxy.ask("status")
    return status


@click.command()
@click.option("--minutes", type=click.FloatRange(min=1), default=60, show_default=True)
@click.option("--keep", is_flag=True, help="Keep recordings and logs.")
def main(minutes: float, keep: bool) -> None:
    """Run the soak."""
    work = Path(tempfile.mkdtemp(prefix="kproxy-soak-"))
    work.chmod(0o755)  # kproxy runs in another group
    try:
        soak = Soak(work, minutes)
        soak.run()
    except CannotRun as why:
        click.echo(f"cannot run here: {why} (logs are in {work})")
        sys.exit(2)
    if soak.faults or keep:
        click.echo(f"recordings and logs are in {work}")
    else:
        shutil.rmtree(work)
    sys.exit(1 if soak.faults else 0)


if __name__ == "__main__":
    main()
