"""Processes at local endpoints, looked up in the real system on loopback."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import psutil
import pytest

from captures.live import processes
from captures.live.processes import LocalEnds, Process, ProcessNames
from captures.names import Names

ENOUGH = 60.0  # seconds; only a machine that hangs needs them

CLIENT = """
import socket, sys
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("{}:{}".format(*one.getsockname()), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        yield made


@pytest.fixture
def client(listener: socket.socket) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a connection to the listener, and its end."""
    port = str(listener.getsockname()[1])
    command = [sys.executable, "-c", CLIENT, port, "--group", "billing"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_the_process_of_a_client(client: tuple[subprocess.Popen[str], str]) -> None:
    process, end = client
    found = LocalEnds().process(end)
    assert found is not None
    assert found.pid == process.pid
    assert str(found) == f"{found.name}[{process.pid}]"
    assert found.name.startswith("python")
    assert found.command.endswith("--group billing")


def test_the_process_of_a_listener(listener: socket.socket) -> None:
    found = LocalEnds().process(f"127.0.0.1:{listener.getsockname()[1]}")
    assert found is not None
    assert found.pid == os.getpid()


def test_a_listener_on_all_addresses_has_every_local_one_and_no_other() -> None:
    with closing(socket.create_server(("0.0.0.0", 0))) as wide:
        ends, port = LocalEnds(), wide.getsockname()[1]
        assert getattr(ends.process(f"127.0.0.1:{port}"), "pid", None) == os.getpid()
        assert ends.process(f"192.0.2.7:{port}") is None  # RFC 5737: nobody has it


def test_an_ipv4_client_of_an_ipv6_socket_is_found_by_its_ipv4_address() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no dual-stack sockets")
    with (
        closing(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as server,
        closing(socket.create_connection(("127.0.0.1", server.getsockname()[1]))) as client,
    ):
        for end in (server.getsockname()[1], client.getsockname()[1]):
            found = LocalEnds().process(f"127.0.0.1:{end}")
            assert found is not None
            assert found.pid == os.getpid()


def test_what_is_not_local_has_no_process() -> None:
    assert LocalEnds().process("192.0.2.7:9092") is None
    assert LocalEnds().process("[2001:db8::7]:9092") is None


def test_names_come_without_waiting_for_them(client: tuple[subprocess.Popen[str], str]) -> None:
    process, end = client
    names = Names()
    naming = ProcessNames(names)
    naming.see(end, "192.0.2.7:9092")
    assert naming.settle(ENOUGH)
    first, command = names.of(end)
    assert first.endswith(f"[{process.pid}]")
    assert "billing" in command
    assert names.shown("192.0.2.7:9092") == "192.0.2.7:9092"


def test_a_name_stays_when_the_process_has_ended(client: tuple[subprocess.Popen[str], str]) -> None:
    process, end = client
    names = Names()
    naming = ProcessNames(names)
    naming.see(end)
    assert naming.settle(ENOUGH)
    process.kill()
    process.wait()
    naming.see(end)
    assert naming.settle(ENOUGH)
    assert names.of(end)[0].endswith(f"[{process.pid}]")


def test_a_process_of_somebody_else_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    end = SimpleNamespace(pid=None, laddr=("127.0.0.1", 9092), status=psutil.CONN_LISTEN)
    monkeypatch.setattr(processes.psutil, "net_connections", lambda _: [end])
    assert LocalEnds().process("127.0.0.1:9092") is None


def test_a_process_that_ended_before_it_was_asked_for_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    end = SimpleNamespace(pid=ended.pid, laddr=("127.0.0.1", 41000), status=psutil.CONN_ESTABLISHED)
    monkeypatch.setattr(processes.psutil, "net_connections", lambda _: [end])
    assert LocalEnds().process("127.0.0.1:41000") is None


def test_where_the_system_tells_all_only_to_root_own_processes_are_asked_one_by_one(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_: str) -> None:  # as psutil does on macOS
        raise psutil.AccessDenied

    monkeypatch.setattr(processes.psutil, "net_connections", denied)
    found = LocalEnds().process(f"127.0.0.1:{listener.getsockname()[1]}")
    assert isinstance(found, Process)
    assert found.pid == os.getpid()


def test_a_system_that_does_not_tell_leaves_ends_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise FileNotFoundError("/proc is not mounted")

    monkeypatch.setattr(processes.psutil, "net_connections", broken)
    names = Names()
    naming = ProcessNames(names)
    naming.see("127.0.0.1:9092")
    assert naming.settle(ENOUGH)
    assert not names
