"""Repetitions in a log, folded: a client that reconnects in a loop, or crashes and restarts."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.client_trace.model import NUMBERS_SHOWN, Line
from captures.analysis.repetitions import repetitions
from captures.meaning import words

_LONGEST = 16
"""Most lines of one turn."""
_LEAST_TURNS = 3


def without_repeats(lines: Sequence[Line]) -> list[Line]:
    """Return a log with each repetition shown once, followed by a line with the number of further turns.

    :param lines: ordered by time, each with its phase
    """
    # a number equals no other key
    keys: list[object] = [at if line.key is None else (line.what, line.key) for at, line in enumerate(lines)]
    found: list[Line] = []
    for at, length, turns in repetitions(keys, _LONGEST, _LEAST_TURNS):
        found.extend(lines[at : at + length])
        if turns > 1:
            found.append(_again(lines[at + length : at + length * turns], length, turns - 1))
    return found


def _again(rest: Sequence[Line], length: int, turns: int) -> Line:
    numbers = [number for line in rest for number in line.numbers]
    lasts = [line.last for line in rest if line.last is not None]
    what = "the line above" if length == 1 else f"the {length} lines above"
    return Line(
        time=rest[0].time,
        until=max(line.until for line in rest),
        what="repeats",
        phase=rest[0].phase,
        text=f"{what}, or much the same, {words.counted(turns, 'time')} more",
        client=rest[0].client,
        count=sum(line.count for line in rest),
        numbers=numbers[:NUMBERS_SHOWN],
        last=max(lasts, default=None),
        connections=sorted({connection for line in rest for connection in line.connections}),
        brokers=list(dict.fromkeys(broker for line in rest for broker in line.brokers)),
        trouble=any(line.trouble for line in rest),
    )
