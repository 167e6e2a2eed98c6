"""Repetitions in sequences: stretches that are followed by copies of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def repetitions(keys: Sequence[object], longest: int, least_turns: int) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of a sequence, shortest pattern first: index, length of a turn, and number of turns.

    Elements that do not repeat are yielded alone: length 1, one turn.

    :param keys: equal for equal elements
    :param longest: most elements of a turn
    :param least_turns: least number of turns of a repetition
    """
    at = 0
    while at < len(keys):
        length, turns = _repetition(keys, at, longest, least_turns)
        yield at, length, turns
        at += length * turns


def _repetition(keys: Sequence[object], at: int, longest: int, least_turns: int) -> tuple[int, int]:
    for length in range(1, longest + 1):
        pattern = keys[at : at + length]
        turns = 1
        while keys[at + turns * length : at + (turns + 1) * length] == pattern:
            turns += 1
        if turns >= least_turns:
            return length, turns
    return 1, 1
