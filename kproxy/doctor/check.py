"""What a check says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


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

    def to_json(self) -> dict[str, Any]:
        """Return it as in ``kproxy doctor --json`` (docs/install.md)."""
        return {**asdict(self), "state": self.state.value}
