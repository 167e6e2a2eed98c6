"""The calls of processes to their TLS library, as a device to capture from."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path

from captures.live.device import Counts, DeviceError, NotPermittedError, Settings
from captures.live.pcap_output import PcapOutput, pcap_record
from captures.live.taps.calls import TlsCalls
from captures.live.taps.jvm import is_jvm
from captures.live.taps.libraries import libraries_of, processes
from captures.live.taps.script import program
from dissectors.units import SECOND

_ETHERNET = 1
_READY_SECONDS = 300.0
_TRIAL_SECONDS = 60.0
_AT_ONCE = 1 << 20
_MOST_LOST = re.compile(rb"Lost (\d+) events")
_KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
_SYSTEM_CALLS = Path("/sys/kernel/tracing/events/syscalls")
_FIRST_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of linux/proc_ns.h: bpftrace compares process IDs there."""
_COMMAND = "{} & exec >&- 2>&-; read -r line; kill $!; wait $!"
"""Runs until its standard input is closed: the process that does so may no longer signal processes of root."""


class TlsTap(PcapOutput):
    """Plaintext of processes; see :class:`~captures.live.device.Device`.

    :param pids: of the processes; empty for all
    :raises NotPermittedError: without root
    :raises DeviceError: if the kernel, bpftrace or the processes do not allow it
    """

    delay = 1.0  # calls wait for the heartbeats of CPUs that have become idle

    def __init__(self, settings: Settings, pids: Collection[int]) -> None:
        super().__init__(_ETHERNET, settings.snapshot_length)
        self.warning = ""
        obstacle = obstacles()
        if obstacle:
            raise (NotPermittedError if os.geteuid() else DeviceError)("; ".join(obstacle))
        bpftrace = bpftrace_path()
        assert bpftrace is not None
        if pids and Path("/proc/self/ns/pid").stat().st_ino != _FIRST_NAMESPACE:
            raise DeviceError(
                "this process does not see the process IDs of the host (containers: --pid=host)"
            )
        gone = [pid for pid in pids if not Path(f"/proc/{pid}").exists()]
        if gone:
            raise DeviceError(f"there is no process {gone[0]}")
        java = [pid for pid in pids if is_jvm(pid)]
        if java:
            raise DeviceError(f"process {java[0]} is a JVM: add --tls-agent JAR, the agent of docs/tls.md")
        libraries = libraries_of(pids or processes(), bpftrace)
        if not libraries:
            raise DeviceError(
                f"{settings.interface}: no TLS library whose functions have names (libssl.so, or a program with "
                "OpenSSL's symbols) is loaded"
            )
        self._calls = TlsCalls()
        self._lost = self._packets = 0
        self._made: deque[tuple[int, bytes]] = deque()
        self._rest = b""
        self._said = b""
        self._process = self._start(bpftrace, program(libraries, pids), settings.buffer_size)
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _start(bpftrace: str, text: str, buffer_size: int) -> subprocess.Popen[bytes]:
        pages = max(buffer_size // (os.cpu_count() or 1) // mmap.PAGESIZE, 64)
        limits = {
            "strlen": 200,  # the most that 0.17 takes
            "max_strlen": 200,  # its name since 0.20
            "map_keys_max": 1 << 16,
            "max_map_keys": 1 << 16,
            "perf_rb_pages": 1 << pages.bit_length() - 1,
            "max_probes": 4096,
            "max_bpf_progs": 4096,
        }
        program_file = os.memfd_create("taps")
        os.write(program_file, text.encode())
        command = _COMMAND.format(f"{shlex.quote(bpftrace)} -q -B line /proc/self/fd/{program_file}")
        process = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[program_file],
            start_new_session=True,  # Ctrl-C is for this process
            env=os.environ | {f"bpftrace_{name}".upper(): str(value) for name, value in limits.items()},
        )
        os.close(program_file)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _AT_ONCE)
        return process

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _READY_SECONDS
        waiting = select.poll()
        waiting.register(self.fileno(), select.POLLIN)
        while not self._calls.ready:
            if time.monotonic() > end:
                raise DeviceError(
                    f"bpftrace has set no probes within {_READY_SECONDS:.0f} s: name fewer processes"
                )
            waiting.poll(100)
            self._take()
        self._calls.since = _now()

    def fileno(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def pump(self, most: int) -> int:
        self._take()
        self._made.extend(self._calls.packets())
        shift = time.time_ns() - _now()
        count = min(most, len(self._made))
        for _ in range(count):
            at, frame = self._made.popleft()
            record = pcap_record(*divmod(at + shift, SECOND), frame[: self._snapshot_length], len(frame))
            self._pending.append(record)
        self._packets += count
        return count

    def _take(self) -> None:
        """Take what bpftrace has printed."""
        process = self._process
        assert process.stderr is not None
        said = _read(process.stderr.fileno())
        self._said = (self._said + (said or b""))[-_AT_ONCE:]
        # where later versions say so
        self._lost += sum(int(each) for each in _MOST_LOST.findall(said or b""))
        data = _read(self.fileno())
        if data == b"":
            raise DeviceError(f"bpftrace has ended: {_reason(self._said)}")
        if data:
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._calls.feed(line.decode("ascii", "replace") for line in lines)

    def counts(self) -> Counts:
        calls = self._calls
        dropped = self._lost + calls.lost + calls.cut
        return Counts(self._packets + dropped, dropped, calls.unplaced)

    def close(self) -> None:
        self.end_file()
        process = self._process
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait()


def bpftrace_path() -> str | None:
    """Return the path of bpftrace; None if it is not installed."""
    return shutil.which("bpftrace", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")


def obstacles() -> list[str]:
    """Return what keeps this process from reading other processes' TLS calls, a clause each; empty if nothing does."""
    if sys.platform != "linux":
        return ["uprobes are Linux's"]
    found = []
    if os.geteuid() != 0:
        found.append("reading what other processes say takes root")
    if bpftrace_path() is None:
        found.append("bpftrace is not installed")
    if not _KERNEL_TYPES.exists():
        found.append(f"the kernel does not describe its types ({_KERNEL_TYPES}, CONFIG_DEBUG_INFO_BTF)")
    if os.geteuid() == 0 and not _SYSTEM_CALLS.is_dir():
        found.append(
            f"system calls cannot be traced ({_SYSTEM_CALLS}: CONFIG_FTRACE_SYSCALLS, tracefs not mounted)"
        )
    return found


def trial() -> list[str]:
    """Return why no probe can be set at the TLS library of this process; empty if one can."""
    import ssl  # noqa: F401  # loads the library

    bpftrace = bpftrace_path()
    assert bpftrace is not None
    libraries = libraries_of([os.getpid()], bpftrace)
    probes = [f'uprobe:"{each.path}":SSL_free {{ @calls = 0; }}' for each in libraries[:1]]
    command = [bpftrace, "-e", " ".join([*probes, "BEGIN { exit(); }"])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return [f"bpftrace sets no probe within {_TRIAL_SECONDS:.0f} s"]
    return [f"bpftrace: {_reason(done.stderr)}"] if done.returncode else []


def _now() -> int:
    """Return the time in bpftrace's clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _read(descriptor: int) -> bytes | None:
    """Return what waits in a pipe; None if nothing does, empty at its end."""
    try:
        return os.read(descriptor, _AT_ONCE)
    except BlockingIOError:
        return None


def _reason(said: bytes) -> str:
    """Return why bpftrace ended, of what it said."""
    lines = [
        line
        for line in said.decode(errors="replace").splitlines()
        if "ERROR" in line and "RLIMIT" not in line
    ]
    return lines[-1] if lines else "it did not say why"
