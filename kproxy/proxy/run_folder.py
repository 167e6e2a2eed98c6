"""Run folders: where to find a running proxy, and what remains of one that ended uncleanly.

Each run has a folder ``$XDG_STATE_HOME/kproxy/proxy/<start time>-<listen port>`` that only its user may enter:

* ``run.json`` says who runs, and where the capture is; it is replaced as a whole, never written in place;
* ``control.sock`` is the control socket (:mod:`kproxy.proxy.control`);
* ``capture/`` holds the recording, unless ``-w`` puts it elsewhere.

A run is alive while its process is: a process with that ID and with the start time in ``run.json``, because IDs are
reused. A clean end removes the folder. After an unclean one it stays as long as it holds a recording.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kproxy.export_files import write_private
from kproxy.user_folders import user_folder

_INFO = "run.json"
_SOCKET = "control.sock"
_CAPTURE = "capture"
_PROC = Path("/proc")  # Linux
_GRACE = 60.0  # seconds in which a folder may be without run.json: it is being made
_START_TIME = 19  # field 22 of /proc/PID/stat, counted behind the name (proc_pid_stat(5))


class Run(msgspec.Struct, frozen=True):
    """One run of the proxy.

    :ivar path: its folder
    :ivar pid: of the process that forwards
    :ivar listen: the first address that clients connect to, ``127.0.0.1:9092``
    :ivar started: seconds since the epoch
    :ivar capture: the file, folder or pattern of the recording; empty if nothing is recorded
    """

    path: Path
    pid: int
    listen: str
    started: float
    capture: str

    @property
    def name(self) -> str:
        """What the folder is called."""
        return self.path.name

    @property
    def port(self) -> int:
        """The port of :attr:`listen`, 0 if there is none."""
        port = self.listen.rpartition(":")[2]
        return int(port) if port.isdecimal() else 0

    @property
    def control_socket(self) -> Path:
        """Where the control socket is."""
        return self.path / _SOCKET


class _Info(msgspec.Struct, frozen=True):
    """What ``run.json`` holds. ``process`` tells a process from later ones with the same ID."""

    pid: int
    process: str
    listen: str
    started: float
    capture: str


class RunFolder:
    """The folder of this run.

    :ivar path: where it is
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, port: int, *, base: Path | None = None, started: float | None = None) -> RunFolder:
        """Make a folder of its own, with a ``run.json`` that names this process.

        :param port: that clients connect to
        :param base: folder of all run folders, :func:`state_folder` if None
        :param started: seconds since the epoch, now if None
        :raises OSError: if it cannot be made
        """
        started = time.time() if started is None else started
        base = state_folder() if base is None else base
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{datetime.fromtimestamp(started, UTC):%Y-%m-%dT%H-%M-%SZ}-{port}"
        number = 1
        while True:
            path = base / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir(mode=0o700)
                break
            except FileExistsError:
                number += 1
        made = cls(path)
        made.write(listen=f":{port}", capture="", started=started)
        return made

    @property
    def control_socket(self) -> Path:
        """Where the control socket belongs."""
        return self.path / _SOCKET

    @property
    def capture(self) -> Path:
        """Where the recording belongs, if it is not written elsewhere. It is not made here."""
        return self.path / _CAPTURE

    def write(
        self, *, listen: str, capture: str, pid: int | None = None, started: float | None = None
    ) -> None:
        """Say who runs.

        :param listen: see :class:`Run`
        :param capture: likewise
        :param pid: of the process that forwards, this one if None
        :param started: what was said before if None
        :raises ProcessLookupError: if there is no such process
        :raises OSError: if it cannot be written
        """
        pid = os.getpid() if pid is None else pid
        process = _identity(pid)
        if process is None:
            raise ProcessLookupError(f"there is no process {pid}")
        if started is None:
            known = _read(self.path)
            started = time.time() if known is None else known.started
        info = _Info(pid, process, listen, started, capture)
        write_private(self.path / _INFO, msgspec.json.format(msgspec.json.encode(info), indent=2))

    def remove(self) -> None:
        """Remove the folder with the recording in it, at a clean end. Other files in it stay."""
        shutil.rmtree(self.path / _CAPTURE, ignore_errors=True)
        _remove_bare(self.path)


def state_folder() -> Path:
    """Return the folder of all run folders."""
    return user_folder("XDG_STATE_HOME") / "proxy"


def running(base: Path | None = None) -> list[Run]:
    """Return the runs whose process is alive, the oldest first."""
    return [run for run, alive in _runs(base) if alive]


def find(name: str, base: Path | None = None) -> list[Run]:
    """Return the running proxies that a name means: of a folder or its beginning, a process ID or a port."""
    return [
        run for run in running(base) if name in (str(run.pid), str(run.port)) or run.name.startswith(name)
    ]


def leftovers(base: Path | None = None) -> list[Run]:
    """Return what proxies that ended uncleanly have left, the oldest first: their folders hold recordings.

    Folders without one are removed.
    """
    found = []
    for run, alive in _runs(base):
        if alive:
            continue
        if _recorded(run.path / _CAPTURE):
            found.append(run)
        else:
            RunFolder(run.path).remove()
    return found


def _recorded(folder: Path) -> bool:
    try:
        return any(entry.stat().st_size for entry in folder.iterdir() if entry.is_file())
    except OSError:
        return False


def _runs(base: Path | None) -> Iterator[tuple[Run, bool]]:
    base = state_folder() if base is None else base
    try:
        folders = sorted(path for path in base.iterdir() if path.is_dir())
    except FileNotFoundError:
        return
    for path in folders:
        info = _read(path)
        if info is not None:
            run = Run(path, info.pid, info.listen, info.started, info.capture)
            yield run, info.process == _identity(info.pid)
        elif _age(path) > _GRACE:
            yield Run(path, 0, "", 0.0, ""), False


def _read(path: Path) -> _Info | None:
    try:
        return msgspec.json.decode((path / _INFO).read_bytes(), type=_Info)
    except (OSError, msgspec.MsgspecError):
        return None


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # it is gone again
        return 0.0


def _remove_bare(path: Path) -> None:
    for name in (_SOCKET, _INFO, f".{_INFO}"):
        with suppress(OSError):
            (path / name).unlink()
    with suppress(OSError):  # something that is not ours is in it
        path.rmdir()


def _identity(pid: int) -> str | None:
    """Return what tells a process from others that had or will have its ID; None if there is none."""
    if _PROC.exists():
        try:
            fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return None
        return None if fields[0] in "ZX" else f"{boot} {fields[_START_TIME]}"
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return None
