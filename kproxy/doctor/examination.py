"""All checks together, in the order in which they are shown."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module


class State(StrEnum):
    """How a part is. Only what is broken keeps kproxy from its work."""

    OK = "ok"
    LIMITED = "limited"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """What was found about one part of the installation.

    :ivar name: what was looked at
    :ivar state: how it is
    :ivar found: what was found, such as a version and a place; one line
    :ivar about: where it is not ok, what does not work for that; a sentence without full stop
    :ivar command: where there is one, the command that changes it, for a POSIX shell
    """

    name: str
    state: State
    found: str
    about: str = ""
    command: str = ""


def check_of(name: str, found: str, problems: Iterable[str]) -> Check:
    """Return what there is to say of a part of the configuration file.

    :param problems: what is wrong with it, a line each
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
"""Each area with the module whose ``checks()`` looks at it."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found.

    :ivar version: of kproxy, None if it is not installed but run from its sources
    :ivar python: version of Python, and its executable
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
        """All checks."""
        for checks in self.areas.values():
            yield from checks

    @property
    def works(self) -> bool:
        """Whether nothing is broken, so that captures can be read."""
        return all(check.state is not State.BROKEN for check in self.checks)


def examine(areas: Iterable[str] = tuple(AREAS)) -> Examination:
    """Look at the installation.

    :param areas: those of :data:`AREAS` that are inspected
    """
    from kproxy.doctor.packages import own_version

    return Examination(
        own_version(),
        platform.python_version(),
        sys.executable,
        f"{platform.system()} {platform.release()} {platform.machine()}",
        {area: looked_at(area, AREAS[area]) for area in areas},
    )


def looked_at(area: str, module: str) -> list[Check]:
    """Return the checks of an area; one that says so, if they fail themselves."""
    checks: list[Check] = []
    try:
        find: Callable[[], Iterable[Check]] = import_module(module).checks
        checks.extend(find())
    except Exception as error:  # whatever it is, the other areas are worth knowing
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        checks.append(Check(area, State.BROKEN, what, "This could not be looked at"))
    return checks
