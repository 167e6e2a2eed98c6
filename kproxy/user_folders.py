"""The user's folders for kproxy's files (XDG Base Directory Specification)."""

from __future__ import annotations

import os
from pathlib import Path

_USUAL = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}


def user_folder(variable: str) -> Path:
    """Return kproxy's folder for files of a kind; it need not exist.

    :param variable: environment variable with the base folder of these files
    """
    home = Path(os.environ.get(variable, ""))
    # the specification says to ignore relative paths
    return (home if home.is_absolute() else Path.home() / _USUAL[variable]) / "kproxy"
