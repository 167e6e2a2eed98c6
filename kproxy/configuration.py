"""The configuration file, ``kproxy.toml``: its location, its content, and a profile merged into it.

Its tables are interpreted elsewhere: options of commands in :mod:`kproxy.cli.config`, the UI in
:mod:`kproxy.tui.config`. Nothing in kproxy writes it (:mod:`kproxy.saved_choices` keeps choices made in the UI).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kproxy.user_folders import user_folder

FILE = "kproxy.toml"
ENVIRONMENT = "KPROXY_CONFIG"
PROFILE_ENVIRONMENT = "KPROXY_PROFILE"

_FORMER_FILE = "config.toml"
_FORMER_KINDS: dict[str, type] = {
    **dict.fromkeys(("theme", "color", "layout", "slow", "profile"), str),
    **dict.fromkeys(("mouse", "follow", "footer"), bool),
    **dict.fromkeys(("colors", "keys", "profiles"), dict),
}
"""Top-level keys, and their types, from the time when the file was only for the UI."""
_RENAMED = {"profile": "columns", "profiles": "column-sets"}
_HEADER = re.compile(r"\s*\[+([^\]]+)\]")
_KEY = re.compile(r"\s*([^#=]+?)\s*=")


class ConfigurationError(Exception):
    """A configuration file is invalid; the message gives file, line if known, key, and what is expected."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The content of a configuration file.

    :ivar path: None if there is no file
    :ivar profile: name of the profile, empty for none
    :ivar tables: the content, with the profile merged into it
    :ivar own: the content of the profile alone
    :ivar text: of the file
    :ivar notes: sentences for the user
    """

    path: Path | None = None
    profile: str = ""
    tables: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    notes: tuple[str, ...] = ()

    def table(self, *keys: str) -> Mapping[str, Any]:
        """Return a table, empty if it does not exist.

        :raises ConfigurationError: if its name belongs to something else
        """
        found: Any = self.tables
        for index, key in enumerate(keys, 1):
            found = found.get(key, {})
            if not isinstance(found, dict):
                raise self.error(f"this must be a table: [{'.'.join(keys[:index])}]", *keys[:index])
        assert isinstance(found, Mapping)
        return found

    def location(self, *keys: str) -> str:
        """Return the location of a key for messages: file, line, and the whole key."""
        own: Any = self.own
        for key in keys:
            own = own.get(key) if isinstance(own, dict) else None
        full = ".".join(keys if own is None else ("profile", self.profile, *keys))
        line = _line(self.text, full)
        return f"{self.path}{f', line {line}' if line else ''}: {full}"

    def error(self, problem: str, *keys: str) -> ConfigurationError:
        """Return an error about a key."""
        return ConfigurationError(f"{self.location(*keys)}: {problem}")

    def unknown(self, what: str, known: Iterable[str], *keys: str) -> ConfigurationError:
        """Return an error about an unknown name, the last of `keys`."""
        from captures.filters.errors import did_you_mean

        names = sorted(known)
        hint = did_you_mean(keys[-1], names) or f"there are {', '.join(names)}"
        return self.error(f"there is no {what} of that name ({hint})", *keys)


def configuration_folder() -> Path:
    """Return the folder of the user's configuration files."""
    return user_folder("XDG_CONFIG_HOME")


def load(path: Path | None = None, profile: str = "") -> Configuration:
    """Read the configuration file.

    :param path: the file; None for the one in ``KPROXY_CONFIG``, else ``kproxy.toml`` in the current folder, else in
        the user's folder, if it exists
    :param profile: merged into the rest; empty for the one in ``KPROXY_PROFILE``, if it is set
    :raises ConfigurationError: if it cannot be read, is not TOML, or lacks the profile
    """
    profile = profile or os.environ.get(PROFILE_ENVIRONMENT, "")
    named = path or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    file, notes = _usual() if named is None else (named, [])
    if file is None:
        if profile:
            raise ConfigurationError(f"there is no {FILE} to contain a profile {profile!r}")
        return Configuration(notes=tuple(notes))
    text, settings = _read(file)
    # [follow] can belong to a command, [profile] has the profiles
    if moved := [name for name, kind in _FORMER_KINDS.items() if isinstance(settings.get(name), kind)]:
        settings["ui"] = {
            **{_RENAMED.get(name, name): settings.pop(name) for name in moved},
            **settings.get("ui", {}),
        }
        notes.append(f"{file}: {', '.join(moved)} stand in the table [ui] now: docs/configuration.md")
    profiles = settings.pop("profile", {})
    whole = Configuration(file, "", {**settings, "profile": profiles}, text=text)
    own: Mapping[str, Any] = {}
    if profile:
        if profile not in whole.table("profile"):
            raise whole.unknown("profile", profiles, "profile", profile)
        own = whole.table("profile", profile)
    return Configuration(file, profile, _laid_over(settings, own), own, text, tuple(notes))


def _usual() -> tuple[Path | None, list[str]]:
    """Return the default file, and notes on others."""
    notes: list[str] = []
    here, folder = Path(FILE), configuration_folder()
    if here.is_file():
        if _trusted(here):
            return here, notes
        notes.append(
            f"{FILE} in this folder belongs to someone else, and is not used; --config {FILE} uses it"
        )
    return next((file for file in (folder / FILE, folder / _FORMER_FILE) if file.is_file()), None), notes


def _trusted(path: Path) -> bool:
    """Return whether a file belongs to the user: in a shared folder it may not, and its options can write files."""
    status = path.stat()
    owners = {0, os.getuid(), int(os.environ.get("SUDO_UID", os.getuid()))}
    return status.st_uid in owners and not status.st_mode & stat.S_IWOTH


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    import tomllib

    try:
        text = file.read_text("utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        problem = "there is no such file"
    except OSError as error:
        problem = error.strerror or str(error)
    except UnicodeDecodeError as error:
        problem = f"this is not UTF-8 text: byte {error.start}"
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problem = f"this is not TOML: {error}"
    raise ConfigurationError(f"{file}: {problem}")


def _laid_over(settings: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: (settings[name], over[name]) for name in settings.keys() & over.keys()}
    tables = {
        name: _laid_over(below, above)
        for name, (below, above) in both.items()
        if isinstance(below, dict) and isinstance(above, dict)
    }
    return {**settings, **over, **tables}


def _line(text: str, full: str) -> int:
    """Return the line of a key, given with all its tables; 0 if it has no line of its own."""
    wanted, table = _plain(full), ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _HEADER.match(line):
            at = table = _plain(found[1])
        elif found := _KEY.match(line):
            at = f"{table}.{_plain(found[1])}" if table else _plain(found[1])
        else:
            continue
        if at == wanted:
            return number
    return 0


def _plain(key: str) -> str:
    return re.sub(r"[\"'\s]", "", key)
