"""Fixtures for coloured text; the colour setting of a command is reset after each test."""

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
    """Enable colours."""
    use_color("always")
