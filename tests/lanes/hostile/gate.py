"""The gate: runs commands on hostile files, each run in its own process with limited resources.

Starting Python and importing kproxy for each of thousands of runs would take most of the time. So this process imports
everything once, generates the decoders of whole messages, and forks for each run. The processor time of a run counts
from the fork; its memory includes that of this process. This process has no other threads and does nothing else, so a
fork is equivalent to a fresh start.

A run fails

* with a traceback, a signal, or an undocumented exit code
* with an internal error of kproxy, even if it was contained and reported
* if it exceeds the limits of processor time, memory, or wall-clock time
* if its output has control characters, which a terminal would interpret
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import re
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import walk_packages
from time import monotonic
from typing import NamedTuple

import captures
import dissectors
from dissectors import apis
from dissectors.api_keys import ApiKey
from kproxy import cli, text
from kproxy.cli import main
from tests.lanes.hostile.wire import CLIENT_ID, TOPIC
from tests.lanes.tools import wait_for

MIB = 1 << 20

#: limits of a run
SECONDS, MEMORY = 30, 1 << 30
#: factor of the wall-clock limit
PATIENCE = 20
_EXIT_CODES = frozenset({0, 1, 2, 3})
_LOOK = 0.05  # s between looks at memory
_PIPE = 1 << 20
_F_SETPIPE_SZ = 1031
_KEPT, _SHOWN, _LINE = 1 << 16, 4_000, 200
"""Characters of what a run says on standard error: held, shown of it, and of its last line."""
_TRACEBACK = b"Traceback (most recent call last)"
#: the message of a contained internal error (captures.faults)
_FAULT = re.compile(rb"\binternal errors? in kproxy\b")
#: bytes allowed in output lines; beyond ASCII, UTF-8 uses the bytes of control characters in other characters too
_HARMLESS = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), *b"\n\t"})
_C1 = tuple(chr(code).encode() for code in range(0x80, 0xA0))
#: bytes that JSON leaves unescaped for programs (RFC 8259 section 7): DEL in addition
_DEL = b"\x7f"

#: packages that commands import at run time
_IMPORTED = ("duckdb", "pandas", "pyarrow", "pyarrow.csv", "pyarrow.parquet", "scapy.all")
_NOT_IMPORTED = ("captures.spark", "captures.live", "captures.samples")
#: threads that handle forks themselves: jemalloc's, in pyarrow (jemalloc_prefork)
_FORKED = ("jemalloc_bg_thd",)


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run on a file.

    :ivar steps: lists of arguments for kproxy, run one after the other; ``FILE`` and ``OUT`` stand for the file and for
        a path in an empty folder
    :ivar again: whether it is similar to another command, and left out of short runs
    """

    name: str
    steps: tuple[tuple[str, ...], ...]
    again: bool = False

    @property
    def for_programs(self) -> bool:
        """Whether it prints JSON, which is escaped for terminals but not for programs."""
        return any("--json" in step for step in self.steps)


def _command(text: str, *, name: str = "", again: bool = False) -> Command:
    steps = tuple(tuple(step.replace("%", " ") for step in each.split()) for each in text.split(";"))
    return Command(name or text.replace(" FILE", "").replace("%", " "), steps, again)


_STATS = " ".join(
    f"--by {by}" for by in ("api", "error", "client", "topic", "connection", "throttle", "latency")
)
_CATASTROPHE = '"^(a+)+$"'

COMMANDS: dict[str, Command] = {
    each.name: each
    for each in (
        _command("read FILE"),
        _command("read -V FILE"),
        _command("read --json FILE"),
        _command("read --json --text --payload preview FILE", name="read --json --text", again=True),
        _command("read --exchange 1 FILE"),
        _command("read --exchange 2 FILE", again=True),
        _command("read -Y value%~%x FILE", name="read -Y value"),
        _command(
            "read -Y key%==%zzz%or%header.value%contains%x FILE", name="read -Y key, header", again=True
        ),
        _command(f"read -Y client_id%~%{_CATASTROPHE}%or%topic%~%{_CATASTROPHE} FILE", name="read -Y regex"),
        _command("read --align-clocks FILE", again=True),
        _command("stats FILE", again=True),
        _command(f"stats --all {_STATS} FILE", name="stats --by"),
        _command("stats --json FILE", again=True),
        _command("stats --quick FILE", again=True),
        _command("groups FILE"),
        _command("groups --all FILE", again=True),
        _command("groups --json FILE", again=True),
        _command("groups --html OUT.html FILE", name="groups --html"),
        _command("groups --mermaid FILE"),
        # a batch of a few KiB may have a million records, all of which are printed
        _command("records -V -c 200000 FILE", name="records -V"),
        _command("records --json -c 200000 FILE", name="records --json", again=True),
        _command("lag FILE"),
        _command("lag --all --json FILE", name="lag --json", again=True),
        _command(f"journey --topic {TOPIC} FILE", name="journey --topic"),
        _command("journey --key k9 --all FILE", name="journey --key", again=True),
        _command("clients FILE", again=True),
        _command("clients --settings --all FILE", name="clients --settings"),
        _command(f"follow {CLIENT_ID} FILE", name="follow"),
        _command("follow --connection 0 --all FILE", name="follow --connection", again=True),
        _command("api-versions --all FILE", name="api-versions"),
        _command("compat --broker-version 4.3 FILE", name="compat"),
        _command("diff FILE FILE", name="diff"),
        _command("diagnose FILE"),
        _command("incidents FILE"),
        _command("incidents --all --json FILE", name="incidents --json", again=True),
        _command("diagnose --json --all FILE", name="diagnose --json", again=True),
        _command("export FILE -o OUT.pcapng", name="export pcapng"),
        _command("export --synthetic FILE -o OUT.pcapng", name="export --synthetic", again=True),
        _command("export --scrub FILE -o OUT.pcapng", name="export --scrub"),
        _command("export FILE -o OUT.jsonl", name="export jsonl"),
        _command("export --columns all FILE -o OUT.csv", name="export csv"),
        _command("export --columns all FILE -o OUT.parquet", name="export parquet"),
        _command("export FILE -o OUT.mmd", name="export mmd"),
        _command("tables --engine single FILE -o OUT ; report OUT", name="tables, report"),
        _command("tables --engine single --table records FILE -o OUT", name="tables records"),
    )
}


class Bounds(NamedTuple):
    """The limits of a run: processor seconds, memory in bytes, wall-clock seconds.

    The wall-clock limit is much higher, because other processes use the processor too. It ends runs that hang.
    """

    seconds: int = SECONDS
    memory: int = MEMORY
    patience: int = PATIENCE * SECONDS


class Outcome(NamedTuple):
    """The cost and the result of a run.

    :ivar seconds: processor seconds of the run and its child processes
    :ivar memory: peak memory in bytes of one process, or of all together when sampled
    :ivar code: exit code; negative for the signal that ended it
    :ivar printed: bytes of standard output
    :ivar failure: reason of the failure, empty if there is none
    :ivar said: the end of standard error
    """

    file: str
    command: str
    seconds: float
    memory: int
    code: int
    printed: int
    failure: str
    said: str


@dataclass
class _RunningCommand:
    """A run in progress.

    :ivar ends: read ends of its pipes -> function that processes their data
    :ivar broken: the limit that it exceeded, empty if none
    """

    pid: int
    file: Path
    command: Command
    folder: Path
    began: float
    ends: dict[int, Callable[[bytes], object]] = field(default_factory=dict)
    printed: int = 0
    most: int = 0
    broken: str = ""
    control: bytes = b""
    tail: bytes = b""

    def prints(self, data: bytes) -> None:
        """Process its standard output."""
        self.printed += len(data)
        self._checked(data, for_programs=self.command.for_programs)

    def says(self, data: bytes) -> None:
        """Process its standard error."""
        self.tail = (self.tail + data)[-_KEPT:]
        self._checked(data)

    def _checked(self, data: bytes, *, for_programs: bool = False) -> None:
        if self.control:
            return
        odd = data.translate(None, _HARMLESS + _DEL if for_programs else _HARMLESS)
        if odd or (not for_programs and b"\xc2" in data):
            self.control = odd[:8] or next((each for each in _C1 if each in data), b"")


def run(files: Iterable[tuple[Path, Sequence[Command]]], bounds: Bounds, jobs: int) -> Iterator[Outcome]:
    """Run commands on files; yield the outcome of each run as it ends.

    :param files: files and the commands for each, consumed as needed
    :param jobs: number of concurrent runs
    """
    warm_up()
    waiting = ((file, command) for file, commands in files for command in commands)
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder, selectors.DefaultSelector() as selector:
        gate = _Gate(Path(folder), bounds, selector)
        try:
            while True:
                while len(gate.running) < jobs and (task := next(waiting, None)) is not None:
                    gate.start(*task)
                if not gate.running:
                    return
                yield from gate.step()
        finally:
            gate.kill_all()
            gc.unfreeze()


def warm_up() -> None:
    """Import the modules and generate the code that commands need, before forking."""
    for package in (captures, dissectors, cli, text):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_NOT_IMPORTED):
                importlib.import_module(module.name)
    for name in _IMPORTED:
        importlib.import_module(name)
    _make_decoders()
    gc.collect()
    gc.freeze()  # keeps the garbage collector of each run off these objects, which would copy their pages
    wait_for("the end of threads that a fork would not have", _is_alone, timeout=10)


def _make_decoders() -> None:
    """Generate the decoders of whole messages, which each run would generate again."""
    for key in ApiKey:
        known = apis.api(key)
        assert known is not None
        for message in (known.request, known.response):
            for version in message.versions:
                _ = message[version]._decode_fast


def _is_alone() -> bool:
    """Return whether all other threads are known to survive a fork; some set their name late."""
    names = [(each / "comm").read_text().strip() for each in Path("/proc/self/task").iterdir()]
    return all(name in _FORKED for name in names[1:])


class _Gate:
    """The runs in progress."""

    def __init__(self, folder: Path, bounds: Bounds, selector: selectors.BaseSelector) -> None:
        self.running: dict[int, _RunningCommand] = {}
        self._folder = folder
        self._bounds = bounds
        self._selector = selector
        self._number = 0

    def start(self, file: Path, command: Command) -> None:
        """Fork a run."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        out, err = os.pipe(), os.pipe()
        fcntl.fcntl(out[0], _F_SETPIPE_SZ, _PIPE)
        pid = os.fork()
        if pid == 0:
            _be(file, command, folder, self._bounds, out[1], err[1])
        with suppress(ProcessLookupError, PermissionError):  # the child does this, too
            os.setpgid(pid, pid)
        running = self.running[pid] = _RunningCommand(pid, file, command, folder, monotonic())
        for (end, other), takes in ((out, running.prints), (err, running.says)):
            os.close(other)
            os.set_blocking(end, False)
            running.ends[end] = takes
            self._selector.register(end, selectors.EVENT_READ, running)

    def step(self) -> Iterator[Outcome]:
        """Read the output of runs, sample their memory, and yield those that have ended."""
        for key, _ in self._selector.select(_LOOK):
            if self._read(key.data, key.fd) == b"":
                self._close(key.data, key.fd)
        for running in list(self.running.values()):
            if os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                yield self._ended(running)
            else:
                self._look(running)

    def _read(self, running: _RunningCommand, end: int) -> bytes | None:
        """Read from a pipe; return None if it has no data now."""
        try:
            data = os.read(end, _PIPE)
        except BlockingIOError:
            return None
        running.ends[end](data)
        return data

    def _close(self, running: _RunningCommand, end: int) -> None:
        self._selector.unregister(end)
        os.close(end)
        del running.ends[end]

    def _look(self, running: _RunningCommand) -> None:
        running.most = max(running.most, _memory(_family(running.pid)))
        if running.most > self._bounds.memory:
            running.broken = f"over {self._bounds.memory // MIB:,} MiB"
        elif monotonic() - running.began > self._bounds.patience:
            running.broken = f"not done after {self._bounds.patience} s by the clock"
        if running.broken:
            os.killpg(running.pid, signal.SIGKILL)

    def _ended(self, running: _RunningCommand) -> Outcome:
        os.killpg(
            running.pid, signal.SIGKILL
        )  # its remaining children; the process itself still exists, because it was not waited for
        _, status, used = os.wait4(running.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        for end in list(running.ends):  # the end of its output
            while self._read(running, end):
                pass
            self._close(running, end)
        del self.running[running.pid]
        shutil.rmtree(running.folder)
        seconds = used.ru_utime + used.ru_stime
        memory = max(running.most, used.ru_maxrss * 1024)
        return Outcome(
            running.file.name,
            running.command.name,
            round(seconds, 2),
            memory,
            code,
            running.printed,
            self._failure(running, code, seconds, memory),
            running.tail[-_SHOWN:].decode(errors="replace"),
        )

    def _failure(self, running: _RunningCommand, code: int, seconds: float, memory: int) -> str:
        """Return the reason why a run failed, empty if it did not."""
        if running.broken:
            return running.broken
        if _TRACEBACK in running.tail:
            return "traceback: " + running.tail.decode(errors="replace").strip().splitlines()[-1][:_LINE]
        if _FAULT.search(running.tail):
            lines = running.tail.decode(errors="replace").splitlines()
            return "a fault that it got over: " + next(line for line in lines if "kproxy" in line)[:_LINE]
        if seconds > self._bounds.seconds or code == -signal.SIGXCPU:
            return f"over {self._bounds.seconds} s of the processor"
        if memory > self._bounds.memory:
            return f"over {self._bounds.memory // MIB:,} MiB"
        if code not in _EXIT_CODES:
            return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"prints control characters: {running.control!r}" if running.control else ""

    def kill_all(self) -> None:
        """Kill the runs in progress."""
        for pid in self.running:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


# ---------------------------------------------------------------- in the process of a run
def _be(file: Path, command: Command, folder: Path, bounds: Bounds, out: int, err: int) -> None:
    """Run the command in the forked process, and exit. Does not return."""
    code = 70  # EX_SOFTWARE, which no command uses
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.closerange(3, 256)
        # twice the limit: the kernel counts ticks for this, and too many on a busy machine
        resource.setrlimit(resource.RLIMIT_CPU, (2 * bounds.seconds, 2 * bounds.seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.setpgid(0, 0)
        os.chdir(folder)
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None
        code = _steps([[_filled(each, file, folder) for each in step] for step in command.steps])
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        os._exit(_flushed(code))


def _filled(argument: str, file: Path, folder: Path) -> str:
    if argument == "FILE":
        return str(file)
    return str(folder / f"out{argument[3:]}") if argument.startswith("OUT") else argument


def _steps(steps: Sequence[list[str]]) -> int:
    """Run commands one after the other while they produce output files; return the last exit code."""
    code = 0
    for arguments in steps:
        try:
            main(arguments, prog_name="kproxy", standalone_mode=True)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code not in (0, 3):
            break
    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does when it ends
    return code


def _flushed(code: int) -> int:
    """Flush buffers, as the interpreter does at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            return code or 1
    return code


# ---------------------------------------------------------------- looking at processes
def _family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for each in found:
        try:
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
        except OSError:  # it has ended
            continue
    return found


def _memory(pids: Sequence[int]) -> int:
    """Return the resident memory of processes in bytes, counting shared pages once."""
    return _shared(pids) if len(pids) > 1 else sum(map(_resident, pids))


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):  # it has ended
        return 0


def _shared(pids: Iterable[int]) -> int:
    """Return the proportional set size of processes (proc(5)): pages shared with this one count in part."""
    found = 0
    for pid in pids:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            found += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) * 1024
    return found
