"""Run folders: where to find a running proxy, and what remains of one that ended uncleanly.

Each run has a folder ``$XDG_STATE_HOME/kproxy/proxy/<start time>-<listen port>`` that only its user may enter:

* ``run.json`` identifies the process and the capture; it is replaced as a whole, never written in place;
* ``control.sock`` is the control socket (:mod:`kproxy.proxy.control`);
* ``control.token`` is the token of ``--control-http``, unless ``--control-token`` puts it elsewhere;
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
_AUTHORIZATION = "control.token"
_CAPTURE = "capture"
_PROC = Path("/proc")  # Linux
_GRACE = 60.0  # seconds for which a folder may lack run.json while it is being created
_START_TIME = 19  # field 22 of /proc/PID/stat, counted after the name (proc_pid_stat(5))


class Run(msgspec.Struct, frozen=True):
    """A run of the proxy.

    :ivar path: its folder
    :ivar pid: ID of the process that forwards
    :ivar front: ID of the process that the user started
    :ivar listen: the first address that clients connect to, ``127.0.0.1:9092``
    :ivar started: seconds since the epoch
    :ivar capture: the file, folder or pattern of the recording; empty if nothing is recorded
    """

    path: Path
    pid: int
    front: int
    listen: str
    started: float
    capture: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def port(self) -> int:
        """The port of :attr:`listen`, 0 if there is none."""
        port = self.listen.rpartition(":")[2]
        return int(port) if port.isdecimal() else 0

    @property
    def control_socket(self) -> Path:
        return self.path / _SOCKET


class _Info(msgspec.Struct, frozen=True):
    """The content of ``run.json``. ``process`` distinguishes a process from later ones with the same ID."""

    pid: int
    process: str
    listen: str
    started: float
    capture: str
    front: int = 0  # earlier versions did not write it


class RunFolder:
    """The folder of this run.

    :ivar path: its path
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, port: int, *, base: Path | None = None, started: float | None = None) -> RunFolder:
        """Create a new folder, with a ``run.json`` that names this process.

        :param port: that clients connect to
        :param base: folder of all run folders, :func:`state_folder` if None
        :param started: seconds since the epoch, now if None
        :raises OSError: if it cannot be created
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
        return self.path / _SOCKET

    @property
    def control_token(self) -> Path:
        return self.path / _AUTHORIZATION

    @property
    def capture(self) -> Path:
        """The path of the recording, unless it is written elsewhere. The folder is not created here."""
        return self.path / _CAPTURE

    def write(
        self, *, listen: str, capture: str, pid: int | None = None, started: float | None = None
    ) -> None:
        """Write ``run.json``.

        :param listen: see :class:`Run`
        :param capture: see :class:`Run`
        :param pid: of the process that forwards, this one if None
        :param started: seconds since the epoch; the previous value if None
        :raises ProcessLookupError: if there is no such process
        :raises OSError: if it cannot be written
        """
        pid = os.getpid() if pid is None else pid
        process = _identity(pid)
        if process is None:
            raise ProcessLookupError(f"there is no process {pid}")
        known = _read(self.path)
        front = os.getpid() if known is None else known.front
        if started is None:
            started = time.time() if known is None else known.started
        info = _Info(pid, process, listen, started, capture, front)
        write_private(self.path / _INFO, msgspec.json.format(msgspec.json.encode(info), indent=2))

    def remove(self) -> None:
        """Remove the folder with the recording in it, at a clean end. Unknown files in it stay."""
        shutil.rmtree(self.path / _CAPTURE, ignore_errors=True)
        _remove_bare(self.path)


def state_folder() -> Path:
    """Return the folder of all run folders."""
    return user_folder("XDG_STATE_HOME") / "proxy"


def running(base: Path | None = None) -> list[Run]:
    """Return the runs whose process is alive, the oldest first."""
    return [run for run, alive in _runs(base) if alive]


def find(name: str, base: Path | None = None) -> list[Run]:
    """Return the running proxies that `name` matches: the start of a folder name, a process ID or a port."""
    return [
        run
        for run in running(base)
        if name in (str(run.pid), str(run.front), str(run.port)) or run.name.startswith(name)
    ]


def leftovers(base: Path | None = None) -> list[Run]:
    """Return the runs that ended uncleanly and left a recording, the oldest first.

    Folders without a recording are removed.
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
            run = Run(path, info.pid, info.front, info.listen, info.started, info.capture)
            yield run, info.process == _identity(info.pid)
        elif _age(path) > _GRACE:
            yield Run(path, 0, 0, "", 0.0, ""), False


def _read(path: Path) -> _Info | None:
    try:
        return msgspec.json.decode((path / _INFO).read_bytes(), type=_Info)
    except (OSError, msgspec.MsgspecError):
        return None


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:  # it was removed meanwhile
        return 0.0


def _remove_bare(path: Path) -> None:
    for name in (_SOCKET, _AUTHORIZATION, _INFO, f".{_INFO}"):
        with suppress(OSError):
            (path / name).unlink()
    with suppress(OSError):  # it contains unknown files
        path.rmdir()


def _identity(pid: int) -> str | None:
    """Return a text that distinguishes a process from earlier and later ones with its ID; None if it does not exist."""
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
