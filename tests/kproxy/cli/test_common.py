"""Common parts of commands: the progress of long operations."""

from __future__ import annotations

import io
import sys

import pytest

from kproxy.cli import common


class Terminal(io.StringIO):
    """Standard error as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "total", "shown"), [(True, 30_000, True), (True, 10, False), (False, 30_000, False)]
)
def test_progress_is_for_people_and_long_work(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, total: int, shown: bool
) -> None:
    written = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    items = range(1, total + 1, 2)  # those that match a filter
    assert list(common.with_progress(items, lambda item: item, total, "adding up")) == list(items)
    assert ("adding up" in written.getvalue()) == shown
    assert ("100%" in written.getvalue()) == shown


def test_who_has_seen_enough_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    made = iter(range(100_000))
    progress = common.with_progress(made, lambda item: item + 1, 100_000, "decoding")
    assert [next(progress) for _ in range(3)] == [0, 1, 2]
    progress.close()
    assert next(made) == 3
