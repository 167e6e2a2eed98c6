"""Under which phase each line of a log stands."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.client_trace.model import Line, Phase

_OF_THE_CLUSTER = frozenset({"metadata", "error", "unanswered"})
"""What a client goes on with after it authenticated."""


def settle_phases(lines: Sequence[Line], *, from_the_beginning: bool) -> None:
    """Give each line its phase: what belongs to all of them stands in that which was reached.

    :param lines: in the order of time; those that begin a phase have theirs
    :param from_the_beginning: whether the first connection was seen from its beginning; else the party may be in the
        middle of the phase that comes up first
    """
    first = next((line.phase for line in lines if line.phase is not None), Phase.BOOTSTRAP)
    current = before = Phase.BOOTSTRAP if from_the_beginning else first
    for line in lines:
        if line.phase is Phase.AUTHENTICATION and not line.trouble and before is not Phase.BOOTSTRAP:
            line.phase = current  # a later connection
        elif line.phase is None:
            back = current is Phase.AUTHENTICATION and line.what in _OF_THE_CLUSTER
            line.phase = before if back else current
        if line.phase is not Phase.AUTHENTICATION:
            before = line.phase
        current = line.phase
