"""Errors of Spark jobs, translated into one plain sentence with a remedy.

Spark reports an error as the stack trace of its JVM, with that of a Python worker inside, several times over. Nothing
is imported from pyspark: errors are recognized by their text, which is the same from py4j, from Spark Connect and in a
log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from captures.private import reason_of


class SparkUnavailable(Exception):  # noqa: N818  # a state, which reads well after `raise`
    """Spark cannot be used; the message gives the reason and the remedy."""


class JavaMissing(SparkUnavailable):
    """No Java that Spark supports was found."""


class SparkMissing(SparkUnavailable):
    """pyspark, or a package that Spark Connect needs, is not installed."""


class SparkStartError(SparkUnavailable):
    """The JVM exited before Spark ran, or did not answer in time."""


class SparkRunError(Exception):
    """A job, or the start of Spark, failed; the message is the sentence that :func:`plain` returns for the cause.

    It is raised before the JVM ends, because the text of Spark's own error can only be read while the JVM runs.
    """


class SessionConflict(SparkUnavailable, ValueError):  # noqa: N818
    """This process already runs another session than the requested one."""


_MEMORY = (
    "let fewer tasks run side by side (--master 'local[1]'), read smaller ranges (--range-size 16MB), or give Spark's"
    " JVM more (--spark-conf spark.driver.memory=4g)"
)
_FOREIGN = ("pyspark", "py4j", "grpc", "pyarrow")
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?:: ?(.*))?$", re.DOTALL)
_ERRNO = re.compile(r"\[Errno \d+\] ([^:\n]*)(?:: b?['\"](.*?)['\"])?$")
_LOST = f"Spark's JVM ended in the middle of the job, which mostly means that memory ran out: {_MEMORY}"


@dataclass(frozen=True, slots=True)
class _Rule:
    """The sentence for a kind of error.

    :ivar pattern: found in the text of the error
    :ivar say: returns the sentence for the match
    """

    pattern: re.Pattern[str]
    say: Callable[[re.Match[str]], str]


def _rule(pattern: str, say: str) -> _Rule:
    """Return a rule with the sentence `say`, where {1}, {2} ... are the groups of `pattern`, {what} the first match."""

    def sentence(found: re.Match[str]) -> str:
        groups = found.groups()
        return say.format(found[0], *groups, what=next((each for each in groups if each), found[0]))

    return _Rule(re.compile(pattern, re.MULTILINE), sentence)


# Ordered: earlier rules are nearer to the cause. The texts are those of Spark 4.0 to 4.3 and Hadoop 3.
_RULES = (
    _rule(
        r"different version:? ([\d.]+) than that in driver:? ([\d.]+)",
        "the workers run another version of Python ({1}) than this program ({2}): install the same there, and name it"
        " with PYSPARK_PYTHON",
    ),
    _rule(r"Fatal Python error: (.*)", "a Python worker crashed: {1}"),
    _rule(
        r"Python worker exited unexpectedly|Python worker failed to connect back",
        f"a Python worker died in the middle of its work, which mostly means that memory ran out: {_MEMORY}",
    ),
    _rule(
        r"OutOfMemoryError|OutOfDirectMemoryError|OutOfMemoryException|SparkOutOfMemory|\[UNABLE_TO_ACQUIRE_MEMORY",
        "Spark's JVM ran out of memory: give it more (--spark-conf spark.driver.memory=4g; on a cluster "
        "spark.executor.memory and spark.executor.memoryOverhead)",
    ),
    _rule(
        r"No space left on device|Disk quota exceeded",
        "a disk is full: that of the output, or that of Spark's temporary files (TMPDIR, or "
        "--spark-conf spark.local.dir=DIR, names another one)",
    ),
    _rule(
        r"ExecutorLostFailure|Remote RPC client disassociated|Slave lost|Worker lost|Container (?:killed|marked)",
        "an executor of the cluster was lost, which mostly means that it was stopped or that memory ran out: "
        "--spark-conf spark.executor.memoryOverhead=2g gives Python more, "
        "--spark-conf spark.task.maxFailures=8 more attempts",
    ),
    _rule(
        r"\[PATH_NOT_FOUND\] Path does not exist: (\S+?)\.? SQLSTATE|FileNotFoundException: File (\S+) does not exist|"
        r"Input path does not exist: (\S+)",
        "there is no such file or folder: {what}",
    ),
    _rule(r"\[PATH_ALREADY_EXISTS\] Path (\S+) already exists", "{1} is there already"),
    _rule(
        r"AccessControlException:? (.*)|AccessDeniedException:? (.*)|(?:IOException|FileNotFoundException): (.*"
        r"Permission denied.*)|(Mkdirs failed to create \S+)",
        "access is refused: {what}",
    ),
    _rule(
        r"Class org\.apache\.hadoop\.fs\.(s3a|azurebfs|azure|gs)\S* not found|No FileSystem for scheme \"?([\w-]+)",
        "this Spark cannot read {what}:// paths: name the package that can, as "
        "--spark-conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION "
        "with the version of Spark's Hadoop (docs/spark.md)",
    ),
    _rule(
        r"All masters are unresponsive|Failed to connect to master (\S+)|"
        r"Could not parse Master URL: '?([^'\n]*)'?",
        "the cluster cannot be reached: check --master, and that it can reach this machine ("
        "--spark-conf spark.driver.host=ADDRESS)",
    ),
    _rule(
        r"StatusCode\.UNAVAILABLE|failed to connect to all addresses",
        "no Spark Connect server answers: check the address of --remote",
    ),
    _rule(
        r"StatusCode\.(?:UNAUTHENTICATED|PERMISSION_DENIED)",
        "the Spark Connect server refuses: it wants a token (sc://HOST:PORT/;token=...)",
    ),
    _rule(
        r"UnknownHostException: (\S+)|No such host|Name or service not known",
        "a host name cannot be resolved: {what}",
    ),
    _rule(
        r"Answer from Java side is empty|Error while (?:sending or )?receiving|py4j.*[Nn]etwork.*[Ee]rror",
        _LOST,
    ),
    _rule(r"ConnectException: Call From \S+ to (\S+) failed", "nothing answers at {1}"),
    _rule(
        r"UnsupportedClassVersionError",
        "this Java is too old for this Spark: pip install 'kproxy[spark,jdk]' brings one",
    ),
    _rule(
        r"getSubject is (?:not )?supported",
        "this Java is too new for this Spark: pip install -U 'pyspark>=4.1', or name Java 17 or 21 in JAVA_HOME",
    ),
    _rule(
        r"JAVA_GATEWAY_EXITED|Java gateway process exited",
        "Spark's JVM did not start; KPROXY_SPARK_LOG=warn shows why",
    ),
    _rule(
        r"SparkContext was shut down|Cannot call methods on a stopped SparkContext|"
        r"Job \S+ cancelled|SparkContext has been shutdown|OPERATION_CANCEL",
        "the job was stopped before it was done",
    ),
)


def plain(error: BaseException) -> str:
    """Return one sentence that says why a job failed, with a remedy if one is known.

    Errors that kproxy raises in a worker, such as :class:`captures.packets.CaptureError` with file and offset, keep
    their message.

    :param error: raised by Spark, by py4j, or by kproxy
    """
    if not _foreign(error):
        return _own(error)
    text = _text(error)
    if (raised := _python_error(text)) is not None:
        return raised
    for rule in _RULES:
        found = rule.pattern.search(text)
        if found is not None:
            return rule.say(found)
    return _root_cause(text) or f"Spark failed: {type(error).__name__}"


def expected(error: BaseException) -> bool:
    """Return whether :func:`plain` explains an error to the user; otherwise it is a bug in kproxy."""
    from captures.export.parquet import ParquetMissing
    from captures.packets import CaptureError
    from captures.tables.folder import FolderError

    kinds = SparkUnavailable | SparkRunError | CaptureError | FolderError | ParquetMissing | OSError
    return _foreign(error) or isinstance(error, kinds)


@contextmanager
def reraised_as_run_errors() -> Iterator[None]:
    """Re-raise Spark's errors as :class:`SparkRunError`, because the JVM may exit before their text can be read.

    :raises SparkRunError: in place of errors of Spark and py4j and of connection errors
    """
    try:
        yield
    except Exception as error:
        if _foreign(error) or isinstance(error, ConnectionError):
            raise SparkRunError(plain(error)) from error
        raise


def _foreign(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in _FOREIGN


def _own(error: BaseException) -> str:
    """Return the message for an error that was raised in this process."""
    if isinstance(error, ConnectionError) and _crossed(error, "py4j"):
        return _LOST
    return reason_of(error) or type(error).__name__


def _crossed(error: BaseException, package: str) -> bool:
    """Return whether the traceback of an error contains a frame of `package`."""
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0] == package:
            return True
        trace = trace.tb_next
    return False


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the text is read from the JVM, which has exited
        return "Answer from Java side is empty"


def _python_error(text: str) -> str | None:
    """Return the sentence for the exception of a Python worker, None if `text` contains no traceback."""
    _, found, after = text.rpartition("Traceback (most recent call last):\n")
    if not found:
        return None
    lines: list[str] = []
    for line in after.split("\n"):
        if lines and (not line.strip() or line.startswith((" SQLSTATE", "\tat ", "Driver stacktrace"))):
            break
        if lines or not line.startswith((" ", "\t")):
            lines.append(line.strip())
    raised = _RAISED.match(" ".join(each for each in lines if each))
    return (
        None if raised is None else _worker_sentence(raised[0].partition(":")[0], raised[1], raised[2] or "")
    )


def _worker_sentence(name: str, kind: str, words: str) -> str:
    """Return the sentence for an exception raised in a worker.

    :param name: its class with the module
    :param kind: its class
    :param words: its message
    """
    if (found := _RULES[0].pattern.search(words)) is not None:  # Spark's version check raises a Python error
        return _RULES[0].say(found)
    if "MemoryError" in kind:
        return f"a Python worker ran out of memory: {_MEMORY}"
    if kind in ("ModuleNotFoundError", "ImportError"):
        return (
            f"a worker cannot import what it needs ({words}): install kproxy with the same Python on every machine of"
            " the cluster, or send an environment along (docs/spark.md)"
        )
    system = _ERRNO.search(words)
    if system is not None:
        return f"{system[2]}: {system[1]}" if system[2] else str(system[1])
    if name.startswith(("captures.", "kproxy.", "dissectors.")) or kind == "ValueError":
        return words or kind
    return f"a worker failed with {kind}: {words}" if words else f"a worker failed with {kind}"


def _root_cause(text: str) -> str:
    """Return the message of the innermost cause, without the package of its class; empty if there is none."""
    condition = re.search(r"\[[A-Z_.]+\] (\S.*?)(?: SQLSTATE: \w+|$)", text, re.MULTILINE)
    if condition is not None:
        return condition[1]
    causes = re.findall(r"^Caused by: ([\w.$]+): (\S.*)$", text, re.MULTILINE)
    if causes:
        kind, words = causes[-1]
        return f"{kind.rpartition('.')[2]}: {words}"
    first = next(
        (line.strip(" :") for line in text.split("\n") if line.strip() and "o calling o" not in line), ""
    )
    return re.sub(r"^An error occurred while calling \S+\s*|\s*SQLSTATE: \w+$", "", first)
