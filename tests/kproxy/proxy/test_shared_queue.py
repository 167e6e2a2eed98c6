"""The queue in shared memory: order, capacity, wrap-around, wake-ups, and the exit of the sender."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.proxy.shared_queue import Receiver, Sender
from tests.waiting import PATIENCE, wait_until


@contextmanager
def queue(size: int = 4096) -> Iterator[tuple[Sender, Receiver]]:
    sender = Sender(size)
    receiver = Receiver(sender.fds[0], os.dup(sender.fds[1]))
    try:
        yield sender, receiver
    finally:
        sender.close()
        receiver.close()


def put(sender: Sender, payload: bytes, spare: int = 0) -> bool:
    """Put a message: length, length of the payload, payload."""
    length = 8 + len(payload) + 7 & ~7
    place = sender.reserve(length, spare)
    if place < 0:
        return False
    sender.memory[place : place + 8 + len(payload)] = (
        length.to_bytes(4, "little") + len(payload).to_bytes(4, "little") + payload
    )
    sender.publish()
    return True


def take(receiver: Receiver, most: int = 1 << 30) -> list[bytes]:
    found = []
    place, end = receiver.available()
    while place < end and len(found) < most:
        length = int.from_bytes(receiver.memory[place : place + 4], "little")
        if not length:
            place = end
            break
        size = int.from_bytes(receiver.memory[place + 4 : place + 8], "little")
        found.append(receiver.memory[place + 8 : place + 8 + size])
        place += length
    receiver.take(place)
    return found


@pytest.mark.slow
@given(st.lists(st.one_of(st.binary(min_size=1, max_size=1500), st.integers(1, 4)), max_size=80))
@settings(max_examples=100, deadline=None)
def test_what_is_put_is_taken_in_order(steps: list[bytes | int]) -> None:
    """Numbers take so many messages, bytes are put; a message is rejected only for lack of space."""
    with queue() as (sender, receiver):
        waiting: deque[bytes] = deque()
        for step in steps:
            if isinstance(step, bytes):
                if put(sender, step):
                    waiting.append(step)
                else:  # the message, and at most the space left after the last one
                    assert sender.waiting + 2 * len(step) + 32 > sender.size
            else:
                found = take(receiver, step)
                assert found == [waiting.popleft() for _ in found]
        while receiver.waiting:
            found = take(receiver)
            assert found == [waiting.popleft() for _ in found]
        assert not waiting


def test_spare_room_is_left() -> None:
    with queue() as (sender, _):
        while put(sender, bytes(120), spare=512):
            pass
        assert sender.size - sender.waiting >= 512
        assert put(sender, bytes(120))


def test_sizes_are_powers_of_two() -> None:
    for asked, made in ((1, 4096), (4097, 8192), (1 << 20, 1 << 20)):
        with queue(asked) as (sender, _):
            assert sender.size == made


@pytest.mark.slow
def test_the_receiver_is_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps indefinitely, so a lost wake-up would hang it."""
    with queue(1 << 16) as (sender, receiver):
        found: list[bytes] = []

        def receive() -> None:
            while receiver.wait():
                found.extend(take(receiver))

        thread = threading.Thread(target=receive)
        thread.start()
        for number in range(300):
            while not put(sender, b"%d" % number):
                time.sleep(0.0001)
            if number % 10 == 0:
                time.sleep(0.0003 * (number % 70))
        wait_until(lambda: len(found) == 300)
        sender.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert found == [b"%d" % number for number in range(300)]
        assert receiver.ended


def test_what_is_left_is_taken_after_the_end() -> None:
    with queue() as (sender, receiver):
        put(sender, b"last words")
        sender.close()
        assert receiver.wait()
        assert take(receiver) == [b"last words"]
        while receiver.wait():
            assert take(receiver) == []


def test_waiting_ends_in_time() -> None:
    with queue() as (_, receiver):
        assert receiver.wait(0.02)
        assert take(receiver) == []
