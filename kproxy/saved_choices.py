"""Choices made in the UI that persist between runs, in ``$XDG_STATE_HOME/kproxy/ui.json``.

The file belongs to the program; users write the configuration file (:mod:`kproxy.configuration`), which kproxy never
writes. Several UIs may run at once: each change is applied to the current content of the file, under a lock.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import msgspec

from kproxy.configuration import Configuration
from kproxy.export_files import write_private
from kproxy.user_folders import user_folder


def state_directory() -> Path:
    """Return the folder of the UI's state; it need not exist."""
    return user_folder("XDG_STATE_HOME")


class ProfileColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A column of a profile, in files and in the UI.

    :ivar column: ID of a column, or a field
    :ivar width: in cells, None for automatic
    """

    column: str
    width: int | None = None


class SavedChoices(msgspec.Struct, frozen=True, omit_defaults=True):
    """The saved choices.

    :ivar theme: name of the last theme
    :ivar profile: name of the last set of columns
    :ivar filters: texts of filters by name
    :ivar profiles: columns of the list by name
    :ivar widths: widths of columns of the list, as last dragged
    """

    theme: str = ""
    profile: str = ""
    filters: dict[str, str] = {}
    profiles: dict[str, tuple[ProfileColumn, ...]] = {}
    widths: dict[str, int] = {}


def choices_path() -> Path:
    """Return the path of the file."""
    return state_directory() / "ui.json"


def read_choices(path: Path) -> SavedChoices:
    """Return the saved choices; the defaults if the file is missing or malformed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=SavedChoices)
    except (OSError, msgspec.DecodeError):
        return SavedChoices()


def change_choices(path: Path, change: Callable[[SavedChoices], SavedChoices]) -> SavedChoices:
    """Change the saved choices, and return the result. May block on disk access.

    :raises OSError: if the file cannot be written
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = change(read_choices(path))
        write_private(path, msgspec.json.format(msgspec.json.encode(kept), indent=2))
    return kept


def saved_filters(configuration: Configuration) -> dict[str, str]:
    """Return the filters that ``@name`` stands for: those of the configuration file, and those saved in the UI.

    :raises ConfigurationError: if one in the file is not text
    """
    filters = configuration.table("filters")
    for name, text in filters.items():
        if not isinstance(text, str):
            raise configuration.error("a filter is a text in quotes", "filters", name)
    return {**read_choices(choices_path()).filters, **filters}
