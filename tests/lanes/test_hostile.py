"""The collection is generated reproducibly, and the gate finds what it looks for."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from captures.faults import Faults
from tests.lanes.hostile import __main__ as lane
from tests.lanes.hostile import gate
from tests.lanes.hostile.collection import ATTACKS, Attack
from tests.lanes.hostile.gate import COMMANDS, Outcome
from tests.lanes.hostile.live import Bounds, Felt
from tests.packaging.tree import ROOT

_TINY = 0.0005


@pytest.mark.sample(12)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_file_is_always_the_same(attack: Attack, tmp_path: Path) -> None:
    once, again = (sha256(attack.write(tmp_path, _TINY).read_bytes()).digest() for _ in range(2))
    assert once == again


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_file_says_what_it_attacks(attack: Attack) -> None:
    assert 15 < len(attack.about) < 120
    assert not attack.about.endswith(".")


def test_a_file_grows_with_its_scale(tmp_path: Path) -> None:
    small = ATTACKS["overlaps"].write(tmp_path, 0.01).stat().st_size
    assert 9 < ATTACKS["overlaps"].write(tmp_path, 0.1).stat().st_size / small < 11


def test_every_command_that_reads_captures_is_run() -> None:
    """``open`` needs a terminal, ``replay`` and ``request-log`` a broker.

    ``sniff``, ``proxy``, ``attach`` and ``ctl`` need live traffic. ``config`` reads no captures, ``serve`` and ``mcp``
    run other commands for that.
    """
    from kproxy import cli

    run = {step[0] for command in COMMANDS.values() for step in command.steps}
    others = {
        "open",
        "replay",
        "sniff",
        "proxy",
        "attach",
        "ctl",
        "request-log",
        "doctor",
        "completion",
        "config",
        "serve",
        "mcp",
    }
    assert run == set(cli.COMMANDS) - others


_WORSE = """
import os, signal, sys, time
from pathlib import Path
from tests.lanes.hostile import gate

def main(arguments, **_):
    how, file = arguments
    if how == "raises":
        raise KeyError("Metadata")
    if how == "exits":
        sys.exit(9)
    if how == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "grows":
        held = bytearray(400 << 20)
        time.sleep(900)
    if how == "child grows":
        if os.fork() == 0:
            held = bytearray(400 << 20)
            time.sleep(900)
        os.wait()
    if how == "spins":
        while True:
            pass
    if how == "escapes":
        print("client \\x1b[2J")
    if how == "escapes in C1":
        print("client \\x9b2J")
    if how == "says escapes":
        print("kproxy: \\x07", file=sys.stderr)
    if how == "gets over it":
        print("kproxy: this is an internal error in kproxy: what failed is left out", file=sys.stderr)
    if how == "leaves":
        if os.fork() == 0:
            time.sleep(900)
            os._exit(0)
    if how == "talks":
        print("größe ✓\\n" * 1000)
    if how == "is incomplete":
        sys.exit(3)

gate.main = main
file = Path(sys.argv[1])
commands = [gate.Command(how, ((how, "FILE"),)) for how in sys.argv[2:]]
for outcome in gate.run([(file, commands)], gate.Bounds(1, 350 << 20, 900), 2):
    print(outcome.command, "|", outcome.failure)
"""


@pytest.mark.slow
def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    file = tmp_path / "any.pcap"
    file.touch()
    wrong = {
        "raises": "traceback: KeyError: 'Metadata'",
        "exits": "exit code 9",
        "dies": "ended by SIGSEGV",
        "grows": "over 350 MiB",
        "child grows": "over 350 MiB",
        "spins": "over 1 s of the processor",
        "escapes": r"prints control characters: b'\x1b'",
        "escapes in C1": r"prints control characters: b'\xc2\x9b'",
        "says escapes": r"prints control characters: b'\x07'",
        "gets over it": "a fault that it got over: kproxy: this is an internal error in kproxy: "
        "what failed is left out",
        "leaves": "",
        "talks": "",
        "is incomplete": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", _WORSE, str(file), *wrong],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (
        dict(line.split(" | ") if " | " in line else (line[:-2], "") for line in done.stdout.splitlines())
        == wrong
    )


def test_what_kproxy_says_of_its_own_faults_fails_a_run() -> None:
    for count in (1, 2):
        faults = Faults()
        for number in range(count):
            faults.note(KeyError("planted"), "decoding", number + 1)
        assert any(gate._FAULT.search(line.encode()) for line in faults.lines())


def test_turns_are_all_runs_and_each_has_every_file_and_command() -> None:
    commands = [name for name, command in COMMANDS.items() if not command.again]
    turns = [
        {
            (file, name)
            for number, file in enumerate(ATTACKS)
            for name in lane._of_turn(commands, number + turn)
        }
        for turn in range(6)
    ]
    assert sum(map(len, turns)) == len(set.union(*turns)) == len(ATTACKS) * len(commands)
    for ran in turns:
        assert {file for file, _ in ran} == set(ATTACKS)
        assert {name for _, name in ran} == set(commands)


def _outcome(command: str, **more: object) -> Outcome:
    given = {"seconds": 1.0, "memory": 200 << 20, "code": 0, "printed": 0, "failure": "", "said": ""}
    return Outcome(**{"file": "a.pcap", "command": command} | given | more)  # type: ignore[arg-type]


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    table = lane.Table({"a.pcap": 1000}, {"a.pcap": 2}, whole=False)
    table.add(_outcome("read"))
    table.add(
        _outcome("stats", seconds=3.0, code=1, failure="traceback: KeyError", said="one\nKeyError: 3\n")
    )
    table.finish()
    printed = capsys.readouterr().out
    assert "1,000 bytes; at most   3.00 s (stats), 200 MiB (read); exit codes 0, 1" in printed
    assert "KeyError: 3" in printed
    assert "2 runs on 1 files, 4 s: 1 failed" in printed
    file = {
        "slowest": [3.0, "stats"],
        "largest": [200 << 20, "read"],
        "failed": [["stats", "traceback: KeyError"]],
    }
    assert table.told() == {"a.pcap": file}


def test_names_that_there_are_not() -> None:
    done = CliRunner().invoke(lane.main, ["overlap"])
    assert (done.exit_code, "no file is called overlap" in done.output) == (2, True)


def test_the_files_alone(tmp_path: Path) -> None:
    done = CliRunner().invoke(lane.main, ["header-alone", "noth*", "--make", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert {path.name: path.stat().st_size for path in (tmp_path / "new").iterdir()} == {
        "header-alone.pcap": 24,
        "nothing.pcap": 0,
    }


def test_what_is_felt_beside_the_proxy_is_not_its_doing() -> None:
    bounds = Bounds(waits=1.0, memory=100, ports=10)
    assert Felt(5.0, 4.5, 100, 10).wrong(bounds) == ""
    assert Felt(5.0, 0.5, 101, 11).wrong(bounds) == "others waited 5.00 s, 101 MiB, 11 ports"
    assert Felt(0.1, 0.1, 50, 2, "timed out").wrong(bounds) == "timed out"
