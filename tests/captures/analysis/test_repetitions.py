"""Immediate repetitions in a sequence."""

from __future__ import annotations

from captures.analysis.repetitions import repetitions


def test_what_repeats_is_one_stretch() -> None:
    assert list(repetitions([*"xababab", *"ccy"], 4, 2)) == [(0, 1, 1), (1, 2, 3), (7, 1, 2), (9, 1, 1)]


def test_a_pattern_has_to_come_often_enough_and_be_short_enough() -> None:
    assert list(repetitions([*"abab"], 4, 3)) == [(at, 1, 1) for at in range(4)]
    assert list(repetitions([*"abcabc"], 2, 2)) == [(at, 1, 1) for at in range(6)]
