"""Rules that take a broker down: ``broker 2 down``, ``broker 2 down silent, for=30s``. Cheap to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.proxy.verdicts import Ending

FOREVER = 1 << 62
"""ns; the duration of a rule without end, which needs ``force``."""

REFUSED, RESET, SILENT = "refused", "reset", "silent"
MANNERS: Mapping[str, str] = {
    REFUSED: "its connections are closed and new ones refused, as when its process has ended; meant without a word",
    RESET: "its connections are reset, and new ones as soon as they are accepted",
    SILENT: "its connections stay open, new ones are accepted, and nothing is forwarded: a host that hangs, a network "
    "that drops packets",
}
"""Manner of an outage -> what clients experience."""
ENDS = {REFUSED: Ending.CLOSE, RESET: Ending.RESET, SILENT: Ending.SWALLOW}


@dataclass(frozen=True, slots=True)
class DownAction:
    """The action of taking a broker down.

    :ivar manner: one of :data:`MANNERS`
    """

    manner: str

    def __str__(self) -> str:
        return f"down {self.manner}"


@dataclass(frozen=True)
class Outage:
    """A rule that takes a broker down.

    :ivar text: as written
    :ivar duration: ns
    :ivar name: identifies the rule for removal; empty if it has none
    :ivar cluster: name of the broker's cluster; empty for the only one
    """

    text: str = field(compare=False)
    node_id: int
    action: DownAction
    duration: int
    name: str = ""
    probability: float = 1.0
    count: None = None
    cluster: str = ""

    @property
    def broker(self) -> str:
        """The broker as rules name it: ``broker 2``, ``broker east/2``."""
        return f"broker {f'{self.cluster}/' if self.cluster else ''}{self.node_id}"
