from __future__ import annotations

import click
import pytest

from kproxy.cli.options import LEAST_SPOOL, size_type


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("8GiB", 8 << 30), ("1.5kB", 1500), ("64mib", 64 << 20)]
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert size_type(1).convert(text, None, None) == size


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is not a size"),
        ("lots", "is not a size"),
        ("500", "500MB or 8GiB"),
        ("63MiB", "too small: use at least 64MiB"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, error: str) -> None:
    with pytest.raises(click.BadParameter, match=error):
        size_type(LEAST_SPOOL).convert(text, None, None)
