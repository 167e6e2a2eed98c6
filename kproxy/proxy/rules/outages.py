"""Rules that take a broker down: ``broker 2 down``, ``broker 2 down silent, for=30s``. Nothing heavy here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kproxy.proxy.verdicts import Then

FOREVER = 1 << 62
"""ns; of a rule that never ends by itself, which has to be forced."""

REFUSED, RESET, SILENT = "refused", "reset", "silent"
MANNERS: Mapping[str, str] = {
    REFUSED: "its connections are closed and new ones refused, as when its process has ended; meant without a word",
    RESET: "its connections are reset, and new ones as soon as they are accepted",
    SILENT: "its connections stay open, new ones are accepted, and nothing is forwarded: a host that hangs, a network "
    "that drops packets",
}
"""How a broker is down -> what clients meet with."""
ENDS = {REFUSED: Then.CLOSE, RESET: Then.RESET, SILENT: Then.SWALLOW}


@dataclass(frozen=True, slots=True)
class Down:
    """What is done to the broker.

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
    :ivar name: by which it can be removed, empty without one
    """

    text: str = field(compare=False)
    node_id: int
    action: Down
    duration: int
    name: str = ""
    probability: float = 1.0
    count: None = None
