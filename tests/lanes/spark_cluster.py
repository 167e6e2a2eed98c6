"""``kproxy tables`` on a Spark cluster: a standalone master and two workers, as processes on this machine.

    python -m tests.lanes.spark_cluster [CAPTURE...]

Executors, each in a folder of its own, write every table of the captures over ``spark://`` into a relative folder. The
same is repeated while a worker is killed in the middle. Both times the tables have to be the same, row by row, as those
of a single process. kproxy is available to executors in the first way of docs/spark.md: installed for the Python in
``PYSPARK_PYTHON``. Needs Java 17 or later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic, sleep

import click
import psutil

from captures.spark.java import find_java
from captures.spark.session import spark_home
from captures.tables.schema import TABLES
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.spark.kit import same_tables
from tests.lanes.tools import free_ports, listens, wait_for

_CAPTURES = (SAMPLE, DATA / "22_k430_java_commit_abort.pcap", DATA / "21_k430_share_group.pcap.zst")
_RANGE = "1MiB"
_LONGEST = 600.0  # time limit of a run in seconds


class Cluster:
    """A master and its workers, with one core each.

    :param folder: folder for their output
    :ivar master: its URL
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        (port,) = free_ports(1)
        self.master = f"spark://127.0.0.1:{port}"
        self._processes = [self._start("master.Master", "--port", str(port))]
        wait_for("the start of the master", lambda: listens(port), timeout=240)
        for number in range(workers):
            own = folder / f"worker{number}"
            own.mkdir()
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(own), self.master)
            self._processes.append(self._start("worker.Worker", *arguments))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            self._kill(process)

    def lose_a_worker(self) -> None:
        """Kill a worker and its executors, as if their machine failed."""
        self._kill(self._processes.pop())

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        java, home = find_java(), spark_home()
        environment = {**os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(java.home)}
        environment |= {"SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
        log = (self._folder / f"{kind}-{len(list(self._folder.glob('*.log')))}.log").open("wb")
        command = [str(java.program), "-cp", str(home / "jars" / "*"), f"org.apache.spark.deploy.{kind}"]
        with log:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
            )

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        with suppress(psutil.NoSuchProcess):
            for each in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        process.kill()
        process.wait()


def tables(captures: Sequence[Path], out: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start ``kproxy tables`` in a folder."""
    names = [argument for name in TABLES for argument in ("--table", name)]
    return subprocess.Popen(
        [sys.executable, "-m", "kproxy", "tables", *map(str, captures), "-o", out, *names, *arguments],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(run: subprocess.Popen[str]) -> None:
    """Wait until a run ends.

    :raises AssertionError: if it fails
    """
    told, _ = run.communicate(timeout=_LONGEST)
    assert run.returncode in (0, 3), told


def main(captures: Sequence[Path]) -> None:
    """Run the lane."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kproxy-cluster-")))
        finished(tables(captures, "one", folder, "--engine", "single"))
        cluster = stack.enter_context(Cluster(folder))
        # as on four processors, so that exchanges are distributed among tasks
        dealt = ("--spark-conf", "spark.default.parallelism=4")
        over = ("--master", cluster.master, "--range-size", _RANGE, *dealt)
        begin = monotonic()
        finished(tables(captures, "cluster", folder, *over))
        same_tables(folder / "cluster", folder / "one")
        click.echo(
            f"{len(TABLES)} tables over {cluster.master}: as by one process, {monotonic() - begin:.0f} s"
        )
        begin = monotonic()
        run = tables(captures, "killed", folder, *over)
        while not list(folder.glob("killed/.staging-*/*")):
            assert run.poll() is None, run.communicate()
            sleep(0.05)
        cluster.lose_a_worker()
        finished(run)
        same_tables(folder / "killed", folder / "one")
        click.echo(f"the same with a worker that was killed: as by one process, {monotonic() - begin:.0f} s")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument(
        "captures", nargs="*", type=Path, metavar="CAPTURE", help="default: some of the tests"
    )
    main([path.absolute() for path in parser.parse_args().captures] or _CAPTURES)
