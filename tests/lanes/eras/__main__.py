"""The eras lane: brokers from 0.8.2 to the newest, with old and current clients, through kproxy.

    python -m tests.lanes.eras                       # all
    python -m tests.lanes.eras 0.10.2 newest --short # selected eras, with less repetition, as in the gate
    python -m tests.lanes.eras clusters              # traffic between brokers, recorded with tcpdump
    python -m tests.lanes.eras libraries             # current client libraries, at the newest release
    python -m tests.lanes.eras captures --write      # content of the recordings in the reference folder
    python -m tests.lanes.eras --write               # all, and update docs/versions-seen.md

For each era a broker is started. The command line tools of its release and two current clients do the same three times:
directly, through a recording ``kproxy proxy``, and through one that does not record. Their output must be the same.
Then every API and version that the broker announces is requested once (:mod:`tests.lanes.eras.sweep`). Every recorded
message must be decoded to its last byte, in its version, with the same values as read by Kafka's own classes
(:mod:`tests.lanes.eras.official`).

The exit code is 1 if a check failed, 2 if a part could not run here.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from docs.tools import versions_seen
from tests.lanes.cluster import Cluster
from tests.lanes.eras import seen
from tests.lanes.eras.clusters import CLUSTERS
from tests.lanes.eras.official import checked
from tests.lanes.eras.releases import HEAP, NEWEST, NODE_ID, RELEASES, RunningBroker, started
from tests.lanes.eras.sweep import sweep
from tests.lanes.eras.tool_jvm import ToolJvm
from tests.lanes.eras.tools_of_the_time import Errand, Scene, errands, run, told
from tests.lanes.jobs import JOBS, done
from tests.lanes.kproxy_run import Kproxy
from tests.lanes.through import CLIENTS, Command
from tests.lanes.through import errand as send_on_errand
from tests.lanes.tools import CannotRun, Wrong, cache, wait_for
from tests.lanes.tools import run as run_program
from tests.reference import REFERENCE

#: current releases, for both programs
_REQUIREMENTS = ("kafka-python==3.0.12", "confluent-kafka==2.16.1", "python-snappy", "lz4", "zstandard")
_PROGRAMS = Path(__file__).parent.parent / "clients" / "eras"
_TODAY = ("kafka_python_today.py", "confluent_today.py")
_COUNT = "5"
_CLIENT_S = 90
#: without a recording there is nothing to decode: the most common operations are enough
_UNRECORDED = ("TopicCommand", "ConsoleProducer", "ConsoleConsumer", "BrokerApiVersionsCommand")
_ANNOUNCES = (0, 10)
_RECORDS = 30
_NICE = 1


class Lane:
    """Runs eras one after the other and reports the results.

    :param short: leave out clients at the proxy that does not record: they repeat their work at the one that does
    :ivar faults: number of failed checks
    :ivar left_out: number of parts that could not run
    :ivar found: layouts seen, see :mod:`tests.lanes.eras.seen`
    """

    def __init__(self, work: Path, *, short: bool) -> None:
        self.faults = 0
        self.left_out = 0
        self.found = seen.SeenLayouts()
        self._work = work
        self._short = short

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Print the result of a part."""
        began = time.monotonic()
        try:
            yield
        except (Wrong, OSError) as why:
            self.faults += 1
            click.echo(f"  {what}: FAILED: {why} ({time.monotonic() - began:.0f} s)")
        except CannotRun as why:
            self.left_out += 1
            click.echo(f"  {what}: cannot run here: {why}")
        else:
            click.echo(f"  {what}: passed ({time.monotonic() - began:.0f} s)")

    # -- an era ------------------------------------------------------------------------------------------------
    def era(self, name: str) -> None:
        """Start a broker and run all checks with it."""
        release, folder = RELEASES[name], self._work / name
        with self.part(f"Kafka {release} started and stopped"), started(release, folder) as broker:
            with ToolJvm(release) as tools:
                wait_for("metadata", lambda: _ready(broker, tools))
            direct = self._errands(Scene(broker, broker.address, "era-direct", _made(folder / "direct")))
            recording = self._through(broker, folder / "recorded", direct, None)
            if not self._short:
                self._through(broker, folder / "unrecorded", direct, ["-q", "--no-capture"])
            with self.part("decoded as Kafka's classes do"):
                self._check(recording, release, name)

    def _through(
        self, broker: RunningBroker, folder: Path, direct: dict[str, list[str]], options: list[str] | None
    ) -> Path:
        """Repeat everything through kproxy; return its recording."""
        # a broker that does not announce its versions is unknown until the first client asks for it
        awaited = int(NODE_ID) if broker.version >= _ANNOUNCES else -1
        with _proxied(Kproxy(broker.address, folder, awaited=awaited), options) as kproxy:
            kind = "recorded" if options is None else "not recorded"
            context = Scene(broker, kproxy.address, f"era-{folder.name}", folder)
            with self.part(f"clients behave as without kproxy ({kind})"):
                proxied = self._errands(context, None if options is None else _UNRECORDED)
                _compare(direct, proxied)
            if options is None and broker.version >= _ANNOUNCES:
                with self.part("everything that it announces"):
                    self._sweep(broker, kproxy.address)
        return kproxy.capture

    def _errands(self, context: Scene, only: tuple[str, ...] | None = None) -> dict[str, list[str]]:
        """Run tools and clients; return the output of each."""
        said: dict[str, list[str]] = {}
        with ToolJvm(context.broker.release) as tools:
            for errand in errands(context.broker.release):
                if only is None or errand.tool in only:
                    lines = _said(errand, context, tools)
                    if errand.compared:
                        said[f"{errand.tool} {errand.options}"] = lines
        for program in _TODAY:
            said[program] = [_today(program, context)]
        return said

    def _sweep(self, broker: RunningBroker, address: str) -> None:
        unanswered = [f"{key} v{version}" for key, version in sweep(address, "sweep")]
        if not broker.node.running:
            raise Wrong("the broker ended")
        if unanswered:
            click.echo(f"    not answered: {', '.join(unanswered)}")

    def _check(self, recording: Path, release: str, name: str) -> None:
        outcome = checked(recording, release)
        self.found.add(release, versions_seen.CLIENTS, outcome.seen)
        self.found.add(release, versions_seen.SWEEP, outcome.swept)
        click.echo(f"    {outcome}")
        if outcome.faults:
            kept = self._work / f"{name}.pcapng"
            shutil.copy(recording, kept)
            raise Wrong(f"{len(outcome.faults)} faults, see {kept}")

    # -- libraries ---------------------------------------------------------------------------------------------
    def libraries(self) -> None:
        """Run each client library through kproxy with three brokers of the newest release."""
        folder = _made(self._work / "libraries")
        commands = {}
        for name, client in CLIENTS.items():
            with self.part(f"{name}: {client.versions}"):
                commands[name] = client.prepare()
        with Cluster(folder / "cluster", version=NEWEST, heap=HEAP) as cluster:
            with _proxied(Kproxy(cluster.bootstrap, folder), None) as kproxy:
                for name, command in commands.items():
                    with self.part(f"{name}: sent on its errand"):
                        _library(name, command, kproxy)
        jobs = done(kproxy.capture)
        for name in commands:
            with self.part(f"{name}: {', '.join(job for job in JOBS if job not in CLIENTS[name].lacks)}"):
                _compare_jobs(name, jobs.get(name, set()))
        with self.part("decoded as Kafka's classes do"):
            outcome = checked(kproxy.capture, NEWEST)
            self.found.add(NEWEST, versions_seen.LIBRARIES, outcome.seen)
            click.echo(f"    {outcome}")
            if outcome.faults:
                raise Wrong(f"{len(outcome.faults)} faults, see {kproxy.capture}")

    # -- clusters ----------------------------------------------------------------------------------------------
    def clusters(self) -> None:
        """Record the traffic between brokers and controllers."""
        for cluster in CLUSTERS:
            with self.part(f"cluster: {cluster.title}"):
                folder = _made(self._work / cluster.name)
                recording = cluster.play(folder)
                outcome = checked(recording, cluster.release, beginnings=False)
                self.found.add(cluster.release, versions_seen.CLUSTER, outcome.seen)
                click.echo(f"    {outcome}")
                if outcome.faults:
                    raise Wrong(f"{len(outcome.faults)} faults, see {recording}")


def _library(name: str, command: Command, kproxy: Kproxy) -> None:
    try:
        send_on_errand(name, command, kproxy.address, kproxy.ports, _RECORDS)
    except CannotRun as why:
        raise Wrong(str(why)) from None


def _compare_jobs(name: str, found: set[str]) -> None:
    """Compare the jobs that a client was recorded to do with those it is declared to do.

    :raises Wrong: if either has a job that the other lacks
    """
    expected = set(JOBS) - CLIENTS[name].lacks.keys()
    if found != expected:
        missing, more = ", ".join(sorted(expected - found)), ", ".join(sorted(found - expected))
        raise Wrong(
            f"not done: {missing or 'nothing'}; done though said to be impossible: {more or 'nothing'}"
        )


@contextmanager
def _proxied(kproxy: Kproxy, options: list[str] | None) -> Iterator[Kproxy]:
    """Run kproxy during the block.

    :param options: options instead of those for recording to a file
    :raises Wrong: if it does not start or stop properly, gives a client the address of a broker, or omits bytes
    """
    try:
        kproxy.start(options)
        yield kproxy
        status = kproxy.ask("status")
        kproxy.stop()
    except CannotRun as why:
        raise Wrong(str(why)) from None
    finally:
        kproxy.kill()
    if status["escaped_addresses"]:
        raise Wrong(f"{status['escaped_addresses']} addresses of brokers went to clients")
    if options is None and status["recording"]["dropped_bytes"]:
        raise Wrong(f"{status['recording']['dropped_bytes']} bytes were not recorded")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _ready(broker: RunningBroker, tools: ToolJvm) -> bool:
    """Return whether a broker responds; one without ZooKeeper listens before it is registered."""
    if not broker.node.running:
        raise CannotRun("the broker ended")
    if broker.version < (3, 0):
        return True
    [errand] = [each for each in errands(broker.release) if each.tool == "ClusterTool"]
    code, _ = run(errand, Scene(broker, broker.address, "era", Path()), tools)
    return code == 0


def _said(errand: Errand, context: Scene, tools: ToolJvm) -> list[str]:
    """Run a tool and return its output.

    :raises Wrong: if it fails
    """
    code, output = run(errand, context, tools)
    if code or (errand.expected and not re.search(context.fill(errand.expected), output)):
        raise Wrong(
            f"{errand.tool} {context.fill(errand.options)} (exit code {code}) printed: {output[-800:]}"
        )
    return told(errand, output, context)


def _today(program: str, context: Scene) -> str:
    """Run a current client with all its operations and return its output.

    :raises Wrong: if it does not consume all that it produced
    """
    topic = f"{context.topic}-{program.partition('_')[0]}"
    command: list[str | Path] = [
        _python(),
        _PROGRAMS / program,
        context.address,
        topic,
        _COUNT,
        context.broker.release,
    ]
    try:
        output = run_program(command, timeout=_CLIENT_S)
    except CannotRun as why:
        raise Wrong(f"{program}: {why}") from None
    facts = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    if not facts["complete"]:
        raise Wrong(f"{program} consumed {facts['consumed']}")
    return json.dumps(facts, sort_keys=True)


@functools.cache
def _python() -> Path:
    """Return a Python interpreter with the current clients."""
    python = cache() / "venv" / "bin" / "python"
    if not python.exists():
        run_program([sys.executable, "-m", "venv", cache() / "venv"])
    run_program([python, "-m", "pip", "install", "-q", *_REQUIREMENTS])
    return python


def _compare(direct: dict[str, list[str]], proxied: dict[str, list[str]]) -> None:
    """Compare the outputs of clients.

    :raises Wrong: if they differ
    """
    wrong = []
    for what, lines in proxied.items():
        lost = [f"- {line}" for line in direct[what] if line not in lines]
        more = [f"+ {line}" for line in lines if line not in direct[what]]
        if lost or more:
            wrong.append("\n      ".join([what, *lost[:10], *more[:10]]))
    if wrong:
        raise Wrong("not the same:\n    " + "\n    ".join(wrong))


_CLUSTERS = "clusters"
_NEWEST = "newest"
_LIBRARIES = "libraries"


def _recordings(lane: Lane) -> None:
    """Determine the content of the recordings in the reference folder."""
    if REFERENCE is None:
        raise CannotRun("there is no reference folder: see tests/reference.py")
    for release, places in seen.of_captures():
        lane.found.add(release, versions_seen.CAPTURES, places)


@click.command()
@click.argument(
    "parts", nargs=-1, type=click.Choice([*RELEASES, _NEWEST, _CLUSTERS, _LIBRARIES, versions_seen.CAPTURES])
)
@click.option("--short", is_flag=True, help="Leave out clients at a proxy that does not record.")
@click.option("--write", is_flag=True, help="Keep what was seen, and write docs/versions-seen.md.")
@click.option("--keep", is_flag=True, help="Keep recordings and logs.")
def main(parts: tuple[str, ...], short: bool, write: bool, keep: bool) -> None:
    """Run the eras lane: all parts, or the named ones."""
    os.nice(_NICE)
    work = Path(tempfile.mkdtemp(prefix="kproxy-eras-"))
    lane = Lane(work, short=short)
    for part in parts or (*RELEASES, _CLUSTERS, _LIBRARIES):
        click.echo(part)
        if part == versions_seen.CAPTURES:
            with lane.part("recordings of the reference folder"):
                _recordings(lane)
        elif part == _CLUSTERS:
            lane.clusters()
        elif part == _LIBRARIES:
            with lane.part(f"three brokers of {NEWEST} started and stopped"):
                lane.libraries()
        else:
            lane.era(list(RELEASES)[-1] if part == _NEWEST else part)
        if write:
            seen.update(lane.found)
    if lane.faults or keep:
        click.echo(f"recordings and logs are in {work}")
    else:
        shutil.rmtree(work)
    sys.exit(1 if lane.faults else 2 if lane.left_out else 0)


if __name__ == "__main__":
    main()
