"""Blocks of many messages built together equal the bytes of single messages."""

from __future__ import annotations

import os
import random

import pytest

from kproxy.proxy import blocks
from kproxy.proxy.blocks import BlockMaker
from kproxy.proxy.shared_queue import Receiver
from kproxy.proxy.tee import Tee
from tests.kproxy.proxy.recordings import MS, T0

SIZES = (1, 2, 3, 4, 5, 7, 8, 61, 62, 63, 200, 511, 513, 4095, 4096, 4097, 66_000)
NEVER = 1 << 30


def made(few: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, int, int]:
    """Return blocks of random messages of IPv4 and IPv6 connections, with comments, ends and an unknown connection."""
    monkeypatch.setattr(blocks, "_FEW", few)
    monkeypatch.setattr(blocks, "_PER_CONNECTION", 1)
    rng = random.Random(seed)
    tee = Tee(1 << 22)
    tee.salt = seed << 28
    receiver = Receiver(tee.queue.fds[0], os.dup(tee.queue.fds[1]))
    maker = BlockMaker(receiver.view, tee.salt, lambda _: None)
    hosts = ["10.0.0.7", "::1", "10.0.0.8"]
    connections = [tee.connection((host, 50_000), ("10.0.0.9", 9092), T0) for host in hosts]
    written, packets, size = b"", 0, 0
    for number in range(600):
        if number == 300:
            connections[0].reset(0, T0)
            connections[0] = tee.connection((hosts[0], 50_001), ("10.0.0.9", 9092), T0)
        comment = "noted" if rng.random() < 0.02 else ""
        data = rng.randbytes(rng.choice(SIZES[: 15 if number % 50 else None]))
        rng.choice(connections).data(rng.randrange(2), data, T0 + number * MS, comment)
        if number % 150 == 149:
            while receiver.waiting:
                begin, end = receiver.available()
                receiver.take(maker.read(begin, end, 1 << 17))
                written += b"".join(maker.buffers)
                packets, size = packets + maker.packets, size + maker.payload
                maker.written()
    assert not tee.dropped_bytes
    return written, packets, size


@pytest.mark.parametrize("seed", range(3))
def test_messages_together_and_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    singly = made(NEVER, seed, monkeypatch)
    assert made(2, seed, monkeypatch) == singly
    assert made(7, seed, monkeypatch) == singly
