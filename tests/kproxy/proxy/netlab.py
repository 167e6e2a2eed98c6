"""A separate network for tests of transparent mode.

``unshare --net python -m tests.kproxy.proxy.netlab SCENARIO``, as root. Broker and proxy run as root, the client as
another user. Firewall commands run exactly as kproxy prints them. The scenario is a JSON object with the arguments of
:func:`scenario`; so is the result.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from typing import Any

import uvloop

from kproxy.addresses import Address
from kproxy.proxy.firewall import rules
from kproxy.proxy.listeners import bind
from kproxy.proxy.transparent import NotRedirectedError, Upstreams, make_transparent, original_destination
from tests.waiting import PATIENCE

NOBODY = 65534
PORT = 9092
BROKERS = {4: "10.9.0.1", 6: "fd09::1"}
CLIENTS = {4: "10.8.0.7", 6: "fd08::7"}
ROUTER = {"broker": {4: "10.9.0.254", 6: "fd09::fe"}, "client": {4: "10.8.0.254", 6: "fd08::fe"}}

# FindCoordinator v0 (KIP-98): the response has the address seen by the broker as the coordinator's host
CLIENT = """
import encodings.idna, os, socket, struct, sys
os.setuid(65534)
request = struct.pack(">hhih", 10, 0, 7, -1) + struct.pack(">h", 1) + b"g"
for place in sys.argv[1:]:
    host, port, source = place.split(",")
    try:
        with socket.create_connection((host, int(port)), 5, (source, 0) if source else None) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            stream = connection.makefile("rb")
            size = stream.read(4)
            print(stream.read(struct.unpack(">i", size)[0])[12:-4].decode() if size else "closed")
    except OSError as error:
        print(type(error).__name__)
"""
BROKER = """
import socket, struct, sys, threading
def serve(listener):
    while True:
        with listener.accept()[0] as connection:
            stream = connection.makefile("rb")
            size = stream.read(4)
            if size:
                correlation = stream.read(struct.unpack(">i", size)[0])[4:8]
                host = connection.getpeername()[0].encode()
                answer = correlation + struct.pack(">hih", 0, 1, len(host)) + host + struct.pack(">i", 9092)
                connection.sendall(struct.pack(">i", len(answer)) + answer)
                stream.read(1)
for host in sys.argv[2:]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, int(sys.argv[1])), family=family)
    threading.Thread(target=serve, args=(listener,)).start()
print("ready", flush=True)
"""


def run(command: str) -> None:
    """Run a shell script that must succeed."""
    subprocess.run(["sh", "-e"], input=command, text=True, check=True, stdout=sys.stderr)


def ruleset() -> list[str]:
    """Return everything that kproxy's commands could have left behind: rules, its own chains and tables, routes."""
    commands = ("nft list ruleset", "iptables-save", "ip6tables-save", "ip rule", "ip -6 rule")
    commands += ("ip route show table all", "ip -6 route show table all")
    told = (subprocess.run(command.split(), capture_output=True, text=True).stdout for command in commands)
    return [line.strip() for text in told for line in text.splitlines() if not _empty(line.strip())]


def _empty(line: str) -> bool:
    """Return whether a line is the kernel's, or of built-in chains and tables, which remain after their first use."""
    frame = line[:1] in "#:*}" or line[-1:] == "{" or line == "COMMIT" or "policy accept" in line
    return (frame and "kproxy" not in line.lower()) or "proto kernel" in line


class Lab:
    """The hosts of the network.

    :ivar client: prefix of commands that run on the client
    """

    def __init__(self, forwarded: bool) -> None:
        self.processes: list[subprocess.Popen[str]] = []
        self.client: list[str] = []
        # as strict as in distributions, set before interfaces are created
        run("ip link set lo up; sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1")
        if forwarded:
            self.client, broker = self._machine("client"), self._machine("broker")
            run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        else:
            broker = []
            for family, host in CLIENTS.items():
                run(f"ip -{family} addr add {host}/{_bits(family)} dev lo {_nodad(family)}")
                run(f"ip -{family} addr add {BROKERS[family]}/{_bits(family)} dev lo {_nodad(family)}")
        self.broker = self._start([*broker, sys.executable, "-c", BROKER, str(PORT), *BROKERS.values()])

    def _start(self, command: list[str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def _machine(self, name: str) -> list[str]:
        """Create a host for which this one routes."""
        pid = self._start(["unshare", "--net", "sh", "-c", "echo ready; exec sleep 60"]).pid
        inside = ["nsenter", "--net", "--target", str(pid)]
        enter = " ".join(inside)
        run(f"ip link add {name} type veth peer name eth0 netns {pid} && ip link set {name} up")
        run(f"{enter} ip link set lo up && {enter} ip link set eth0 up")
        for family in (4, 6):
            host = (BROKERS if name == "broker" else CLIENTS)[family]
            gateway, bits = ROUTER[name][family], 24 if family == 4 else 64
            run(f"ip -{family} addr add {gateway}/{bits} dev {name} {_nodad(family)}")
            run(f"{enter} ip -{family} addr add {host}/{bits} dev eth0 {_nodad(family)}")
            run(f"{enter} ip -{family} route add default via {gateway}")
        return inside

    async def ask(self, *more: Address) -> list[str]:
        """Return the brokers' responses to a client, over IPv4 and IPv6, and those at other addresses."""
        sources = dict.fromkeys(CLIENTS, "") if self.client else CLIENTS
        places = [f"{host},{PORT},{sources[family]}" for family, host in BROKERS.items()]
        places += [f"{host},{port}," for host, port in more]
        process = await asyncio.create_subprocess_exec(
            *self.client, sys.executable, "-c", CLIENT, *places, stdout=subprocess.PIPE
        )
        told, _ = await process.communicate()
        return told.decode().split()

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            process.terminate()
            process.communicate()


def _bits(family: int) -> int:
    return 32 if family == 4 else 128


def _nodad(family: int) -> str:
    return "nodad" if family == 6 else ""


class Forwarder:
    """A minimal proxy.

    :ivar seen: original destination of each accepted connection
    :ivar log: reasons why other connections were refused
    """

    def __init__(self, listener: Address, tproxy: bool, keep_client: bool) -> None:
        self.seen: list[list[Any]] = []
        self.log = ""
        self._tproxy, self._keep_client = tproxy, keep_client
        (self._socket,) = bind(*listener, both=True, prepare=make_transparent if tproxy else None)
        self._upstreams = Upstreams()
        self.address: Address = self._socket.getsockname()[:2]

    async def start(self) -> asyncio.Server:
        """Start serving."""
        return await asyncio.start_server(self._serve, sock=self._socket)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        peer = writer.get_extra_info("peername")
        try:
            accepted = writer.get_extra_info("socket")
            wanted = original_destination(accepted, self._tproxy, self.address, self._upstreams)
        except NotRedirectedError as error:
            self.log += f"{type(error).__name__}: {error}\n"
            writer.close()
            return
        self.seen.append([*wanted])
        sock = self._upstreams.begin(wanted, peer[:2] if self._keep_client else None)
        try:
            await asyncio.wait_for(loop.sock_connect(sock, wanted), 5)
        except OSError:
            sock.close()
            writer.close()
            return
        broker, upstream = await asyncio.open_connection(sock=sock)
        with suppress(asyncio.IncompleteReadError):
            for source, sink in ((reader, upstream), (broker, writer)):
                size = await source.readexactly(4)
                sink.write(size + await source.readexactly(int.from_bytes(size, "big")))
        for each in (writer, upstream):
            each.close()
            await each.wait_closed()


class Proxy:
    """``kproxy proxy`` itself, with the interface of :class:`Forwarder`.

    :ivar seen: the broker of each recorded exchange, after the proxy has ended
    """

    def __init__(self, listener: Address, tproxy: bool, keep_client: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = f"{self._folder.name}/seen.pcapng"
        host, port = listener
        command = [
            sys.executable,
            "-m",
            "kproxy",
            "proxy",
            "--mode",
            "transparent",
            "--no-ui",
            "-w",
            self._file,
        ]
        command += ["--listen", f"[{host}]:{port}", *["--tproxy"] * tproxy]
        command += ["--keep-client-address"] * keep_client
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "XDG_STATE_HOME": self._folder.name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        self.log = ""
        self.seen: list[list[Any]] = []
        while "listening on " not in self.log:
            line = self._process.stderr.readline()
            assert line, self.log
            self.log += line
        at, _, port_text = self.log.partition("listening on ")[2].split()[0].rpartition(":")
        self.address: Address = at.strip("[]"), int(port_text)

    async def start(self) -> Proxy:
        """Do nothing, because it already runs."""
        return self

    def close(self) -> None:
        """Ask it to stop."""
        self._process.terminate()

    async def wait_closed(self) -> None:
        """Wait until it ends, and read its recording."""
        _, told = self._process.communicate(timeout=PATIENCE)
        self.log += told
        read = [sys.executable, "-m", "kproxy", "read", "--json", self._file]
        lines = subprocess.run(read, capture_output=True, text=True).stdout.splitlines()
        brokers = [json.loads(line)["broker"].rpartition(":") for line in lines]
        self.seen = [[host.strip("[]"), int(port)] for host, _, port in brokers]
        self._folder.cleanup()


async def scenario(
    tool: str,
    method: str,
    keep_client: bool = False,
    forwarded: bool = False,
    excluded: int = 0,
    real: bool = False,
) -> dict[str, Any]:
    """Run one scenario.

    :param forwarded: client and broker are separate hosts, between which this one routes
    :param excluded: the user ID that the rules exclude
    :param real: use ``kproxy proxy`` instead of the minimal proxy
    :returns: ``direct``, ``through``, ``again``: responses to the client before, with and after the rules; ``own``:
        responses at the proxy's own address; ``seen`` by the proxy, and its ``log``; ``before``, ``after``: the
        firewall and routing configuration
    """
    lab = Lab(forwarded)
    # loopback, kproxy's default, is enough for connections of this host itself
    hosts = ("::",) if forwarded else ("127.0.0.1", "::1")
    told: dict[str, Any] = {"before": ruleset()}
    try:
        proxies: list[Any] = [
            (Proxy if real else Forwarder)((host, 0), method == "tproxy", keep_client) for host in hosts
        ]
        servers = [await each.start() for each in proxies]
        found = rules(
            tool,  # type: ignore[arg-type]
            method,  # type: ignore[arg-type]
            [(host, PORT) for host in BROKERS.values()],
            [each.address for each in proxies],
            excluded,
            keep_client=keep_client,
        )
        own = ROUTER["client"][4] if forwarded else "127.0.0.1"
        told["direct"] = await lab.ask()
        run(found.add)
        *told["through"], told["own"] = await lab.ask((own, proxies[0].address[1]))
        run(found.remove)
        told["after"] = ruleset()
        told["again"] = await lab.ask()
        for server in servers:
            server.close()
            await server.wait_closed()
        told["seen"] = [seen for each in proxies for seen in each.seen]
        told["log"] = "".join(each.log for each in proxies)
    finally:
        lab.close()
    return told


@cache
def missing() -> str:
    """Return why scenarios cannot run here, empty if they can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    programs = ("unshare", "nsenter", "ip", "iptables", "ip6tables", "nft", "sysctl")
    lacking = [name for name in programs if shutil.which(name) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed"
    if not _works("unshare --net true"):
        return "making network namespaces takes root"
    if not _works("unshare --net iptables -w -t nat -L") or not _works("unshare --net nft list ruleset"):
        return "the kernel has no firewall, or not for us"
    return ""


def _works(command: str) -> bool:
    return subprocess.run(command.split(), capture_output=True).returncode == 0


if __name__ == "__main__":
    json.dump(uvloop.run(scenario(**json.loads(sys.argv[1]))), sys.stdout)
