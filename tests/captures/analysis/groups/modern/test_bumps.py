"""Counting of group epochs; the tests of group stories cover their presentation."""

from __future__ import annotations

from captures.analysis.groups.modern.bumps import BumpLog, EpochBump


def test_bumps_behind_an_epoch_follow_from_it() -> None:
    counting = BumpLog()
    counting.begin(7)
    counting.add(EpochBump(time=2, reasons=[], width=2), EpochBump(time=1, reasons=[]))
    assert [(bump.before, bump.generation) for bump in counting.open] == [(7, 8), (8, 10)]
    assert counting.latest == 10


def test_epochs_stay_what_messages_can_say() -> None:
    """A broker may send any epoch: numbers derived from the highest stay in range, and fit the columns of tables."""
    counting = BumpLog()
    counting.begin(2**31 - 1)
    counting.add(EpochBump(time=1, reasons=[]))
    assert counting.latest == counting.bumps[0].generation == 2**31 - 1
