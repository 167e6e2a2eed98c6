"""The taps lane: TLS clients, read in their TLS library and, at the same time, from packets with a key log.

    python -m tests.lanes.taps                      # all that can run here; needs root and bpftrace
    python -m tests.lanes.taps kcat                 # selected clients
    python -m tests.lanes.taps --record             # and store the output of bpftrace in tests/data/taps

A client waits until the probes are set. Its exchanges have to be the same as those in the packets, one by one, with the
same endpoints, sizes and records.
"""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from captures.exchanges import ExchangeReader, open_capture
from captures.packets.tls import KeyLog
from tests.lanes.broker import Broker
from tests.lanes.recording import recorded
from tests.lanes.tls import _CLIENTS, AGENT, LISTENERS, RECORDS, certificate, records, tls_broker
from tests.lanes.tools import CannotRun, cache, jar, need, run, wait_for

DATA = Path(__file__).parents[1] / "data" / "taps"
#: waits for a line, then becomes the program, which keeps the process ID; libssl is loaded from the start
_GATE = ["sh", "-c", 'read -r go; exec "$@"', "sh"]
_NODE_GATE = "process.stdin.once('data', () => { process.stdin.destroy(); require(process.argv[1]); })"

_WRAPPER = """#!/bin/bash
if [ "$1" = -l ]; then exec {0} "$@"; fi
exec {0} "$@" > >(tee {1})
"""

#: an exiting kcat has one Fetch in flight on each connection
_MOST_UNREAD = 2

Commands = Callable[[str, Path, str, Path], list[tuple[list[str], str]]]


def _libssl() -> str:
    listed = run(["ldconfig", "-p"])
    return next(line.split()[-1] for line in listed.splitlines() if "libssl.so.3" in line)


def _kcat(address: str, certificate: Path, topic: str, _: Path) -> list[tuple[list[str], str]]:
    need("kcat")
    security = ["-X", "security.protocol=ssl", "-X", f"ssl.ca.location={certificate}"]
    kcat = [*_GATE, "kcat", "-b", address, *security]
    group = ["-G", topic, "-X", "auto.offset.reset=earliest", "-c", str(RECORDS), topic]
    return [([*kcat, "-P", "-t", topic], records(range(RECORDS))), ([*kcat, *group], "")]


def _python(program: str, requirement: str, *, keylog: bool = False) -> Commands:
    def commands(address: str, certificate: Path, topic: str, work: Path) -> list[tuple[list[str], str]]:
        python = cache() / "venv" / "bin" / "python"
        if not python.exists():
            run([sys.executable, "-m", "venv", cache() / "venv"])
        run([python, "-m", "pip", "install", "-q", requirement])
        arguments = [address, str(certificate), topic, str(RECORDS)]
        arguments += [str(work / f"{topic}.keylog")] if keylog else []
        return [([*_GATE, str(python), str(_CLIENTS / program), *arguments], "")]

    return commands


def _node(address: str, certificate: Path, topic: str, _: Path) -> list[tuple[list[str], str]]:
    need("node", "npm")
    folder = cache() / "kafkajs"
    shutil.copytree(_CLIENTS / "kafkajs", folder, dirs_exist_ok=True)
    run(["npm", "install", "--silent", "--no-package-lock"], cwd=folder)
    program = str(folder / "client.js")
    return [(["node", "-e", _NODE_GATE, program, address, str(certificate), topic, str(RECORDS)], "")]


CLIENTS: dict[str, Commands] = {
    "kcat": _kcat,
    "kafka-python": _python("kafka_python_client.py", "kafka-python==3.0.12", keylog=True),
    "aiokafka": _python("aiokafka_client.py", "aiokafka==0.14.0"),
    "kafkajs": _node,
}


@contextmanager
def tapped(pcap: Path, *pids: int) -> Iterator[None]:
    """Record processes with ``kproxy sniff --tls-of`` during the block; the output of bpftrace goes to a file."""
    log = pcap.with_suffix(".sniff")
    own = pcap.parent / "bin"
    own.mkdir(exist_ok=True)
    wrapper = own / "bpftrace"
    wrapper.write_text(_WRAPPER.format(shutil.which("bpftrace"), pcap.with_suffix(".txt")))
    wrapper.chmod(0o700)
    of = [text for pid in pids for text in ("--tls-of", str(pid))]
    command = [sys.executable, "-m", "kproxy", "sniff", *of, "-q", "-w", str(pcap), "--force"]
    with log.open("wb") as output:
        path = {"PATH": f"{own}:{os.environ['PATH']}"}
        sniff = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | path)
    try:
        wait_for("kproxy sniff", lambda: _ready(sniff, log), timeout=180)
        yield
    finally:
        sniff.send_signal(signal.SIGTERM)
        sniff.wait(60)
        click.echo(f"  {log.read_text().splitlines()[-1]}")


def _ready(sniff: subprocess.Popen[bytes], log: Path) -> bool:
    if sniff.poll() is not None:
        raise CannotRun(f"kproxy sniff has ended: {log.read_text()}")
    return "capturing on" in log.read_text()


def exchanges(pcap: Path, keys: KeyLog | None) -> list[tuple[object, ...]]:
    """Return the distinguishing values of a capture's exchanges, sorted."""
    capture = open_capture(str(pcap), keylog=keys)
    capture.read()
    found = []
    for each in ExchangeReader(capture):
        request, response = each.request, each.response
        found.append(
            (
                each.client,
                each.broker,
                each.correlation_id,
                each.api,
                request and request.raw,
                response and response.raw,
            )
        )
    return sorted(found, key=repr)


def compare(name: str, listener: str, broker: Broker, work: Path, public: Path, keys: Path) -> str:
    """Run a client; return the difference between its taps and its packets, empty if none."""
    topic = f"taps_{name.replace('-', '_')}_{listener[-2:]}"
    commands = CLIENTS[name](broker.address(listener), public, topic, work)
    pcap, tap = work / f"{topic}.pcap", work / f"{topic}.tap.pcap"
    environment = os.environ | {"LD_PRELOAD": _libssl()}
    running = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment if command[0] == "sh" else None,
        )
        for command, _ in commands
    ]
    before = keys.stat().st_size if keys.exists() else 0
    try:
        with recorded(pcap, broker.ports[listener]), tapped(tap, *(each.pid for each in running)):
            for process, (_, given) in zip(running, commands, strict=True):
                process.communicate(f"go\n{given}".encode(), timeout=90)
    finally:
        for process in running:
            process.kill()
            process.wait()
    own = work / f"{topic}.keys"
    own.write_bytes(keys.read_bytes()[before:])
    there, here = exchanges(pcap, KeyLog(own)), exchanges(tap, None)
    wrong = difference(there, here)
    if not wrong:
        unread = sum(each[5] is None for each in here)
        click.echo(
            f"  {LISTENERS[listener]}: {len(there)} exchanges, the same; {unread} responses were not read"
        )
    return wrong


def difference(there: list[tuple[object, ...]], here: list[tuple[object, ...]]) -> str:
    """Return how the exchanges from taps (`here`) differ from those in packets, empty if they do not.

    A client that exits does not read its last responses: these are in the packets only.
    """
    unread = {each[:5] for each in here if each[5] is None}
    if not there or len(unread) > _MOST_UNREAD:
        return f"{len(there)} exchanges in packets, {len(unread)} responses not in calls"
    expected = [(*each[:5], None) if each[:5] in unread else each for each in there]
    missing = [each[:4] for each in expected if each not in here]
    more = [each[:4] for each in here if each not in expected]
    return (
        f"of {len(there)} exchanges not in the calls: {missing}; only there: {more}"
        if missing or more
        else ""
    )


def keep(work: Path, topic: str) -> None:
    """Store a recording for the tests of the suite."""
    DATA.mkdir(exist_ok=True)
    printed = (work / f"{topic}.tap.txt").read_bytes()
    (DATA / f"{topic}.txt.gz").write_bytes(gzip.compress(printed, mtime=0))
    for suffix in (".pcap", ".keys"):
        shutil.copyfile(work / f"{topic}{suffix}", DATA / f"{topic}{suffix}")


def compare_jvm(broker: Broker, listener: str, work: Path, public: Path) -> str:
    """Run kcat while ``kproxy sniff`` attaches the agent to the broker; return the missing exchanges as text."""
    topic = f"taps_jvm_{listener[-2:]}"
    shown, log = work / f"{topic}.json", work / f"{topic}.sniff"
    agent = ["--tls-of", str(broker.pid), "--tls-agent", str(jar(AGENT))]
    command = [sys.executable, "-m", "kproxy", "sniff", *agent, "-i", "lo", "--json"]
    command += ["tcp", "port", str(broker.ports[listener])]
    with shown.open("wb") as output, log.open("wb") as errors:
        sniff = subprocess.Popen(command, stdout=output, stderr=errors)
    commands = _kcat(broker.address(listener), public, topic, work)
    try:
        wait_for("kproxy sniff", lambda: _ready(sniff, log), timeout=180)
        for command, given in commands:
            run(command, stdin=f"go\n{given}", timeout=90)
        wait_for("the exchanges", lambda: b'"LeaveGroup"' in shown.read_bytes())
    finally:
        sniff.send_signal(signal.SIGTERM)
        sniff.wait(60)
        click.echo(f"  {log.read_text().splitlines()[-1]}")
    lines = shown.read_text()
    missing = [api for api in ("Produce", "JoinGroup", "Fetch", "LeaveGroup") if f'"{api}"' not in lines]
    left = list(Path(tempfile.gettempdir()).glob("kproxy-*.keys"))
    whole = "0 bytes lost. 100 % decoded" in log.read_text()
    if missing or left or not whole:
        return f"not shown: {missing}; key logs left behind: {left}; {'' if whole else 'not '}all decoded"
    click.echo(f"  {LISTENERS[listener]}: {len(lines.splitlines())} exchanges by the agent of the broker")
    return ""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice([*CLIENTS, "jvm"]))
@click.option(
    "--record", is_flag=True, help="Keep what bpftrace printed, and the packets, in tests/data/taps."
)
def main(names: tuple[str, ...], record: bool) -> None:
    """Run the taps lane: all clients, or the named ones."""
    work = cache() / "taps"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    faults = left_out = 0
    try:
        need("bpftrace")
        public, identity = certificate(work)
        keys = work / "broker.keylog"
        with tls_broker(work / "broker", identity, [f"-javaagent:{jar(AGENT)}={keys}"]) as broker:
            for name in names or (*CLIENTS, "jvm"):
                click.echo(name)
                for listener in LISTENERS:
                    try:
                        if name == "jvm":
                            wrong = compare_jvm(broker, listener, work, public)
                        else:
                            wrong = compare(name, listener, broker, work, public, keys)
                    except CannotRun as why:
                        left_out += 1
                        click.echo(f"  cannot run here: {why}")
                        break
                    faults += bool(wrong)
                    if record and name != "jvm" and not wrong:
                        keep(work, f"taps_{name.replace('-', '_')}_{listener[-2:]}")
                    if wrong:
                        click.echo(f"  {LISTENERS[listener]}: {wrong}")
    except CannotRun as why:
        raise click.ClickException(f"the lane cannot run here: {why}") from None
    sys.exit(1 if faults else 2 if left_out else 0)


if __name__ == "__main__":
    main()
