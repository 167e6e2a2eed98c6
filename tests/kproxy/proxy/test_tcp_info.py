"""The kernel's information about connections, compared with ``ss`` of iproute2; and the sampler, with a fake clock."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from captures.interventions import TcpSample, as_comment, comment_content
from dissectors.sides import End
from kproxy.proxy import tcp_info
from kproxy.proxy.tcp_info import Sampler, TcpInfo, read
from tests.kproxy.proxy.netlab import missing
from tests.waiting import PATIENCE, wait_until

REPOSITORY = Path(__file__).parents[3]
SECOND = 1_000_000_000

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO as it is here is Linux's")
needs_ss = pytest.mark.skipif(shutil.which("ss") is None, reason="ss (iproute2) is not installed")
needs_namespaces = pytest.mark.skipif(bool(missing()), reason=missing() or "-")

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Yield both ends of a connection, the connecting one first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        yield ours, theirs


def fill(sock: socket.socket) -> int:
    """Send until the buffers are full; return the number of bytes sent."""
    sock.setblocking(False)
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += sock.send(bytes(100_000))
    return sent


def by_ss(sock: socket.socket) -> dict[str, str]:
    """Return the values from ss by name, with the send queue as ``Send-Q``."""
    command = ["ss", "-tinOH", "sport", "=", f":{sock.getsockname()[1]}"]
    command += ["and", "dport", "=", f":{sock.getpeername()[1]}"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(\w+):(\S+)", told)) | dict(re.findall(r"(delivery_rate) (\d+)bps", told))
    return found | {"state": told.split()[0], "Send-Q": told.split()[2]}


@needs_ss
def test_a_busy_connection(pair: Pair) -> None:
    ours, theirs = pair
    for _ in range(20):
        ours.sendall(bytes(20_000))
        assert len(theirs.recv(20_000, socket.MSG_WAITALL)) == 20_000
        theirs.sendall(bytes(100))
        assert len(ours.recv(100, socket.MSG_WAITALL)) == 100
    wait_until(lambda: (info := read(ours)) is not None and info.unacked == 0)
    info, told = read(ours), by_ss(ours)
    assert info is not None
    rtt, variance = (float(text) for text in told["rtt"].split("/"))
    assert (info.rtt_us, info.rtt_var_us) == (round(rtt * 1000), round(variance * 1000))
    assert info.state == "ESTABLISHED"
    assert told["state"] == "ESTAB"
    assert info.bytes_acked == int(told["bytes_acked"]) == 400_001
    assert info.bytes_received == int(told["bytes_received"]) == 2_000
    assert info.snd_mss == int(told["mss"])
    assert info.snd_cwnd == int(told["cwnd"])
    assert info.rcv_space == int(told["rcv_space"])
    assert info.min_rtt_us == round(float(told["minrtt"]) * 1000)
    assert info.delivery_rate * 8 == int(told["delivery_rate"])
    assert info.unacked_bytes == int(told["Send-Q"]) == 0
    assert not info.zero_window
    assert not info.troubled


@pytest.mark.slow
@needs_ss
def test_an_end_that_does_not_read(pair: Pair) -> None:
    sent = fill(pair[0])
    wait_until(lambda: (info := read(pair[0])) is not None and info.zero_window and info.unacked == 0)
    info, told = read(pair[0]), by_ss(pair[0])
    assert info is not None
    assert info.unacked_bytes == int(told["Send-Q"]) == sent - info.bytes_acked + 1  # SYN
    assert info.notsent_bytes == int(told["notsent"])
    assert info.snd_wnd == 0
    assert info.troubled
    assert info.rwnd_limited_us > 0
    taken = 0
    while taken < sent:
        taken += len(pair[1].recv(1 << 20))
    wait_until(lambda: (info := read(pair[0])) is not None and not info.troubled and info.unacked_bytes == 0)


LOSS = """
import json, re, socket, subprocess
from kproxy.proxy.tcp_info import read
def run(*command): subprocess.run(command, check=True)
run("ip", "link", "set", "lo", "up")
with socket.create_server(("127.0.0.1", 0)) as listener:
    port = listener.getsockname()[1]
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
run("nft", "table inet lossy { chain input { type filter hook input priority 0;"
    f" tcp dport {port} numgen inc mod 4 0 drop; }}; }}")
for _ in range(12):
    ours.sendall(bytes(1000))
    theirs.recv(1000, socket.MSG_WAITALL)
lost = read(ours)
run("nft", f"add rule inet lossy input tcp dport {port} drop")
ours.sendall(bytes(1000))
while not (stuck := read(ours)).retransmits: pass
told = subprocess.run(["ss", "-tinOH", "dport", "=", f":{port}"], capture_output=True, text=True).stdout
print(json.dumps([lost.to_json(), stuck.to_json(), re.search(r"retrans:\\d+/(\\d+)", told)[1]]))
"""


@needs_ss
@needs_namespaces
def test_a_lossy_network() -> None:
    command = ["unshare", "--net", sys.executable, "-c", LOSS]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    lost, stuck, by_ss = json.loads(done.stdout)
    assert lost["total_retrans"] >= 3
    assert lost["retransmits"] == lost["unacked"] == 0
    assert stuck["retransmits"] >= 1
    assert stuck["unacked"] >= 1
    assert stuck["unacked_bytes"] == 1000
    assert stuck["total_retrans"] <= int(by_ss) <= stuck["total_retrans"] + 1
    assert not stuck["zero_window"]


def test_ends_of_connections(pair: Pair) -> None:
    ours, theirs = pair
    ours.shutdown(socket.SHUT_WR)
    wait_until(lambda: (info := read(theirs)) is not None and info.state == "CLOSE-WAIT")
    wait_until(lambda: (info := read(ours)) is not None and info.state == "FIN-WAIT-2")
    ours.close()
    assert read(ours) is None


@pytest.mark.slow
def test_what_the_capture_keeps(pair: Pair) -> None:
    fill(pair[0])
    wait_until(lambda: (info := read(pair[0])) is not None and info.zero_window)
    info = read(pair[0])
    assert info is not None
    kept = comment_content(as_comment(info.sample("broker")))
    assert isinstance(kept, TcpSample)
    assert (kept.side, kept.state, kept.snd_wnd) == ("broker", "ESTABLISHED", 0)
    assert (kept.rtt_us, kept.rcv_space) == (info.rtt_us, info.rcv_space)


def test_what_is_no_tcp() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert read(one) is None


@pytest.mark.parametrize("length", [104, 192, 232])
def test_kernels_of_all_ages(length: int, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    told = bytearray(pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232).ljust(232, b"\0"))
    struct.pack_into("=I", told, 228, 4711)  # tcpi_snd_wnd, the last field in linux/tcp.h of 5.4
    struct.pack_into("=I", told, 100, 17)  # tcpi_total_retrans, the last field in 3.14
    monkeypatch.setattr(tcp_info, "_tcp_info_bytes", lambda _: bytes(told[:length]))
    info = read(pair[0])
    assert info is not None
    assert info.snd_wnd == (4711 if length >= 232 else None)
    assert info.total_retrans == 17
    assert info.state == "ESTABLISHED"
    assert not info.zero_window


def test_a_state_of_a_newer_kernel(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_info, "_tcp_info_bytes", lambda _: b"\xff" + bytes(231))
    info = read(pair[0])
    assert info is not None
    assert info.state == "UNKNOWN"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_sockets_of_transports(run: Callable[[Any], None]) -> None:
    async def connect() -> None:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[asyncio.StreamWriter] = loop.create_future()
        server = await asyncio.start_server(lambda _, theirs: accepted.set_result(theirs), "127.0.0.1", 0)
        _, ours = await asyncio.open_connection(*server.sockets[0].getsockname())
        theirs = await accepted
        sockets = [each.get_extra_info("socket") for each in (ours, theirs)]
        for each in sockets:
            for _ in range(3):
                info = read(each)
                assert info is not None
                assert info.state == "ESTABLISHED"
        ours.write(b"still open")
        for each in (ours, theirs):
            each.close()
            await each.wait_closed()
        assert [read(each) for each in sockets] == [None, None]
        server.close()
        await server.wait_closed()

    run(connect())


# ---------------------------------------------------------------- sampler
class Clock:
    """A clock moved by the test; each reading takes a microsecond."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1000
        return self.now


QUIET = dict.fromkeys(TcpInfo._fields, 0) | {"state": "ESTABLISHED", "snd_wnd": 65_536, "bytes_acked": 1}


class Kernel:
    """Returns values set by the test; sockets are numbers here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: dict[object, dict[str, Any]] = {}
        self.asked: list[object] = []
        monkeypatch.setattr(tcp_info, "read", self.read)

    def read(self, sock: object) -> TcpInfo | None:
        self.asked.append(sock)
        told = self.told.get(sock, {})
        return None if told.get("state") == "gone" else TcpInfo(**(QUIET | told))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The kernel's values for sockets, as set by the test."""
    return Kernel(monkeypatch)


def sampler(clock: Clock, **more: Any) -> tuple[Sampler, list[tuple[int, End]]]:
    reports: list[tuple[int, End]] = []
    return Sampler(lambda number, side, _: reports.append((number, side)), clock=clock, **more), reports


def test_what_is_news(kernel: Kernel) -> None:
    clock = Clock()
    made, reports = sampler(clock)
    made.add(1, "c", "b")  # type: ignore[arg-type]

    def next_second(**told: Any) -> list[tuple[int, End]]:
        kernel.told["b"] = kernel.told.get("b", {}) | told
        clock.now += SECOND
        reports.clear()
        made.tick()
        return list(reports)

    said = [(1, "broker")]
    assert next_second() == []  # no traffic so far
    assert next_second(bytes_received=100, rtt_us=1000) == said  # the first traffic
    assert next_second(bytes_received=200) == []  # no change
    assert next_second(rtt_us=1300) == said  # a round-trip time that differs by more than a quarter
    assert next_second(rtt_us=1000) == []  # no measurements without traffic
    assert next_second(bytes_received=400, rtt_us=1390) == []
    assert next_second(total_retrans=2) == said
    assert next_second(snd_wnd=0) == said
    assert next_second() == []
    assert next_second(snd_wnd=100) == said
    assert next_second(retransmits=1) == said
    assert next_second(retransmits=2) == []  # the same problem persists
    assert next_second(retransmits=0, bytes_received=500) == said
    clock.now += tcp_info.UNCHANGED_NS
    assert next_second() == []
    assert next_second(bytes_received=600) == said  # traffic, long after the last report
    assert next_second(state="gone") == []


def test_sampling_takes_bounded_time_and_everybody_has_a_turn(kernel: Kernel) -> None:
    clock = Clock()
    made, _ = sampler(clock, budget=100_000)  # 1 us per connection
    for number in range(1000):
        made.add(number, ("c", number), ("b", number))  # type: ignore[arg-type]
    clock.now += SECOND
    for tick in range(1, 10):
        kernel.asked.clear()
        made.tick()
        assert len(kernel.asked) == 200
        assert kernel.asked[0] == ("c", 100 * (tick - 1))


def test_each_is_sampled_once_in_a_period(kernel: Kernel) -> None:
    clock = Clock()
    made, _ = sampler(clock, period=2.0)
    made.add(1, "c", "b")  # type: ignore[arg-type]
    counts = []
    for _ in range(50):
        clock.now += SECOND // 10
        made.tick()
        counts.append(len(kernel.asked))
    assert counts[18] == 0
    assert counts[-1] == 4


def test_connections_that_have_ended(kernel: Kernel) -> None:
    clock = Clock()
    made, _ = sampler(clock)
    for number in range(10_000):
        made.add(number, "c", "b")  # type: ignore[arg-type]
        made.remove(number)
    made.remove(3)
    assert len(made) == 0
    clock.now += SECOND
    made.tick()
    assert kernel.asked == []
    assert not made._due


def test_summary(kernel: Kernel) -> None:
    clock = Clock()
    made, _ = sampler(clock)
    made.add(1, "c", "b")  # type: ignore[arg-type]
    assert made.summary(1) == made.summary(2) == {"client": None, "broker": None}
    kernel.told["b"] = {"snd_wnd": 0, "rtt_us": 17}
    clock.now += SECOND
    made.tick()
    summary = made.summary(1)
    assert summary["client"] is not None
    assert summary["client"]["zero_window"] is False
    assert summary["broker"] is not None
    assert (summary["broker"]["rtt_us"], summary["broker"]["zero_window"]) == (17, True)
    json.dumps(summary)


def test_real_sockets(pair: Pair) -> None:
    clock = Clock()
    made, reports = sampler(clock)
    made.add(1, *pair)
    pair[0].sendall(b"x")
    assert pair[1].recv(1) == b"x"
    clock.now += SECOND
    made.tick()
    assert reports == [(1, "client"), (1, "broker")]
