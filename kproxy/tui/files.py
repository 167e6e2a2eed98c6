"""Files that the UI writes, here or, if it runs in a browser, as downloads; also screenshots."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from textual.app import App

from kproxy.export_files import replacing

_MOST = 1_000
"""Names of a folder that are considered; more would make typing slow."""


def problem_here(name: str) -> str:
    """Return why a file of this name cannot be written, empty if it can."""
    if not name.strip():
        return "type the name of a file"
    if "\0" in name:
        return "a name cannot hold a NUL"
    try:
        path = Path(name).expanduser()
        if path.is_dir() or name.endswith("/"):
            return f"{path} is a folder"
        if not path.parent.is_dir():
            return f"there is no folder {path.parent}"
        writable = os.access(path if path.exists() else path.parent, os.W_OK)
    except (OSError, RuntimeError) as error:
        return str(error)
    return "" if writable else f"{path} cannot be written: no permission"


def completions_here(name: str) -> Sequence[str]:
    """Return the completions of a path: existing folders with a slash, then files."""
    typed, start = os.path.split(name)
    folders, files = [], []
    with suppress(OSError, RuntimeError, ValueError), os.scandir(Path(typed or ".").expanduser()) as entries:
        for entry, _ in zip(entries, range(_MOST), strict=False):
            if not entry.name.startswith(start) or (entry.name.startswith(".") and not start):
                continue
            found = os.path.join(typed, entry.name)  # noqa: PTH118  # a Path would lose what was typed, such as ./
            if entry.is_dir():
                folders.append(f"{found}/")
            else:
                files.append(found)
    return [*sorted(folders), *sorted(files)]


def problem_of(app: App[Any], name: str) -> str:
    """Return why the user cannot write a file of this name, empty if it can be written."""
    if not app.is_web:
        return problem_here(name)
    good = name.strip() and "/" not in name and name.isprintable()
    return "" if good else "type a name without folders: the browser knows where downloads go"


def completions(app: App[Any], name: str) -> Sequence[str]:
    """Return the completions of a path; none in a browser, which must not see this machine's files."""
    return () if app.is_web else completions_here(name)


@contextmanager
def written_for_user(app: App[Any], path: Path) -> Iterator[Path]:
    """Yield the path to write a file to; in a browser the file is then downloaded under the name of `path`."""
    if not app.is_web:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="kproxy-") as folder:
        made = Path(folder) / path.name
        yield made
        app.deliver_binary(made.open("rb"), save_filename=path.name)  # read after the file is unlinked


async def save_screenshot(app: App[Any], name: str = "") -> Path:
    """Write the screen to an SVG file; return its path.

    :param name: path of the file, which is replaced if it exists; if empty, a new name with the time
    :raises OSError: if it cannot be written
    """
    problem = problem_of(app, name) if name else ""
    if problem:
        raise OSError(errno.EINVAL, problem, name)
    svg = app.export_screenshot(title=app.title)

    def write() -> Path:
        path = Path(name).expanduser() if name else _new_name()
        with written_for_user(app, path) as made, replacing(str(made)) as file:
            file.write(svg.encode())
        return path

    return await asyncio.to_thread(write)


def _new_name() -> Path:
    stem = f"kproxy-{datetime.now():%Y%m%d-%H%M%S}"
    names = (Path(f"{stem}{f'-{number}' if number else ''}.svg") for number in count())
    return next(name for name in names if not name.exists())
