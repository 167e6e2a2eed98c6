"""Names of files that users type: what is wrong with them, and how they go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_MOST = 1_000
"""Names of a folder that are looked at; beyond, completion would make typing slow."""


def problem_of(name: str) -> str:
    """Return what is wrong with the name of a file to be written, empty if nothing is."""
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


def completions(name: str) -> Sequence[str]:
    """Return what a name may go on as: files and folders that there are, folders first, with a slash."""
    if not name:
        return ()
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
