from __future__ import annotations

import os
import signal

import pytest

from kproxy.signals import ended_by_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_the_second_does_what_it_always_does(number: signal.Signals) -> None:
    stopped, heeded = [], []
    before = signal.signal(number, lambda *_: heeded.append(True))
    try:
        with ended_by_signals(lambda: stopped.append(True)):
            os.kill(os.getpid(), number)
            assert (stopped, heeded) == ([True], [])
            os.kill(os.getpid(), number)
            assert (stopped, heeded) == ([True], [True])
        os.kill(os.getpid(), number)
        assert heeded == [True, True]
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """This keeps nohup and background jobs of scripts running."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals(pytest.fail):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
