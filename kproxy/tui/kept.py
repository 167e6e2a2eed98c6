"""What is chosen in the UI and kept for the next time, in ``$XDG_STATE_HOME/kproxy/ui.json``.

The file is the program's own; what its user writes is in the configuration file (:mod:`kproxy.tui.config`), which is
never written. Several UIs may run at once: each change is made to what the file says then, under a lock.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from kproxy.tui.config import ColumnEntry
from kproxy.tui.history import state_directory


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept.

    :ivar theme: name of the theme that was chosen last
    :ivar profile: name of the columns that were chosen last
    :ivar filters: texts of filters by name
    :ivar profiles: columns of the list by name
    """

    theme: str = ""
    profile: str = ""
    filters: dict[str, str] = {}
    profiles: dict[str, tuple[ColumnEntry, ...]] = {}


def kept_path() -> Path:
    """Return where the file is."""
    return state_directory() / "ui.json"


def read_kept(path: Path) -> Kept:
    """Return what is kept; nothing if the file is missing or cannot be understood."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return Kept()


def change_kept(path: Path, change: Callable[[Kept], Kept]) -> Kept:
    """Change what is kept, and return what it is then. May wait for a disk.

    :raises OSError: if the file cannot be written
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = change(read_kept(path))
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(kept), indent=2))
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    return kept
