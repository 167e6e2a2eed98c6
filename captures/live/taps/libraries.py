"""The files that processes run and that have functions of a TLS library, by name."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

_MAPPED = re.compile(r"^\S+ ..x. \S+ (\S+) (\d+) +(/.*)$", re.MULTILINE)  # proc_pid_maps(5)
_NAME = b"\0SSL_write\0"  # in a table of symbols
_LISTED = re.compile(r":(SSL_\w+)$", re.MULTILINE)


class Library(msgspec.Struct, frozen=True):
    """A file with the functions of OpenSSL or BoringSSL: a library, or a program that contains it.

    :ivar path: as seen from here
    :ivar functions: names of its functions
    """

    path: str
    functions: frozenset[str]


def libraries_of(processes: Iterable[int], bpftrace: str) -> list[Library]:
    """Return the libraries that processes have loaded, each file once.

    :param bpftrace: its path; it knows the symbols of files
    """
    found: dict[tuple[int, int], Path] = {}
    none: set[tuple[int, int]] = set()
    for process in processes:
        for path in _mapped(process):
            with suppress(OSError, ValueError):
                status = path.stat()
                key = (status.st_dev, status.st_ino)
                if key in found or key in none:
                    continue
                if _has_name(path):
                    found[key] = path
                else:
                    none.add(key)
    libraries = [Library(str(path), _functions(path, bpftrace)) for path in found.values()]
    return [each for each in libraries if each.functions]


def processes() -> list[int]:
    """Return the IDs of all processes but this one."""
    return [
        int(each.name)
        for each in Path("/proc").iterdir()
        if each.name.isdecimal() and int(each.name) != os.getpid()
    ]


def _mapped(process: int) -> Iterator[Path]:
    """Yield paths of the files that a process executes, through its own root if that is another one."""
    try:
        text = Path(f"/proc/{process}/maps").read_text(errors="surrogateescape")
    except OSError:
        return  # it has ended, or has no memory of its own
    for name in dict.fromkeys(match[3] for match in _MAPPED.finditer(text)):
        path, inside = Path(name), Path(f"/proc/{process}/root{name}")
        with suppress(OSError):
            if '"' not in name and not name.endswith(" (deleted)"):
                yield path if path.exists() and path.samefile(inside) else inside


def _has_name(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(_NAME) >= 0


def _functions(path: Path, bpftrace: str) -> frozenset[str]:
    command = [bpftrace, "-l", f'uprobe:"{path}":SSL_*']
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return frozenset(_LISTED.findall(done.stdout))
