"""Sequences that repeat: which stretch of a sequence comes again right behind itself, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def repetitions(keys: Sequence[object], longest: int, least_turns: int) -> Iterator[tuple[int, int, int]]:
    """Yield the stretches of a sequence, shortest pattern first: index, length of a turn, and number of turns.

    What does not repeat comes alone: a length of 1, one turn.

    :param keys: equal where elements are alike
    :param longest: elements of a turn at most
    :param least_turns: so often a pattern has to come to be one
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
