"""The data plane: a process that accepts, connects and forwards, and does nothing else that could take time.

It reads its settings from standard input, a JSON object in one line, and reports events as JSON lines on standard
output; nothing has to read them. When its standard input ends, the front has exited: the data plane ends too, unless it
was detached. On SIGTERM and SIGINT it drains: it accepts no new connections, and requests in flight get their
responses.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Any

import msgspec

from captures.interventions import NO_UPSTREAM, as_comment
from dissectors.apis import api_name
from dissectors.budget import Budget
from dissectors.sides import ENDS, End
from kproxy.addresses import Address, address_text
from kproxy.proxy.broker_policy import network
from kproxy.proxy.clock_steps import ClockSteps
from kproxy.proxy.cluster import Cluster
from kproxy.proxy.commands import changing_commands, commands
from kproxy.proxy.control import ControlServer
from kproxy.proxy.dialler import Dialler
from kproxy.proxy.half import Pause
from kproxy.proxy.listeners import Listener
from kproxy.proxy.modes import ANY_HOST
from kproxy.proxy.recording import Recordings
from kproxy.proxy.reports import Reports
from kproxy.proxy.rules import Inspection, prepare
from kproxy.proxy.rules import commands as rule_commands
from kproxy.proxy.rules.engine import OutageRule
from kproxy.proxy.rules.rules_file import RulesFile, RulesFileError
from kproxy.proxy.rules.stubs import StubInspector
from kproxy.proxy.run_folder import RunFolder
from kproxy.proxy.run_folder import running as running_proxies
from kproxy.proxy.session import Session
from kproxy.proxy.settings import Settings
from kproxy.proxy.tcp_info import Sampler, TcpInfo
from kproxy.proxy.tls import diagnosis
from kproxy.proxy.tls.contexts import TlsConfigError
from kproxy.proxy.verdicts import Inspector, Peers

_TICK = 0.1  # seconds
_CHECK = 1.0
_QUEUE_CHECK = 0.002
_DRAIN_CHECK = 0.02
_SETTLE = 2.0


@dataclass(slots=True)
class Counts:
    """Counters since the start.

    :ivar connections: accepted
    :ivar refused: connections that were refused
    :ivar unreachable: connections for which no broker could be reached
    :ivar rewritten: responses in which an address was replaced, or a version lowered
    :ivar escaped: responses that reached a client with a broker's own address
    :ivar uninspected: frames that rules or holds wanted to see, but were too large
    :ivar from_clients: bytes received from clients on connections that have ended
    :ivar from_brokers: bytes received from brokers on connections that have ended
    """

    connections: int = 0
    refused: int = 0
    unreachable: int = 0
    rewritten: int = 0
    escaped: int = 0
    uninspected: int = 0
    from_clients: int = 0
    from_brokers: int = 0


class Plane:
    """The data plane of one run.

    :ivar forwarding: whether bytes are forwarded at the moment
    :ivar detached: whether it continues without the front, and removes the run folder itself
    :ivar inspected: memory budget for frames that are collected for rules and holds
    :ivar dialler: makes the connections to brokers
    :ivar clusters: the clusters behind it, at least one
    :ivar pending: connections that are not yet served
    """

    def __init__(self, settings: Settings, reports: Reports) -> None:
        self.settings = settings
        self.reports = reports
        self.loop = asyncio.get_running_loop()
        self.counts = Counts()
        self.started = time_ns()
        self.forwarding = settings.forward
        self.detached = settings.detached
        self.inspection = Inspection(
            request_timeout=round(settings.client_timeout * 1e9),
            held=lambda count: reports.event("held", count=count),
            notify=reports.warn,
            outages=self._take_down,
            clusters=[each.name for each in settings.clusters],
        )
        self.inspected = Budget("inspected_bytes")
        self.inspector: Inspector = self.inspection
        self.recordings = Recordings(settings.recording, reports)
        self.dialler = Dialler(refuses=self._own_address)
        self.clusters = [Cluster(self, each) for each in settings.clusters]
        file = settings.rules_file
        self._rules_file = RulesFile(Path(file), force=settings.force) if file else None
        self._clock_steps = ClockSteps()
        self._sampler = Sampler(self._sampled, period=settings.sample)
        self._sessions: dict[int, Session] = {}
        self.pending: set[asyncio.Task[None]] = set()
        self._numbers = 0
        self._ending = asyncio.Event()
        self._drain_seconds = settings.drain
        self._run = RunFolder(Path(settings.run_folder))
        changing = changing_commands(self) | rule_commands.changing_commands(self.inspection)
        self._control = ControlServer(
            self._run.control_socket,
            commands(self) | rule_commands.commands(self.inspection) | changing,
            frozenset(changing),
            self.inspection.release_all,
            prepare,
        )

    @property
    def sessions(self) -> Collection[Session]:
        """The open connections, the oldest first."""
        return self._sessions.values()

    @property
    def listeners(self) -> list[Listener]:
        """The listeners of all clusters."""
        return [listener for cluster in self.clusters for listener in cluster.listeners]

    # ------------------------------------------------------------ the run
    async def run(self) -> None:
        """Forward until asked to end.

        :raises OSError: if the first listener cannot be opened
        """
        self._raise_limits()
        opened = [each.open() for each in self.clusters]
        self.recordings.start()
        await self._control.start()
        self.reports.publish = self._control.publish
        for rule in self.settings.faults:
            self.inspection.rules.add(rule, force=self.settings.force)
        if self._rules_file is not None and self._rules_file.has_changed():
            self._rules_file.apply(self.inspection.rules)
        if self.settings.hold:
            self.inspection.holds.set_filter(self.settings.hold)
        if self.settings.stub:
            host = self.settings.advertised or self.settings.listen[0]
            self.inspector = StubInspector(self.inspection, (host, opened[0][1]))
        self._run.write(listen=address_text(*opened[0]), capture=self.recordings.path, pid=os.getpid())
        for cluster, address in zip(self.clusters, opened, strict=True):
            self.reports.event(
                "listening",
                cluster=cluster.name,
                address=address_text(*address),
                capture=self.recordings.path,
            )
        rewriting = [each for each in self.clusters if each.rewrites]
        await asyncio.gather(*(each.find_brokers() for each in rewriting))
        await asyncio.gather(*(each.reachability.settle(_SETTLE) for each in rewriting))
        self.reports.event("ready")
        tasks = [self.loop.create_task(self._sweep())]
        if self.settings.recorded.lossless:
            tasks.append(self.loop.create_task(self._hold_back()))
        await self._ending.wait()
        await self._drain()
        await self.inspection.close()
        for task in tasks:
            task.cancel()
        for cluster in self.clusters:
            await cluster.save_brokers()
        self.reports.publish = lambda _: None
        await self._control.close()
        await self.recordings.close()
        if self.detached:
            self._run.remove()
        self.reports.event("ended", connections=self.counts.connections)

    def end(self, seconds: float | None = None) -> None:
        """Ask the data plane to end. A second call ends it at once.

        :param seconds: for requests in flight; None for the setting
        """
        if self._ending.is_set():
            self._drain_seconds = 0.0  # the second call
        elif seconds is not None:
            self._drain_seconds = seconds
        self._ending.set()

    async def _drain(self) -> None:
        """Let requests in flight get their responses, as long as time is left, then close everything."""
        for listener in self.listeners:
            listener.close()
        for task in self.pending:
            task.cancel()
        for cluster in self.clusters:
            cluster.reachability.stop()
        self.inspection.release_all()
        deadline = self.loop.time() + self._drain_seconds
        while self.sessions and self.loop.time() < deadline:
            for session in [each for each in self.sessions if each.is_idle]:
                session.close()
            await asyncio.sleep(_DRAIN_CHECK)
            deadline = min(deadline, self.loop.time() + self._drain_seconds)
        left = len(self.sessions)
        if left:
            self.reports.note(f"{left} connections were closed with requests in flight")
        for session in list(self.sessions):
            session.close()
        await asyncio.sleep(0)  # sessions report their end in the next iteration of the loop
        for session in list(self.sessions):
            session.abort()
        await asyncio.sleep(0)

    def _raise_limits(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        need = 2 * self.settings.most_connections
        if soft < need and 0 < hard < need:
            self.reports.note(
                f"{hard} open files are allowed (ulimit -Hn): about {hard // 2 - 32} connections"
            )

    def _take_down(self, rules: Mapping[tuple[str, int], OutageRule]) -> None:
        """Take down the brokers of rules, and bring others back."""
        for cluster in self.clusters:
            cluster.outages.apply(
                {node: rule for (name, node), rule in rules.items() if name == cluster.name}
            )

    def _own_address(self, address: Address) -> str:
        """Return why a connection must not go to `address` if kproxy itself listens there, else empty."""
        host, port = address
        for listener in self.listeners:
            for own, own_port in listener.addresses:
                if own_port == port and (own == host or (own in ANY_HOST and network(host) == "loopback")):
                    return "kproxy itself listens there"
        return ""

    def next_number(self) -> int:
        """Return the number of a new connection, from 0 as in captures."""
        self._numbers += 1
        return self._numbers - 1

    # ------------------------------------------------------------ called by sessions
    def could_not_rewrite(self, peers: Peers, api_key: int, version: int, why: str) -> None:
        """Report a response whose addresses, if it has any, reached the client unchanged."""
        name = f"{api_name(api_key)} v{version}"
        self.reports.warn(
            f"a response to {name} for {peers.client_text} was not rewritten: {why}", about=name
        )

    def not_inspected(self, api_key: int, size: int, why: str) -> None:
        """Report a frame that rules or holds wanted to see and that passed without inspection."""
        self.counts.uninspected += 1
        self.reports.warn(
            f"a frame of {api_name(api_key)} with {size:,} bytes passed uninspected: {why}", about=why
        )

    def not_collected(self, peers: Peers, api_key: int, version: int, why: str) -> None:
        """Report a response that was not forwarded because it is too large to be searched for addresses."""
        name = f"{api_name(api_key)} v{version}"
        self.reports.warn(
            f"a connection of {peers.client_text} was closed at a response to {name}: {why}", about=why
        )

    def broker_refused(self, peers: Peers, error: Exception) -> None:
        """Report a broker that ended TLS: TLS 1.3 brokers check client certificates after the client's handshake."""
        self.reports.warn(diagnosis.broker_ended(error, address_text(*peers.broker)))

    def not_authenticated(self, peers: Peers, why: str) -> None:
        """Report a connection that is closed because kproxy could not repeat its authentication at the broker."""
        self.reports.warn(f"the connection of {peers.client_text} was closed: {why}", about=why)

    def no_frame(self, peers: Peers, length: int, data: bytes) -> None:
        """Report a client whose next bytes are not a frame, or one that exceeds the limit."""
        why = diagnosis.client_start(data, tls=False)
        if not why:
            most = self.settings.most_frame
            why = f"the next request would have {length:,} bytes, allowed are {most:,} (--max-frame)"
        self.reports.warn(f"{peers.client_text}: {why}", about=f"{peers.client[0]} {why}")

    def begun(self, session: Session) -> None:
        """Register a connection that forwards."""
        if session.closed:
            return
        number = session.peers.connection
        self._sessions[number] = session
        ends = [half.transport.get_extra_info("socket") for half in (session.requests, session.responses)]
        if self.settings.sample and None not in ends:
            self._sampler.add(number, *ends)

    def ended(self, session: Session) -> None:
        """Remove a connection that has ended."""
        if self._sessions.pop(session.peers.connection, None) is not None:
            self._sampler.remove(session.peers.connection)
            self.counts.from_clients += session.requests.received
            self.counts.from_brokers += session.responses.received

    # ------------------------------------------------------------ called by the control socket
    def set_forwarding(self, on: bool) -> None:
        """Turn forwarding on or off.

        While it is off, requests are recorded but not forwarded; so the connections affected are closed when it is
        turned on again.
        """
        if on == self.forwarding:
            return
        self.forwarding = on
        for session in list(self.sessions):
            if on:
                if session.swallowing:
                    session.close()
            else:
                session.swallow()
        self.reports.event("forwarding", on=on)

    # ------------------------------------------------------------ time
    def network(self, session: Session) -> dict[str, Any]:
        """Return the kernel's last TCP statistics for both sides of a connection."""
        return self._sampler.summary(session.peers.connection)

    def _sampled(self, connection: int, side: End, info: TcpInfo) -> None:
        """Record the kernel's TCP statistics of a connection, which forwarded bytes do not show."""
        session = self._sessions.get(connection)
        if session is None or session.recording is None:
            return
        text, upstream = as_comment(info.sample(side)), session.peers.upstream
        if side == "broker" and upstream != NO_UPSTREAM:  # again, for the later files of a recording
            text += f"\n{as_comment(upstream)}"
        session.recording.note(ENDS.index(side), text, time_ns())

    async def _hold_back(self) -> None:
        """Pause reading while the recorder is behind; between two checks the queue has room for arriving bytes."""
        while True:
            await asyncio.sleep(_QUEUE_CHECK)
            congested = self.recordings.congested
            for session in self.sessions:
                for half in (session.requests, session.responses):
                    if congested:
                        half.pause(Pause.RECORDING)
                    else:
                        half.resume(Pause.RECORDING)

    async def _sweep(self) -> None:
        """Check clocks, rules and overdue connections once a second."""
        settings = self.settings
        next_check = self.loop.time()
        while True:
            await asyncio.sleep(_TICK)
            self._sampler.tick()
            if self.loop.time() < next_check:
                continue
            next_check = self.loop.time() + _CHECK
            self._check_clock()
            for cluster in self.clusters:
                await cluster.save_brokers()
            await self._reload_rules()
            self.inspection.tick(time_ns())
            self.recordings.report_dropped()
            for session in list(self.sessions):
                if session.lingers and session.is_idle:
                    session.close()
                overdue = session.overdue(settings.first_timeout, settings.idle_timeout)
                if overdue:
                    self.reports.note(f"{session.peers.client_text}: {overdue}")
                    session.close()

    async def _reload_rules(self) -> None:
        """Reload the rules file if it has changed."""
        file = self._rules_file
        if file is None or not file.has_changed():
            return
        await asyncio.to_thread(prepare)
        try:
            count = file.apply(self.inspection.rules)
        except RulesFileError as error:
            self.reports.warn(f"{error}; the rules stay as they were")
        else:
            self.reports.note(f"{self.settings.rules_file} has changed: {count} rules")

    def _check_clock(self) -> None:
        """Report that the clock was set, and shift the end times of rules and holds accordingly."""
        step = self._clock_steps.look()
        if step:
            self.inspection.clock_set(step)
            how = "forward" if step > 0 else "back"
            self.reports.warn(
                f"the system clock was set {how} by {abs(step) / 1e9:.3f} s: so were the times recorded"
            )


async def _main(settings: Settings, reports: Reports) -> None:
    plane = Plane(settings, reports)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, plane.end)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    if not settings.detached:
        loop.add_reader(0, _front_ended, plane)
    loop.set_exception_handler(lambda _, context: _unexpected(reports, context))
    gc.freeze()
    await plane.run()


def _front_ended(plane: Plane) -> None:
    """End with the front, unless detached: the front sends nothing but the end of its stream."""
    if os.read(0, 1 << 16):
        return
    plane.loop.remove_reader(0)
    if not plane.detached:
        plane.end()
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)  # the terminal no longer belongs to this process
    os.close(nowhere)


def _unexpected(reports: Reports, context: dict[str, Any]) -> None:
    error = context.get("exception")
    what = f"{type(error).__name__}: {error}" if error else context.get("message", "")
    reports.warn(f"something went wrong in kproxy, forwarding continues: {what}")


def _occupant_hint(error: Exception, settings: Settings | None) -> str:
    """Return a hint at the kproxy that occupies the address; empty if the error is a different one."""
    if settings is None or not isinstance(error, OSError) or error.errno != errno.EADDRINUSE:
        return ""
    own, ports = Path(settings.run_folder), [each.listen[1] for each in settings.clusters]
    found = next((run for run in running_proxies() if run.port in ports and run.path != own), None)
    if found is None:
        return "; choose another one with --listen"
    return (
        f": kproxy with process ID {found.pid} listens there; kproxy attach --run {found.name} shows it, kproxy ctl "
        f"--run {found.name} drain ends it, and --listen chooses another address"
    )


def main() -> None:
    """Run the data plane with the settings from standard input."""
    import uvloop

    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 20)
        if not more:
            sys.exit("no settings came")
        line += more
    reports = Reports(1)
    settings = None
    try:
        settings = msgspec.json.decode(line, type=Settings)
        uvloop.run(_main(settings, reports))
    except (OSError, ValueError, TlsConfigError) as error:
        without_number = error.strerror if isinstance(error, OSError) and error.filename is None else None
        reports.event("failed", text=f"{without_number or error}{_occupant_hint(error, settings)}")
        sys.exit(1)


if __name__ == "__main__":
    main()
