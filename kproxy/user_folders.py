"""The user's folders for files of kproxy (XDG Base Directory Specification)."""

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
    """Return the folder for files of a kind; it need not exist.

    :param variable: that names where such files are
    """
    home = Path(os.environ.get(variable, ""))
    # the specification has relative ones ignored
    return (home if home.is_absolute() else Path.home() / _USUAL[variable]) / "kproxy"
