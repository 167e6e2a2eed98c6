"""All checks together, in the order of display."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module


class State(StrEnum):
    """The state of a part. Only a broken part keeps kproxy from working."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of checking one part of the installation.

    :ivar name: of the part
    :ivar state: of the part
    :ivar found: what was found, such as a version and a place; one line
    :ivar about: what does not work, unless the state is ok; a sentence without full stop
    :ivar command: a command that fixes it, for a POSIX shell; empty if there is none
    """

    name: str
    state: State
    found: str
    about: str = ""
    command: str = ""


def check_of(name: str, found: str, problems: Iterable[str]) -> Check:
    """Return the check of a part of the configuration file.

    :param problems: its problems, a line each
    """
    first, *others = problems or ("",)
    if not first:
        return Check(name, State.OK, found)
    return Check(
        name, State.LIMITED, found, f"{first}{f', and {len(others)} more' if others else ''}", "kproxy config"
    )


AREAS = {
    "core": "kproxy.doctor.core",
    "terminal": "kproxy.doctor.terminal",
    "configuration": "kproxy.doctor.configuration",
    "live capture": "kproxy.doctor.live_capture",
    "proxy": "kproxy.doctor.proxy",
    "TLS": "kproxy.doctor.tls",
    "extras": "kproxy.doctor.extras",
    "Spark": "kproxy.doctor.spark",
}
"""Area -> module with its ``checks()``."""


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all checks.

    :ivar version: of kproxy, None if it runs from its sources without being installed
    :ivar python: version of Python
    :ivar executable: path of Python
    :ivar system: the operating system, its release and the machine
    :ivar areas: the checks by area
    """

    version: str | None
    python: str
    executable: str
    system: str
    areas: dict[str, list[Check]]

    @property
    def checks(self) -> Iterator[Check]:
        for checks in self.areas.values():
            yield from checks

    @property
    def works(self) -> bool:
        """Whether nothing is broken, so that captures can be read."""
        return all(check.state is not State.BROKEN for check in self.checks)


def examine(areas: Iterable[str] = tuple(AREAS)) -> Examination:
    """Check the installation.

    :param areas: keys of :data:`AREAS`
    """
    from kproxy.doctor.packages import own_version

    return Examination(
        own_version(),
        platform.python_version(),
        sys.executable,
        f"{platform.system()} {platform.release()} {platform.machine()}",
        {area: checked_area(area, AREAS[area]) for area in areas},
    )


def checked_area(area: str, module: str) -> list[Check]:
    """Return the checks of an area; if they raise, the last one reports that."""
    checks: list[Check] = []
    try:
        find: Callable[[], Iterable[Check]] = import_module(module).checks
        checks.extend(find())
    except Exception as error:  # the other areas are still worth knowing
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        checks.append(Check(area, State.BROKEN, what, "This could not be checked"))
    return checks
