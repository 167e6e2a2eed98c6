"""``kproxy ctl`` with scripted responses of the plane."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main
from kproxy.cli.ctl import hold_until_interrupted
from kproxy.proxy.control import CommandError
from kproxy.proxy.run_folder import RunFolder, running
from kproxy.text.control import held_line, lines_of
from tests.kproxy.proxy.fake_plane import FakePlane, serving
from tests.waiting import PATIENCE

pytestmark = pytest.mark.quick

CHANGING = frozenset(
    {"add_rule", "remove_rule", "set_hold", "release", "kill", "edit", "forwarding", "keep", "drain"}
)
HELD = {
    "number": 1,
    "side": "request",
    "api": "Produce",
    "version": 9,
    "client": ["127.0.0.1", 41532],
    "client_id": None,
    "broker": ["10.0.0.1", 9092],
    "held_ns": 2_400_000_000,
    "released_in_ns": 21_600_000_000,
    "waiting_behind": 2,
}
RULE = {
    "number": 1,
    "rule": "error => delay 1s",
    "side": "response",
    "hits": 1234,
    "left_count": None,
    "left_ns": 599_000_000_000,
    "ended": None,
    "failures": 0,
    "failure": None,
}


class ScriptedPlane(FakePlane):
    """Answers every command, and stores the commands it received."""

    def __init__(self, path: Path) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Any] = {
            "holds": {"filters": {"request": "api == Produce"}, "held": [HELD], "passed": 0, "failures": 0},
            "rules": {"rules": [RULE]},
            "set_hold": {"side": "request"},
            "release": {"released": 1},
        }
        names = ("status", "connections", "brokers", "rules", "holds", *CHANGING)
        super().__init__(path, {name: self._command(name) for name in names}, CHANGING)

    def _command(self, name: str) -> Any:
        def answer(parameters: dict[str, Any]) -> Any:
            self.asked.append((name, parameters))
            found = self.answers.get(name, {})
            if isinstance(found, Exception):
                raise found
            return found

        return answer


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def plane() -> Iterator[ScriptedPlane]:
    folder = RunFolder.create(9092)
    folder.write(listen="127.0.0.1:9092", capture="")
    with serving(ScriptedPlane(folder.control_socket)) as made:
        yield made


def ctl(*arguments: str, **how: Any) -> Result:
    return CliRunner().invoke(main, ["ctl", *arguments], **how)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["status"], ("status", {})),
        (["connections"], ("connections", {})),
        (["brokers"], ("brokers", {})),
        (["rules"], ("rules", {})),
        (["rule", "add", "error => reset"], ("add_rule", {"rule": "error => reset", "force": False})),
        (["rule", "add", "~all => reset", "--force"], ("add_rule", {"rule": "~all => reset", "force": True})),
        (["rule", "remove", "2"], ("remove_rule", {"number": 2})),
        (["rule", "remove", "all"], ("remove_rule", {"number": "all"})),
        (["holds"], ("holds", {})),
        (["unhold"], ("set_hold", {"filter": None})),
        (["release", "3"], ("release", {"number": 3})),
        (["release", "all"], ("release", {"number": "all"})),
        (["kill", "3"], ("kill", {"number": 3})),
        (["forwarding", "off"], ("forwarding", {"on": False})),
        (["keep"], ("keep", {})),
        (["drain"], ("drain", {"seconds": None})),
        (["drain", "--seconds", "2"], ("drain", {"seconds": 2.0})),
        (
            ["edit", "1", "topics[0].name=orders", "timeout_ms=5", 'x={"a": [1]}', "y="],
            (
                "edit",
                {
                    "number": 1,
                    "changes": {"topics[0].name": "orders", "timeout_ms": 5, "x": {"a": [1]}, "y": ""},
                },
            ),
        ),
    ],
)
def test_what_the_plane_is_asked(plane: ScriptedPlane, arguments: list[str], asked: tuple[str, dict]) -> None:
    result = ctl(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    assert plane.asked == [asked]
    assert json.loads(result.stdout) == plane.answers.get(asked[0], {})


def test_a_body_or_a_frame_in_place_of_fields(plane: ScriptedPlane, tmp_path: Path) -> None:
    (tmp_path / "frame").write_bytes(b"\0\0\0\1x")
    assert ctl("edit", "1", "--frame", str(tmp_path / "frame")).exit_code == 0
    assert ctl("edit", "1", "--body", "-", input='{"topics": []}').exit_code == 0
    assert [asked for _, asked in plane.asked] == [
        {"number": 1, "frame": b64encode(b"\0\0\0\1x").decode()},
        {"number": 1, "body": {"topics": []}},
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["edit", "1"], "give fields (PATH=VALUE), or --body, or --frame"),
        (["edit", "1", "nonsense"], "'nonsense' is not a change: write PATH=VALUE"),
        (["release", "some"], "'some' is neither a number nor all"),
        (["forwarding", "maybe"], "'maybe' is not one of 'on', 'off'"),
    ],
)
def test_what_makes_no_sense_is_refused(plane: ScriptedPlane, arguments: list[str], said: str) -> None:
    result = ctl(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert plane.asked == []


def test_what_the_plane_refuses_is_said(plane: ScriptedPlane) -> None:
    plane.answers["add_rule"] = CommandError("no such action:\n  error => dely\n           ^^^^")
    result = ctl("rule", "add", "error => dely")
    assert (result.exit_code, result.stderr) == (
        1,
        "kproxy: no such action:\n  error => dely\n           ^^^^\n",
    )


def test_a_command_that_leaves_at_once_ends_no_holds(plane: ScriptedPlane) -> None:
    ctl("release", "1")
    plane.until(lambda: not plane.server._connections)
    assert plane.left == 0


# ------------------------------------------------------------ selecting a proxy
def test_without_a_proxy_it_says_so() -> None:
    result = ctl("status")
    assert (result.exit_code, result.stderr) == (
        1,
        "kproxy: no proxy of yours is running: kproxy proxy starts one\n",
    )


def test_of_several_one_has_to_be_named(plane: ScriptedPlane) -> None:
    RunFolder.create(9093).write(listen="127.0.0.1:9093", capture="")
    result = ctl("status")
    assert result.exit_code == 2
    assert "--run 9092  127.0.0.1:9092" in result.stderr
    assert "--run 9093" in result.stderr
    assert ctl("--run", "9092", "status").exit_code == ctl("status", "--run", "9092").exit_code == 0
    result = ctl("status", "--run", "9094")
    assert result.stderr == "kproxy: no proxy 9094 is running; there are 9092, 9093\n"
    assert "does not listen on its control socket" in ctl("status", "--run", "9093").stderr


@pytest.mark.slow
def test_running_proxies_are_completed(plane: ScriptedPlane) -> None:
    code = "from kproxy.cli import main; main(prog_name='kproxy')"
    environment = {
        "_KPROXY_COMPLETE": "bash_complete",
        "COMP_WORDS": "kproxy ctl --run 90",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,9092\n"


# ------------------------------------------------------------ hold
@pytest.mark.slow
def test_hold_stays_until_ctrl_c(plane: ScriptedPlane) -> None:
    code = "from kproxy.cli import main; main()"
    command = [sys.executable, "-c", code, "ctl", "hold", "api == Produce"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == HELD
        assert plane.do(lambda: plane.server.controllers) == 1
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (out, process.returncode) == ("", 0)
    assert err.splitlines()[0] == "kproxy: holding matching requests until Ctrl-C"
    assert err.endswith("kproxy: holding ended, 1 released\n")
    changed = [asked for asked in plane.asked if asked[0] != "holds"]
    assert changed == [
        ("set_hold", {"filter": "api == Produce"}),
        ("set_hold", {"filter": None, "side": "request"}),
        ("release", {"number": "all"}),
    ]
    plane.until(lambda: plane.left == 1)


@pytest.mark.slow
def test_on_a_terminal_held_messages_are_printed_in_lines(
    plane: ScriptedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    @contextmanager
    def ended(stop: Callable[[], None]) -> Iterator[None]:
        def echo(line: str, *, err: bool = False) -> None:
            said.append(line)
            if not err:
                stop()

        monkeypatch.setattr("kproxy.cli.ctl.echo", echo)
        yield

    monkeypatch.setattr("kproxy.signals.ended_by_signals", ended)
    (run,) = running()
    hold_until_interrupted(run, "api == Produce", as_json=False)
    assert said[1:2] == [held_line(HELD)]


# ------------------------------------------------------------ tables
def test_tables_of_what_is_held_and_of_rules() -> None:
    held = "\n".join(lines_of("holds", {"filters": {"request": "api == Produce"}, "held": [HELD]}))
    assert "requests that fit: api == Produce" in held
    assert "request Produce v9" in held
    assert held_line(HELD) == (
        "1  request Produce v9 of 127.0.0.1:41532  released automatically in 21.6 s, 2 wait behind it"
    )
    assert list(lines_of("holds", {"filters": {}, "held": []})) == ["held: none (nothing is to be held)"]
    failing = {**RULE, "failures": 2, "failure": "ValueError: x", "ended": "count"}
    rules = "\n".join(lines_of("rules", {"rules": [RULE, failing]}))
    assert "1,234" in rules
    assert "ended: count" in rules
    assert "failed 2 times: ValueError: x" in rules


def test_a_table_of_connections_and_brokers() -> None:
    connection = {
        "connection": 7,
        "client": "10.0.0.7:1234",
        "client_id": "app",
        "broker": "10.0.0.1:9092",
        "node_id": None,
        "age_ns": 5_000_000_000,
        "idle_ns": 100_000_000,
        "requests_in_flight": 1,
        "from_client": 1000,
        "from_broker": 2000,
        "held": 0,
        "tcp": {"client": {"rtt_us": 40}, "broker": None},
    }
    text = "\n".join(lines_of("connections", [connection]))
    assert "10.0.0.7:1234" in text
    assert list(lines_of("connections", [])) == ["connections: none"]


def test_a_table_of_brokers_tells_which_cannot_be_reached_and_why() -> None:
    broker = {
        "role": "broker",
        "node_id": 1,
        "address": "kafka1:9092",
        "dialled": None,
        "at": "127.0.0.1:9094",
    }
    mapped = broker | {"node_id": 2, "address": "kafka2:9092", "dialled": "127.0.0.1:29092"}
    brokers = [
        broker | {"reachable": False, "why": "kafka1:9092 cannot be reached"},
        mapped | {"reachable": True, "why": ""},
        mapped | {"node_id": 3, "reachable": None, "why": ""},
    ]
    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in lines_of("brokers", brokers)]
    (at,) = [
        number for number, line in enumerate(lines) if "kafka1:9092" in line and "127.0.0.1:9094" in line
    ]
    assert "no" in lines[at].split()
    assert "kafka1:9092 cannot be reached" in lines[at + 1]
    (reached,) = [line for line in lines if line.split()[1:2] == ["2"]]
    assert {"kafka2:9092", "127.0.0.1:29092", "yes"} <= set(reached.split())
    assert "not tried" in lines[-1]


def test_status_is_a_list() -> None:
    lines = list(
        lines_of("status", {"pid": 7, "forwarding": True, "bytes": {"from_clients": 1234}, "x": None})
    )
    assert [line.split() for line in lines] == [
        ["pid", "7"],
        ["forwarding", "yes"],
        ["bytes.from_clients", "1,234"],
        ["x", "-"],
    ]
