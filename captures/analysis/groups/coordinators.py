"""Which brokers coordinated a group, told from who answered its members.

A broker may be reached by several addresses, one for each listener: what members speak with at the same time is one
coordinator. Another one has taken over where the former address is not spoken with any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from captures.analysis.groups.model import CoordinatorSeen

PAUSE = 60_000_000_000
"""ns without a call after which an address that is spoken with again may be that of a coordinator that came back."""
MOST_STINTS = 200
"""That are kept of each group; what comes behind goes on with an earlier one."""
_OVERLAP = 1_000_000_000
"""ns that calls to the former coordinator may still be answered after the first to the new one."""


@dataclass(slots=True)
class _Stint:
    """A time in which an address answered.

    :ivar number: of the first exchange
    """

    broker: str
    begin: int
    end: int
    number: int


class Coordinators:
    """Notes who answered, by group."""

    def __init__(self) -> None:
        self._stints: dict[str, list[_Stint]] = {}

    def answered(self, group: str, broker: str, time: int, number: int) -> None:
        """Note that a broker answered a call of a member as coordinators do.

        :param time: when it was asked
        """
        stints = self._stints.setdefault(group, [])
        mine = next((stint for stint in reversed(stints) if stint.broker == broker), None)
        if mine is not None and (
            mine is stints[-1] or time - mine.end <= PAUSE or len(stints) >= MOST_STINTS
        ):
            if time < mine.begin:
                mine.begin, mine.number = time, number
            mine.end = max(mine.end, time)
        elif len(stints) < MOST_STINTS:
            stints.append(_Stint(broker, time, time, number))

    def of(self, group: str) -> list[CoordinatorSeen]:
        """Return the coordinators in the order of time, by the addresses of the connections: one for each change."""
        out: list[CoordinatorSeen] = []
        former: _Stint | None = None
        for stint in sorted(self._stints.get(group, ()), key=lambda each: (each.begin, each.number)):
            if former is None or former.end <= stint.begin + _OVERLAP:
                if former is None or former.broker != stint.broker:
                    out.append(CoordinatorSeen(stint.begin, stint.broker, stint.number))
                former = stint
            elif stint.end > former.end:
                # another address of the same broker, or the former one is still asked by who has not heard of the move
                former = stint
        return out
