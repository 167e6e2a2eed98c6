"""Which packages are installed, which are required, and the command that installs more of them.

Requirements come from kproxy's own metadata; versions are compared by numbers alone, which suffices for the bounds
there (packaging.python.org, "Version specifiers").
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*(?P<bounds>[^;\[]*)(?:;\s*(?P<marker>.*))?$", re.DOTALL
)
_EXTRA = re.compile(r"""extra\s*==\s*["'](?P<extra>[^"']+)["']""")
_DEVELOPMENT = ("dev", "fuzz")  # extras that are useful only in a clone of the repository
_BOUND = re.compile(r"(?P<how>==|>=|<=|!=|<|>)\s*(?P<version>[0-9][0-9.]*)")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package that kproxy requires.

    :ivar name: of the distribution
    :ivar bounds: of its version, such as ``<3,>=1.26``
    :ivar extra: the extra that requires it, None if kproxy always does
    """

    name: str
    bounds: str
    extra: str | None

    @property
    def installed(self) -> str | None:
        return version_of(self.name)

    @property
    def fits(self) -> bool:
        """Whether it is installed in a version within the bounds."""
        return (have := self.installed) is not None and within(have, self.bounds)


def version_of(package: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def own_version() -> str | None:
    """Return the version of kproxy, None if it runs from its sources without being installed."""
    return version_of("kproxy")


@cache
def requirements() -> tuple[Requirement, ...]:
    """Return kproxy's requirements on this system, except those for development; none if it is not installed."""
    if own_version() is None:
        return ()
    found = []
    for text in requires("kproxy") or ():
        match = _REQUIREMENT.match(text)
        assert match is not None, text
        marker = match["marker"] or ""
        extra = _EXTRA.search(marker)
        if (extra and extra["extra"] in _DEVELOPMENT) or ("win32" in marker and sys.platform == "win32"):
            continue
        found.append(Requirement(match["name"], match["bounds"].strip(), extra["extra"] if extra else None))
    return tuple(found)


def within(have: str, bounds: str) -> bool:
    """Return whether a version is within bounds; suffixes such as ``rc1`` are ignored."""
    numbers = _numbers(have)
    for bound in _BOUND.finditer(bounds):
        asked = _numbers(bound["version"])
        size = max(len(numbers), len(asked))
        installed, other = ((*each, *(0,) * (size - len(each))) for each in (numbers, asked))
        fits = {
            "==": installed == other,
            "!=": installed != other,
            ">=": installed >= other,
            "<=": installed <= other,
            ">": installed > other,
            "<": installed < other,
        }
        if not fits[bound["how"]]:
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    return tuple(int(each) for each in match[0].split(".")) if match else ()


def install_command(*packages: str) -> str:
    """Return the command that installs packages beside kproxy, with the tool that installed kproxy.

    :param packages: such as ``kproxy[spark]``, whose bounds come from the installed metadata
    """
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return shlex.join(["pipx", "runpip", prefix.name, "install", *packages])
    if (prefix / "uv-receipt.toml").exists() or (find_spec("pip") is None and shutil.which("uv")):
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *packages])
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


_MANAGERS = {
    "apt-get": "sudo apt-get install {}",
    "dnf": "sudo dnf install {}",
    "zypper": "sudo zypper install {}",
    "pacman": "sudo pacman -S {}",
    "apk": "sudo apk add {}",
    "brew": "brew install {}",
}


def system_command(packages: dict[str, str]) -> str:
    """Return the command that installs a system package; empty if no known package manager is found.

    :param packages: its name by package manager; ``""`` is for all others
    """
    for manager, command in _MANAGERS.items():
        if shutil.which(manager):
            return command.format(packages.get(manager, packages[""]))
    return ""


def listed(words: Iterable[str]) -> str:
    """Return words as a list in prose: ``a``, ``a and b``, ``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
