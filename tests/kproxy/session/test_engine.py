from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from threading import Event, get_ident

import pytest

from captures.exchanges.fair_lock import FairLock
from kproxy.session import ClosedError, Priority, Steps
from kproxy.session.engine import Engine
from tests.waiting import PATIENCE


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(FairLock())
    engine.start()
    yield engine
    engine.close()


def test_a_job_is_done_in_another_thread(engine: Engine) -> None:
    assert engine.submit(get_ident, Priority.ASKED).result(PATIENCE) != get_ident()


def test_the_result_of_a_generator_is_what_it_returns(engine: Engine) -> None:
    def job() -> Steps[int]:
        yield
        yield
        return 7

    assert engine.submit(job, Priority.ASKED).result(PATIENCE) == 7


def test_an_error_goes_to_who_asked_and_the_engine_goes_on(engine: Engine) -> None:
    def job() -> Steps[int]:
        yield
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        engine.submit(job, Priority.ASKED).result(PATIENCE)
    assert engine.submit(lambda: 1, Priority.ASKED).result(PATIENCE) == 1


def test_what_is_more_urgent_goes_before_the_next_step(engine: Engine) -> None:
    order: list[str] = []
    begun, go_on = Event(), Event()

    def long() -> Steps[None]:
        begun.set()
        go_on.wait(PATIENCE)
        order.append("first step")
        yield
        order.append("second step")

    slow = engine.submit(long, Priority.COUNT)
    begun.wait(PATIENCE)
    quick = engine.submit(lambda: order.append("urgent"), Priority.LOOK)
    go_on.set()
    quick.result(PATIENCE)
    slow.result(PATIENCE)
    assert order == ["first step", "urgent", "second step"]


def test_of_equally_urgent_jobs_the_first_is_done_first(engine: Engine) -> None:
    order: list[int] = []

    def job(number: int) -> Steps[None]:
        yield
        order.append(number)

    jobs = [engine.submit(lambda number=number: job(number), Priority.ASKED) for number in range(5)]  # type: ignore[misc]
    for each in jobs:
        each.result(PATIENCE)
    assert order == [0, 1, 2, 3, 4]


def test_a_cancelled_job_ends_at_its_next_yield(engine: Engine) -> None:
    begun, go_on, ended = Event(), Event(), Event()
    steps: list[int] = []

    def job() -> Steps[None]:
        try:
            for step in range(1000):
                steps.append(step)
                begun.set()
                go_on.wait(PATIENCE)
                yield
        finally:
            ended.set()

    future = engine.submit(job, Priority.ASKED)
    begun.wait(PATIENCE)
    assert future.cancel()
    go_on.set()
    assert ended.wait(PATIENCE)
    assert steps == [0]
    with pytest.raises(CancelledError):
        future.result(0)


def test_the_turns_are_held_while_a_job_runs_and_free_between() -> None:
    turns = FairLock()
    engine = Engine(turns)
    engine.start()
    with turns:
        future = engine.submit(lambda: "done", Priority.LOOK)
        with pytest.raises(TimeoutError):
            future.result(0.05)
    assert future.result(PATIENCE) == "done"
    engine.close()


def test_jobs_that_are_left_fail_when_the_engine_ends() -> None:
    engine = Engine(FairLock())
    left = engine.submit(lambda: 1, Priority.ASKED)
    engine.close()
    with pytest.raises(ClosedError):
        left.result(0)
    with pytest.raises(ClosedError):
        engine.submit(lambda: 1, Priority.ASKED).result(0)
