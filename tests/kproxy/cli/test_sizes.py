from __future__ import annotations

import click
import pytest

from kproxy.cli.sizes import LEAST_SPOOL, Size


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 500_000_000), ("8GiB", 8 << 30), ("1.5kB", 1500), ("64mib", 64 << 20)]
)
def test_sizes_are_read_with_their_units(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is no size"),
        ("lots", "is no size"),
        ("500", "500MB or 8GiB"),
        ("63MiB", "too little: 64MiB at least"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, error: str) -> None:
    with pytest.raises(click.BadParameter, match=error):
        Size(LEAST_SPOOL).convert(text, None, None)
