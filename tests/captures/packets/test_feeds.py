"""Byte sources: waiting for pipes, and stopping them."""

from __future__ import annotations

import os

import pytest

from captures.packets import feeds
from captures.packets.feeds import PipeFeed, StopSignal


def test_a_pipe_gathers_what_comes_close_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "GATHER", 60)
    reader, writer = os.pipe()
    stop = StopSignal()
    os.write(writer, b"one")
    os.write(writer, b"two")
    os.close(writer)
    feed = PipeFeed(reader, stop)
    assert feed.read(4) == b"onet"
    assert feed.read(4) == b"wo"
    assert feed.read(4) == b""
    stop.close()
    os.close(reader)


def test_a_stop_ends_waiting_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "GRACE", 0.01)
    reader, writer = os.pipe()
    stop = StopSignal()
    stop.request()
    stop.request()
    stop.sleep(60)
    feed = PipeFeed(reader, stop)
    assert feed.read(4) == feed.read(4) == b""
    stop.close()
    os.close(reader)
    os.close(writer)
