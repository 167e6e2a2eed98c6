"""What a check says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


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
