"""The control socket, with real sockets on both kinds of asyncio event loops."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kproxy.proxy import control
from kproxy.proxy.control import ClosedError, CommandError, ControlClient, by_name
from tests.kproxy.proxy.fake_plane import FakePlane, serving
from tests.waiting import PATIENCE


class Plane(FakePlane):
    """A data plane with a few commands."""

    def __init__(self, path: Path) -> None:
        self.rules: list[str] = []
        commands = {
            "status": lambda _: {"ok": True},
            "add_rule": self._add,
            "fail": self._fail,
            "bytes": self._bytes,
        }
        super().__init__(path, commands, frozenset({"add_rule"}))

    def _add(self, parameters: dict[str, Any]) -> Any:
        if "rule" not in parameters:
            raise CommandError("which rule?")
        self.rules.append(parameters["rule"])
        return len(self.rules)

    def _fail(self, _: dict[str, Any]) -> Any:
        return 1 // 0

    def _bytes(self, parameters: dict[str, Any]) -> Any:
        return "x" * parameters["count"]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def plane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plane]:
    with serving(Plane(tmp_path / "control.sock"), request.param) as made:
        yield made
    assert not made.path.exists()


def test_commands_are_answered(plane: Plane) -> None:
    with ControlClient(plane.path) as client:
        assert client.call("status") == {"ok": True}
        with pytest.raises(CommandError, match="there is no command 'nonsense'; there are add_rule, bytes"):
            client.call("nonsense")
        with pytest.raises(CommandError, match="failed: ZeroDivisionError"):
            client.call("fail")
        assert client.call("status") == {"ok": True}


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (LookupError("no rule 9"), CommandError),
        (ValueError("no number"), CommandError),
        (KeyError("x"), KeyError),
    ],
)
def test_mistakes_of_the_user_are_distinguished_from_bugs(
    raised: Exception, expected: type[Exception]
) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(expected, match=str(raised)):
        by_name(fail)["fail"]({})


def test_only_a_controller_changes_something(plane: Plane) -> None:
    with ControlClient(plane.path) as client:
        with pytest.raises(CommandError, match="may only look"):
            client.call("add_rule", rule="error => delay 1s")
        assert client.call("hello", control=True) == {"protocol": 1, "control": True, "controllers": 1}
        assert client.call("add_rule", rule="error => delay 1s") == 1
        with pytest.raises(CommandError, match="which rule"):
            client.call("add_rule")
    assert plane.rules == ["error => delay 1s"]


def test_when_the_last_controller_leaves_this_is_told(plane: Plane) -> None:
    first, second = ControlClient(plane.path, True), ControlClient(plane.path, True)
    brief = ControlClient(plane.path, True, lasting=False)
    assert brief.call("add_rule", rule="x") == 1
    assert plane.do(lambda: plane.server.controllers) == 2
    first.close()
    plane.until(lambda: plane.server.controllers == 1)
    assert plane.left == 0
    second.call("hello", control=False)  # it releases control, but stays connected
    assert plane.left == 1
    brief.close()
    second.close()
    plane.until(lambda: not plane.server._connections)
    assert plane.left == 1


def test_a_killed_controller_is_gone_too(plane: Plane) -> None:
    code = "import sys, os, signal\nfrom kproxy.proxy.control import ControlClient\n"
    code += "made = ControlClient(sys.argv[1], True)\nos.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", code, plane.path], check=False)
    plane.until(lambda: plane.left == 1)


def test_events_come_between_answers(plane: Plane) -> None:
    with ControlClient(plane.path) as client, ControlClient(plane.path) as other:
        client.call("subscribe")
        plane.do(lambda: plane.server.publish({"event": "one", "value": 1}))
        assert client.call("status") == {"ok": True}
        plane.do(lambda: plane.server.publish({"event": "two"}))
        events = client.events()
        assert [next(events), next(events)] == [{"event": "one", "value": 1}, {"event": "two"}]
        assert list(client.events(timeout=0.05)) == []
        assert list(other.events(timeout=0.05)) == []


@pytest.mark.slow
def test_a_slow_subscriber_loses_events_and_is_told_how_many(plane: Plane) -> None:
    size, count = 10_000, 1_000
    with ControlClient(plane.path) as client:
        client.call("subscribe")
        for number in range(count):
            event = {"event": "big", "number": number, "text": "x" * size}
            plane.do(lambda event=event: plane.server.publish(event))
        got, lost = [], 0
        events = client.events(PATIENCE)
        while len(got) + lost < count:
            event = next(events)
            got += [event["number"]] if event["event"] == "big" else []
            lost += event.get("count", 0)
    assert got == sorted(got)
    assert len(got) + lost == count
    assert len(got) * size < 4 * control.MOST_WAITING


def test_who_does_not_take_answers_is_not_read_from(plane: Plane) -> None:
    request = json.dumps({"do": "bytes", "count": 1 << 20}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(plane.path))
        client.sendall(request * 100)
        plane.until(lambda: bool(plane.server._connections))
        (connection,) = plane.do(lambda: list(plane.server._connections))
        waiting = plane.do(lambda: connection._transport.get_write_buffer_size())
        assert waiting < 3 << 20
        received, lines = bytearray(), 0
        while lines < 100:
            received = bytearray(client.recv(1 << 20))
            lines += received.count(b"\n")


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"do": 7}', b'{"do": ["x"]}'])
def test_what_makes_no_sense_is_answered(plane: Plane, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(plane.path))
        client.sendall(line + b'\n\n{"id": "a", "do": "status"}\n')
        file = client.makefile("rb")
        assert json.loads(file.readline())["error"]
        assert json.loads(file.readline()) == {"id": "a", "ok": {"ok": True}}
        file.close()


def test_a_line_without_end_is_refused(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_LINE", 1 << 20)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(plane.path))
        client.sendall(b"x" * ((1 << 20) + 1))
        file = client.makefile("rb")
        assert json.loads(file.readline()) == {"id": None, "error": "a line has more than 1 MiB"}
        assert file.readline() == b""
        file.close()


def test_there_are_only_so_many_connections(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_CONNECTIONS", 2)
    with (
        ControlClient(plane.path),
        ControlClient(plane.path),
        pytest.raises(CommandError, match="there are 2 control connections already"),
    ):
        ControlClient(plane.path)


def test_another_user_is_refused(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_peer", lambda _: 12345)
    with pytest.raises(CommandError, match="another user than 12345"):
        ControlClient(plane.path)


@pytest.mark.skipif(
    not hasattr(socket, "SO_PEERCRED"), reason="the system does not tell who is at the other end"
)
def test_the_user_is_the_real_one(plane: Plane) -> None:
    with ControlClient(plane.path):
        (connection,) = plane.do(lambda: list(plane.server._connections))
        assert plane.do(lambda: control._peer(connection._transport.get_extra_info("socket"))) == os.getuid()


def test_only_the_user_may_open_the_socket(plane: Plane) -> None:
    assert stat.S_IMODE(plane.path.stat().st_mode) == 0o600


def test_the_end_of_the_plane_is_told(tmp_path: Path) -> None:
    with serving(Plane(tmp_path / "control.sock")) as plane:
        client = ControlClient(plane.path, True)
        client.call("subscribe")
    with pytest.raises(ClosedError):
        next(client.events())
    with pytest.raises(ClosedError):
        client.call("status")
    client.close()
    assert plane.left == 0
    with pytest.raises(OSError):
        ControlClient(plane.path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/fd")
def test_a_long_path_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    with serving(Plane(folder / "control.sock")) as plane, ControlClient(plane.path) as client:
        assert client.call("status") == {"ok": True}
    assert not plane.path.exists()


def test_it_starts_without_anything_heavy() -> None:
    code = "import sys, kproxy.proxy.control, kproxy.proxy.run_folder\n"
    code += "print([name for name in ('numpy', 'click', 'textual', 'psutil', 'construct') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_commands_of_a_controller_wait_for_what_they_need(tmp_path: Path, run: Any) -> None:
    ready = threading.Event()

    def prepare() -> None:
        time.sleep(0.1)
        ready.set()

    def ask(control: bool) -> list[bool]:
        with ControlClient(tmp_path / "control.sock", control) as client:
            return [client.call("is_ready"), client.call("is_ready")]

    async def test() -> None:
        commands = {"is_ready": lambda _: ready.is_set()}
        server = control.ControlServer(tmp_path / "control.sock", commands, prepare=prepare)
        await server.start()
        assert await asyncio.to_thread(ask, False) == [False, False]
        assert await asyncio.to_thread(ask, True) == [True, True]
        assert await asyncio.to_thread(ask, True) == [True, True]
        await server.close()

    run(test())
