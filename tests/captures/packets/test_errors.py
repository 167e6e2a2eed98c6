"""Errors of captures, on their way between processes."""

from __future__ import annotations

import pickle

import pytest

from captures.packets.errors import CaptureError, FileGone, NotACapture, SpoolDropped


@pytest.mark.parametrize(
    "error",
    [
        CaptureError("a.pcap", 7, "no such thing"),
        NotACapture("b.txt", 0, "this is no capture"),
        SpoolDropped("c.pcap", 9),
        FileGone("d.pcap", "No such file or directory"),
    ],
)
def test_errors_go_to_other_processes_as_they_are(error: CaptureError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert (other.path, other.offset, other.reason) == (error.path, error.offset, error.reason)
