"""Colours, for tests of text that has them; what a command chose is forgotten after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kproxy.output import use_color


@pytest.fixture(autouse=True)
def _forget_colors() -> Iterator[None]:
    yield
    use_color("never")


@pytest.fixture
def colors() -> None:
    """Have texts coloured."""
    use_color("always")
