from __future__ import annotations

from threading import Event, Thread

from captures.exchanges.fair_lock import FairLock
from tests.waiting import PATIENCE


def test_who_waits_gets_the_next_turn() -> None:
    turns, order = FairLock(), []
    inside, waits = Event(), Event()

    def other() -> None:
        inside.wait(PATIENCE)
        waits.set()
        with turns:
            order.append("other")

    thread = Thread(target=other)
    thread.start()
    with turns:
        inside.set()
        waits.wait(PATIENCE)
        # the other thread is about to arrive; its arrival is not visible, but it has nothing else to do
        while not turns._way_in.locked():
            pass
        order.append("first")
    with turns:
        order.append("again")
    thread.join(PATIENCE)
    assert order == ["first", "other", "again"]


def test_an_error_inside_frees_it() -> None:
    turns = FairLock()
    try:
        with turns:
            raise ValueError
    except ValueError:
        pass
    with turns:
        pass
