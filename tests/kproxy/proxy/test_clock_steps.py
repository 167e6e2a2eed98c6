"""Changes of the wall clock end nothing."""

from __future__ import annotations

from kproxy.proxy.clock_steps import ClockSteps

_S = 1_000_000_000


class _Clocks:
    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000 * _S, 5 * _S

    def go_on(self, seconds: float, *, set_by: float = 0) -> None:
        self.steady += round(seconds * _S)
        self.wall += round((seconds + set_by) * _S)


def test_steps_are_told_once() -> None:
    clocks = _Clocks()
    steps = ClockSteps(lambda: clocks.wall, lambda: clocks.steady)
    clocks.go_on(1)
    assert steps.look() == 0
    clocks.go_on(1, set_by=3600)
    assert steps.look() == 3600 * _S
    clocks.go_on(1)
    assert steps.look() == 0
    clocks.go_on(1, set_by=-7200)
    assert steps.look() == -7200 * _S
    assert steps.look() == 0


def test_a_clock_that_is_slewed_is_not_set() -> None:
    clocks = _Clocks()
    steps = ClockSteps(lambda: clocks.wall, lambda: clocks.steady)
    for _ in range(3600):
        clocks.go_on(1, set_by=0.0005)
        assert steps.look() == 0


def test_the_clocks_of_the_system_agree() -> None:
    assert ClockSteps().look() == 0
