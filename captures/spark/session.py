"""The Spark session: an existing one, one on a cluster, or one embedded in this process.

An embedded session runs in local mode: a JVM of its own, reachable only from this machine, without a web page, without
a log on the terminal, and without files that stay. A session that others started is used as it is: an active session,
one of spark-submit, or a server.
"""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from captures.packets.spool import spool_directory
from captures.spark.errors import SessionConflict, SparkMissing, SparkStartError, reraised_as_run_errors
from captures.spark.gateway import Gateway, environment
from captures.spark.java import find_java
from dissectors.budget import ENVIRONMENT
from dissectors.units import GIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
APP = "kproxy"
_LEAST_MEMORY = 512 << 20
_MOST_MEMORY = 2 * GIB
_LOG_SETTINGS = Path(__file__).resolve().with_name("log4j2.properties")
_CONNECT_PORT = 15002
_STANDALONE, _MASTER_PORT = "spark://", 7077
_ANSWER = 10.0  # seconds allowed for a server to accept a connection
_CONNECT = "pip install 'kproxy[spark,connect]'"

EVERYWHERE = {
    # without it Spark passes no filters to Python data sources (default false in Spark 4)
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""SQL settings for every session, unless it sets them itself. They can be changed in a running session."""

STARTED = {
    **EVERYWHERE,
    "spark.app.name": APP,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.worker.faulthandler.enabled": "true",
    # workers are reused, because their imports take a second
    "spark.python.worker.reuse": "true",
    # one queue would let the range tasks of one job delay the single long task of the other
    "spark.scheduler.mode": "FAIR",
    "spark.scheduler.allocation.file": Path(__file__).resolve().with_name("pools.xml").as_uri(),
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
}
"""Default settings of sessions that are started here; the user's settings override them."""


class _EmbeddedSession(NamedTuple):
    """JVM and temporary files of the session that was started here. A process has at most one."""

    gateway: Gateway
    folder: Path


_embedded: _EmbeddedSession | None = None


def spark_version() -> str:
    """Return the version of pyspark.

    :raises SparkMissing: if it is not installed or too old; the message has the command that installs it
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyspark
    except ImportError:
        raise SparkMissing(
            "pyspark is not installed. pip install 'kproxy[spark,jdk]' brings it, and Java."
        ) from None
    version = str(pyspark.__version__)
    if int(version.partition(".")[0]) < 4:
        raise SparkMissing(f"pyspark {version} is too old, 4.0 is needed: pip install 'kproxy[spark,jdk]'")
    return version


def session(
    master: str | None = None, *, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a Spark session.

    In this order: the active one of this process; Spark Connect, if ``remote`` or ``SPARK_REMOTE`` names a server; the
    one of spark-submit; else a new one on ``master``. End it with :func:`stop`.

    :param master: such as ``spark://host:7077``, ``yarn``, ``local[4]``; default: ``spark.master`` of Spark's settings,
        else all processors of this machine
    :param remote: a Spark Connect server, ``sc://host:15002``
    :param settings: Spark's settings, by name; they override the defaults of this module
    :raises SparkMissing: if pyspark is not installed
    :raises JavaMissing: if a JVM has to be started here, and there is no Java
    :raises SparkStartError: if the JVM does not start, or the server does not answer
    :raises SessionConflict: if this process runs another session than the requested one
    """
    spark_version()
    given = dict(settings or {})
    if master is not None and remote is not None:
        raise SessionConflict("a master and a Spark Connect server are two places to run: name one of them")
    running = _running()
    if running is not None:
        _check(running, master, remote)
        return _with(running, given)
    if remote is None and master is None:
        remote = given.pop("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is not None:
        return _connected(remote, given)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(master, given)
    return _started(master, given)


@contextmanager
def running_session(
    master: str | None = None, *, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yield a session as :func:`session` returns it; if it was started here, end it on exit.

    Ctrl-C raises KeyboardInterrupt here at once; the JVM is then ended without waiting for its work.
    """
    spark_version()
    before = _running()
    handler = signal.getsignal(signal.SIGINT)
    spark = before or session(master, remote=remote, settings=settings)
    if before is not None:
        yield session(master, remote=remote, settings=settings)
        return
    if _embedded is not None and threading.current_thread() is threading.main_thread():
        # pyspark's handler calls the JVM, and the signal may interrupt another call to it
        signal.signal(signal.SIGINT, handler)
    try:
        with reraised_as_run_errors():
            yield spark
    except BaseException as error:
        stop(spark, at_once=not isinstance(error, Exception))
        raise
    stop(spark)


def stop(spark: SparkSession | None = None, *, at_once: bool = False) -> None:
    """End a session, its JVM and its workers, and remove its temporary files.

    If the JVM was not started here, only the session is ended.

    :param spark: None for the session that was started here, if any
    :param at_once: whether to end the JVM without asking it, because the exchange with it was interrupted
    """
    global _embedded
    embedded, _embedded = _embedded, None
    if embedded is None:
        if spark is not None and not at_once:
            with suppress(Exception):  # its JVM may have died
                spark.stop()
        return
    atexit.unregister(stop)
    try:
        if not at_once:
            _asked_to_stop(spark)
    finally:
        embedded.gateway.end()
        _forget()
        shutil.rmtree(embedded.folder, ignore_errors=True)


# ---------------------------------------------------------------- sessions that are there
def _running() -> SparkSession | None:
    """Return the session of this process, None if there is none."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # a session created by another thread is not active in this one
    if getattr(SparkContext, "_active_spark_context", None) is not None:
        return SparkSession.builder.getOrCreate()
    return None


def _check(running: SparkSession, master: str | None, remote: str | None) -> None:
    """Raise SessionConflict if the running session is not the requested one."""
    if remote is not None:
        if is_connect(running):
            return
        raise SessionConflict(f"a Spark session runs in this process already, so {remote} cannot be used")
    if master is None:
        return
    now = None if is_connect(running) else running.conf.get("spark.master", None)
    if now != master:
        raise SessionConflict(
            f"a Spark session runs in this process already, on {now or 'Spark Connect'}, not {master}"
        )


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, without a JVM in this process's reach."""
    return ".connect." in type(spark).__module__


def _with(spark: SparkSession, given: Mapping[str, str]) -> SparkSession:
    """Apply the SQL settings that kproxy needs, and those of the user, to a running session."""
    for name, value in EVERYWHERE.items():
        with suppress(Exception):  # a server may refuse them: filters are then applied after reading
            spark.conf.set(name, value)
    for name, value in given.items():
        spark.conf.set(name, value)
    return spark


def _connected(url: str, given: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    if not url.startswith("sc://"):
        raise ValueError(f"{url} is no Spark Connect server: write sc://HOST:15002")
    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        raise SparkMissing(f"Spark Connect needs packages that are not installed: {_CONNECT}")
    _check_answers("Spark Connect server", [urlsplit(url)], _CONNECT_PORT)
    spark = SparkSession.builder.remote(url).getOrCreate()
    return _with(spark, given)


def _check_answers(what: str, places: Sequence[SplitResult], port: int) -> None:
    """Check that one of the servers accepts connections: Spark itself would retry for a minute or longer.

    :param port: default port
    """
    failures = []
    for host, at in ((place.hostname or "", place.port or port) for place in places):
        try:
            socket.create_connection((host, at), _ANSWER).close()
        except OSError as error:
            failures.append(f"{host}:{at}: {error.strerror or error}")
        else:
            return
    raise SparkStartError(f"no {what} answers at {', '.join(failures)}")


def _submitted(master: str | None, given: Mapping[str, str]) -> SparkSession:
    """Return the session of spark-submit, which has started the JVM; its settings override our defaults."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    conf = SparkConf()
    builder = SparkSession.builder
    if master is not None:
        builder = builder.master(master)
    for name, value in {**EVERYWHERE, **given}.items():
        if name in given or not conf.contains(name):
            builder = builder.config(name, value)
    return builder.getOrCreate()


# ---------------------------------------------------------------- the embedded one
def _started(master: str | None, given: Mapping[str, str]) -> SparkSession:
    """Start a JVM, and a session in it."""
    global _embedded
    java = find_java()
    home = spark_home()
    options = {**_defaults(home), **given}
    master = master or options.get("spark.master", LOCAL)
    if master.startswith(_STANDALONE):
        hosts = master.removeprefix(_STANDALONE).split(",")
        _check_answers("Spark master", [urlsplit(f"{_STANDALONE}{host}") for host in hosts], _MASTER_PORT)
    folder = Path(tempfile.mkdtemp(prefix="kproxy-spark-", dir=spool_directory()))
    settings = _settings(
        master, options, folder, own_log=(configuration(home) / "log4j2.properties").exists()
    )
    try:
        with _environment(environment(java, folder), local=master.startswith("local")):
            _embedded = _EmbeddedSession(Gateway(settings, folder), folder)
            atexit.register(stop)
            with reraised_as_run_errors():
                spark = _built(settings)
            _quiet(spark)
            return spark
    except BaseException:
        stop(at_once=True)
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _built(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as those about untested versions of pandas
        return builder.getOrCreate()


def _settings(master: str, given: Mapping[str, str], folder: Path, *, own_log: bool) -> dict[str, str]:
    """Return all settings of a session that is started here.

    :param given: settings of the user, which override the defaults
    :param own_log: whether the user's installation configures logging
    """
    settings = dict(STARTED)
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": f"{_memory() >> 20}m",
            "spark.local.dir": str(folder / "spill"),
            "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
            # the default, 200, costs seconds with little data
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    if ENVIRONMENT in os.environ:  # the same limits for executors on other machines
        settings[f"spark.executorEnv.{ENVIRONMENT}"] = os.environ[ENVIRONMENT]
    settings |= given
    settings |= {"spark.master": master, "spark.api.mode": "classic"}
    options = [f"-Djava.io.tmpdir={shlex.quote(str(folder))}"]
    if not own_log:
        options.append(f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}")
    name = "spark.driver.extraJavaOptions"
    settings[name] = " ".join([*options, *([given[name]] if name in given else [])])
    return settings


def _memory() -> int:
    """Return the memory limit of the JVM in bytes: a quarter of the machine's, because the work is done in Python."""
    import psutil

    return int(min(max(psutil.virtual_memory().total // 4, _LEAST_MEMORY), _MOST_MEMORY))


@contextmanager
def _environment(of_jvm: Mapping[str, str], *, local: bool) -> Iterator[None]:
    """Set the environment variables that pyspark reads while a session starts."""
    # a new session overrides the server of the environment
    values: dict[str, str | None] = {**of_jvm, "SPARK_REMOTE": None}
    if local:
        values["SPARK_LOCAL_IP"] = "127.0.0.1"  # the host's name may resolve to an unreachable address
        values["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _asked_to_stop(spark: SparkSession | None) -> None:
    with suppress(Exception), warnings.catch_warnings():  # its JVM may have died
        warnings.simplefilter("ignore")
        running = spark or _running()
        if running is not None:
            running.stop()


def _forget() -> None:
    """Reset pyspark so that it can start another JVM; otherwise it keeps the first one for the life of the process."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession, SQLContext

    context: Any = SparkContext._active_spark_context
    if context is not None:  # it could not be stopped
        context._jsc = None
        context.stop()
    kept: tuple[Any, ...] = (SparkSession, SQLContext)
    for each, names in zip(
        kept, (("_instantiatedSession", "_activeSession"), ("_instantiatedContext",)), strict=True
    ):
        for name in names:
            setattr(each, name, None)
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        with suppress(Exception):  # it is dead already
            gateway.shutdown()


def _quiet(spark: Any) -> None:
    """Keep a pyspark thread from printing a traceback when the JVM ends in the middle of a job."""
    with suppress(AttributeError):
        spark.sparkContext._accumulatorServer.handle_error = lambda *_: None


# ---------------------------------------------------------------- the installation
def spark_home() -> Path:
    """Return the folder of Spark: ``SPARK_HOME``, else that of pyspark."""
    configured = os.environ.get("SPARK_HOME")
    if configured:
        return Path(configured)
    import pyspark

    return Path(pyspark.__file__).parent


def configuration(home: Path) -> Path:
    """Return the folder of Spark's configuration files, which need not exist."""
    return Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")


def _defaults(home: Path) -> dict[str, str]:
    """Return the settings of ``spark-defaults.conf``."""
    path = configuration(home) / "spark-defaults.conf"
    if not path.exists():
        return {}
    import javaproperties

    with path.open(encoding="utf-8") as file:
        return {name: value.strip() for name, value in javaproperties.load(file).items()}
