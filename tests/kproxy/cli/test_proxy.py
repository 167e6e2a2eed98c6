"""``kproxy proxy`` as its users run it: a real process with its child processes, real sockets, and a fake broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from click.testing import CliRunner

from dissectors.error_codes import ErrorCode
from kproxy.cli import main
from kproxy.proxy.run_folder import leftovers, running
from tests.kproxy.fake_broker import METADATA, FakeBroker, running_in_thread
from tests.kproxy.frames import request_frame
from tests.waiting import PATIENCE, wait_until

HEARTBEAT = 12
JOIN_GROUP = 11
ASKED = {"topics": None, "allow_auto_topic_creation": False}
LIVING = {"group_id": "orders-group", "generation_id": 1, "member_id": "m"}
JOINING = {"group_id": "orders-group", "member_id": "", "protocol_type": "consumer", "protocols": []}


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def broker() -> Iterator[FakeBroker]:
    with running_in_thread() as fake:
        yield fake


class Proxy:
    """A running ``kproxy proxy``, whose output is read by threads."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kproxy", "proxy", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        self.lines: Queue[str] = Queue()
        self.notices: Queue[str] = Queue()
        self.said: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.notices)),
        ]
        for thread in self._threads:
            thread.start()
        self.port = int(self.notice(r"listening on 127.0.0.1:(\d+)")[1])

    def _read(self, stream: Any, into: Queue[str]) -> None:
        with stream:
            for line in stream:
                text = line.rstrip("\n")
                if into is self.notices:
                    self.said.append(text)
                into.put(text)
        into.put("")

    def notice(self, pattern: str) -> re.Match[str]:
        """Return the next notice that matches a pattern."""
        return self._next(self.notices, pattern)

    def line(self, pattern: str) -> re.Match[str]:
        """Return the next printed line that matches a pattern."""
        return self._next(self.lines, pattern)

    @staticmethod
    def _next(queue: Queue[str], pattern: str) -> re.Match[str]:
        met = []
        while True:
            text = queue.get(timeout=PATIENCE)
            found = re.search(pattern, text)
            if found:
                return found
            met.append(text)
            assert text or queue.qsize(), f"{pattern!r} is in none of {met}"

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join(PATIENCE)
        return code


@contextmanager
def proxy(*arguments: str) -> Iterator[Proxy]:
    started = Proxy("--listen", "127.0.0.1:0", *arguments)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
        started.wait()


def ask(port: int, *frames: bytes) -> list[bytes]:
    """Send frames on a new connection; return as many responses."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(b"".join(frames))
        stream = connection.makefile("rb")
        got = []
        for _ in frames:
            size = stream.read(4)
            got.append(size + stream.read(int.from_bytes(size)))
        stream.close()
        return got


# ---------------------------------------------------------------- shown and recorded
def test_exchanges_are_shown_while_they_happen(broker: FakeBroker) -> None:
    with proxy("-b", f"127.0.0.1:{broker.port}") as running_proxy:
        ask(running_proxy.port, request_frame(METADATA, 12, ASKED), request_frame(HEARTBEAT, 0, LIVING, 2))
        running_proxy.line(r"Metadata v12 .*1 broker.*\[changed\]")
        running_proxy.line(r"Heartbeat v0 +orders-group")
        assert running_proxy.end() == 0
        running_proxy.notice(r"2 exchanges of 1 client .* 2 ok")
    assert not running()
    assert not leftovers()


@pytest.mark.slow
def test_json_and_a_filter_for_programs(broker: FakeBroker) -> None:
    with proxy("-b", f"127.0.0.1:{broker.port}", "--json", "-Y", "api == Metadata") as running_proxy:
        ask(running_proxy.port, request_frame(HEARTBEAT, 0, LIVING, 1), request_frame(METADATA, 12, ASKED, 2))
        shown = json.loads(running_proxy.lines.get(timeout=PATIENCE))
        assert shown["api"] == "Metadata"
        (change,) = [
            each for each in shown["kproxy"]["response"]["changed"] if each["path"] == "brokers[0].port"
        ]
        assert change["sent"] == broker.port
        assert change["got"] != broker.port
        assert shown["response"]["brokers"][0]["port"] == broker.port
        assert running_proxy.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_what_is_wrong_is_told_while_it_happens(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"error_code": int(ErrorCode.GROUP_MAX_SIZE_REACHED), "generation_id": -1, "protocol_name": ""}
    nothing = {"throttle_time_ms": 0, "leader": "", "member_id": "", "members": []}
    monkeypatch.setitem(broker.answers, JOIN_GROUP, lambda _request, _version: {**refused, **nothing})
    with proxy("-b", f"127.0.0.1:{broker.port}", "-q", "--diagnose") as running_proxy:
        ask(running_proxy.port, request_frame(JOIN_GROUP, 5, JOINING))
        running_proxy.notice("HIGH: Group orders-group is full: .* could not join .*group_full")
        assert running_proxy.end() == 0
        running_proxy.notice(r"1 finding: 1 high\.")


@pytest.mark.slow
def test_what_kproxy_did_is_no_finding(broker: FakeBroker) -> None:
    fault = ("--fault", "api == JoinGroup => error GROUP_MAX_SIZE_REACHED")
    with proxy("-b", f"127.0.0.1:{broker.port}", "-q", "--diagnose", *fault) as running_proxy:
        ask(running_proxy.port, request_frame(JOIN_GROUP, 5, JOINING))
        assert running_proxy.end() == 0
        running_proxy.notice("kproxy intervened in 1 exchange")
        assert not [line for line in running_proxy.said if "group_full" in line]


@pytest.mark.slow
def test_everything_is_appended_to_a_file(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "said.pcapng"
    for correlation_id in (1, 2):
        with proxy("-b", f"127.0.0.1:{broker.port}", "-q", "-w", str(path)) as running_proxy:
            ask(running_proxy.port, request_frame(HEARTBEAT, 0, LIVING, correlation_id))
            assert running_proxy.end() == 0
    result = CliRunner().invoke(main, ["read", "--json", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    assert [json.loads(line)["correlation_id"] for line in result.stdout.splitlines()] == [1, 2]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_what_cannot_be_recorded_ends_it_at_once(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "said.pcapng"
    with proxy("-b", f"127.0.0.1:{broker.port}", "-w", str(path)) as running_proxy:
        running_proxy.notice(f"nothing can be recorded: {path}")
        assert running_proxy.wait() == 1
    assert not running()


@pytest.mark.slow
def test_what_another_run_has_recorded_is_not_shown_again(broker: FakeBroker, tmp_path: Path) -> None:
    path = tmp_path / "said.pcapng"
    for correlation_id in (1, 2):
        with proxy("-b", f"127.0.0.1:{broker.port}", "--json", "-w", str(path)) as running_proxy:
            ask(running_proxy.port, request_frame(HEARTBEAT, 0, LIVING, correlation_id))
            shown = json.loads(running_proxy.lines.get(timeout=PATIENCE))
            assert (shown["number"], shown["correlation_id"]) == (1, correlation_id)
            assert running_proxy.end() == 0


@pytest.mark.slow
def test_what_an_unclean_end_leaves_is_named(broker: FakeBroker) -> None:
    with proxy("-b", f"127.0.0.1:{broker.port}", "-q") as running_proxy:
        ask(running_proxy.port, request_frame(HEARTBEAT, 0, LIVING, 1))
        (run,) = running()
        os.kill(run.pid, signal.SIGKILL)
        running_proxy.notice("forwarding ended unexpectedly")
        assert running_proxy.wait() == 1
    result = CliRunner().invoke(main, ["read", "--json", run.capture], catch_exceptions=False)
    assert [json.loads(line)["api"] for line in result.stdout.splitlines()] == ["Heartbeat"]
    started = Proxy("--listen", "127.0.0.1:0", "--stub", "-q")
    assert started.end() == 0
    told = [notice for notice in started.said if "an earlier proxy ended uncleanly" in notice]
    assert len(told) == 1
    assert run.capture in told[0]
    assert [left.path for left in leftovers()] == [run.path]


@pytest.mark.slow
def test_when_the_front_is_gone_requests_in_flight_get_their_answers(broker: FakeBroker) -> None:
    async def slowly(*_: object) -> dict[str, Any]:
        await asyncio.sleep(0.5)
        return {}

    broker.answers[HEARTBEAT] = slowly
    try:
        with proxy("-b", f"127.0.0.1:{broker.port}", "-q") as running_proxy:
            (run,) = running()
            with socket.create_connection(("127.0.0.1", running_proxy.port), PATIENCE) as connection:
                before = len(broker.of(HEARTBEAT))
                connection.sendall(request_frame(HEARTBEAT, 0, LIVING, 5))
                wait_until(lambda: len(broker.of(HEARTBEAT)) > before)
                running_proxy.process.kill()
                assert connection.recv(100)[4:8] == b"\0\0\0\5"
            wait_until(lambda: not running())
    finally:
        del broker.answers[HEARTBEAT]
    assert run.capture == leftovers()[0].capture


@pytest.mark.slow
def test_the_flight_recorder_keeps_what_surrounds_a_match(broker: FakeBroker, tmp_path: Path) -> None:
    options = ["-q", "--keep", "api == Heartbeat", "--keep-dir", str(tmp_path), "--after", "100ms"]
    with proxy("-b", f"127.0.0.1:{broker.port}", *options) as running_proxy:
        ask(running_proxy.port, request_frame(METADATA, 12, ASKED), request_frame(HEARTBEAT, 0, LIVING, 2))
        running_proxy.notice(r"kept [\d,]+ packets around Heartbeat")
        assert running_proxy.end() == 0
    kept = sorted(tmp_path.glob("*Heartbeat*.pcapng"))
    result = CliRunner().invoke(main, ["read", "--json", str(kept[0])], catch_exceptions=False)
    assert "Heartbeat" in [json.loads(line)["api"] for line in result.stdout.splitlines()]


@pytest.mark.slow
def test_metrics_are_served(broker: FakeBroker) -> None:
    pytest.importorskip("prometheus_client")
    with proxy("-b", f"127.0.0.1:{broker.port}", "--metrics", "0") as running_proxy:
        url = running_proxy.notice(r"metrics are at (http\S+)")[1]
        ask(running_proxy.port, request_frame(HEARTBEAT, 0, LIVING, 1))
        running_proxy.line("Heartbeat")
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            text = answer.read().decode()
        assert re.search(r'kproxy_requests_total\{[^}]*api="Heartbeat"[^}]*\} 1', text)
        assert running_proxy.end() == 0


@pytest.mark.slow
def test_a_fault_is_applied_and_shown(broker: FakeBroker) -> None:
    rule = "api == Heartbeat => error REBALANCE_IN_PROGRESS"
    with proxy("-b", f"127.0.0.1:{broker.port}", "--fault", rule) as running_proxy:
        (answer,) = ask(running_proxy.port, request_frame(HEARTBEAT, 0, LIVING, 1))
        assert int.from_bytes(answer[8:10]) == 27
        running_proxy.line(r"Heartbeat v0 .*REBALANCE_IN_PROGRESS")
        assert running_proxy.end() == 0


@pytest.mark.slow
def test_a_stub_needs_no_broker() -> None:
    with proxy("--stub") as running_proxy:
        ask(running_proxy.port, request_frame(METADATA, 12, ASKED))
        running_proxy.line(r"Metadata v12 .*1 broker")
        assert running_proxy.end() == 0


@pytest.mark.slow
def test_in_the_background_it_goes_on_without_a_terminal(broker: FakeBroker) -> None:
    started = Proxy("--listen", "127.0.0.1:0", "-b", f"127.0.0.1:{broker.port}", "--detach")
    assert started.wait() == 0
    try:
        ask(started.port, request_frame(HEARTBEAT, 0, LIVING, 1))
        (run,) = running()
        drained = CliRunner().invoke(main, ["ctl", "drain"], catch_exceptions=False)
        assert drained.exit_code == 0
    finally:
        for left in running():
            os.kill(left.pid, signal.SIGTERM)
    wait_until(lambda: not run.path.exists())


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-q"], ["--keep", "error"]])
def test_a_service_that_nobody_used_ends_well(broker: FakeBroker, tmp_path: Path, options: list[str]) -> None:
    if "--keep" in options:
        options = [*options, "--keep-dir", str(tmp_path)]
    with proxy("-b", f"127.0.0.1:{broker.port}", *options) as running_proxy:
        assert running_proxy.end(signal.SIGTERM) == 0
        assert "no TCP packets" not in "\n".join(running_proxy.said)


@pytest.mark.slow
def test_in_the_background_metrics_and_the_flight_recorder_go_on(broker: FakeBroker, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    kept = tmp_path / "made" / "kept"
    keep = ["--keep", "api == Heartbeat", "--keep-dir", str(kept), "--after", "100ms"]
    watching = ["--metrics", "0", *keep]
    started = Proxy("--listen", "127.0.0.1:0", "-b", f"127.0.0.1:{broker.port}", "--detach", *watching)
    url = started.notice(r"metrics are at (http\S+)")[1]
    assert started.wait() == 0  # also its pipes end
    try:
        ask(started.port, request_frame(HEARTBEAT, 0, LIVING, 1))
        (run,) = running()

        def metrics() -> str:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return str(answer.read().decode())

        wait_until(
            lambda: re.search(r'kproxy_requests_total\{[^}]*api="Heartbeat"[^}]*\} 1', metrics()) is not None
        )
        assert CliRunner().invoke(main, ["ctl", "drain"], catch_exceptions=False).exit_code == 0
    finally:
        for left in running():
            os.kill(left.pid, signal.SIGTERM)
    wait_until(lambda: not run.path.exists())
    assert list(kept.glob("*Heartbeat*.pcapng"))


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-q"], [], ["-q", "--no-capture"], ["--detach"]])
def test_control_commands_over_http(broker: FakeBroker, options: list[str]) -> None:
    started = Proxy(
        "--listen", "127.0.0.1:0", "-b", f"127.0.0.1:{broker.port}", "--control-http", "0", *options
    )
    url, token = started.notice(r"control is at (http\S+)/openapi.json, its token in (\S+)").groups()

    def call(path: str, body: bytes | None = None) -> Any:
        bearer = {"Authorization": f"Bearer {Path(token).read_text().strip()}"}
        request = urllib.request.Request(f"{url}/{path}", body, bearer)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.loads(answer.read())

    try:
        ask(started.port, request_frame(HEARTBEAT, 0, LIVING, 1))
        (run,) = running()
        assert call("health") == {"forwarding": True}
        assert call("status")["pid"] == run.pid
        paths = call("openapi.json")["paths"]
        assert {"/connections", "/held", "/add_rule", "/drain"} <= paths.keys()
        assert all(operation["summary"] for path in paths.values() for operation in path.values())
        rule = json.dumps({"rule": "api == Heartbeat => delay 1ms"}).encode()
        assert call("add_rule", rule) == {"number": 1}
        assert call("drain", b"") == {"connections": 0}
        assert started.wait() == 0
    finally:
        for left in running():
            os.kill(left.pid, signal.SIGTERM)
    wait_until(lambda: not run.path.exists())


@pytest.mark.slow
def test_a_folder_that_cannot_keep_anything_ends_the_start(broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    keep = ["--keep", "error", "--keep-dir", str(tmp_path / "file" / "kept")]
    result = CliRunner().invoke(
        main, ["proxy", "-b", f"127.0.0.1:{broker.port}", "--listen", "127.0.0.1:0", *keep]
    )
    assert result.exit_code == 1
    assert "file/kept: Not a directory" in result.stderr


@pytest.mark.slow
def test_what_fails_before_it_is_in_the_background_is_told(broker: FakeBroker) -> None:
    taken = f"127.0.0.1:{broker.port}"
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "kproxy",
            "proxy",
            "-b",
            taken,
            "--listen",
            taken,
            "--detach",
            "--keep",
            "error",
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1
    assert "Address already in use" in ended.stderr


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say with -b which broker"),
        (["-b", "a:1,b:2", "--mode", "passthrough"], "give one address with -b"),
        (["-b", "a:1", "--listen", "0.0.0.0:9092"], "say which with --advertise HOST"),
        (["-b", "a:1", "--listen", ":9092"], "say which with --advertise HOST"),
        (["-b", "a:1", "--ports", "9093"], "is not a valid choice of ports"),
        (["-b", "a:x"], "is not an address"),
        (["-b", "a:1", "--cert", __file__], "use --cert and --cert-key together"),
        (["-b", "a:1", "--client-ca", __file__], "give --cert and --cert-key, or --client-tls"),
        (["-b", "a:1", "--no-capture", "-w", "x"], "use one or the other"),
        (["-b", "a:1", "--no-capture", "--json"], "nothing to show"),
        (["-b", "a:1", "--tproxy"], "is for --mode transparent"),
        (["-b", "a:1", "--rotate-size", "1MB"], "about the file of -w"),
        (["-b", "a:1", "--fault", "api == Nonsense => drop"], "invalid rule"),
        (["-b", "a:1", "--fault", "true => drop"], ""),
        (["-b", "a:1", "--hold", "api =="], "invalid rule"),
        (["-b", "a:1", "--command-config", "/nowhere"], "does not exist"),
        (["--stub", "--no-forward"], "use one or the other"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(main, ["proxy", *arguments])
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(broker: FakeBroker) -> None:
    at = f"127.0.0.1:{broker.port}"
    ended = subprocess.run(
        [sys.executable, "-m", "kproxy", "proxy", "-b", at, "--listen", at],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1
    assert f"{at}: Address already in use; choose another one with --listen" in ended.stderr
