"""What commands tell their user while they run, from any thread: on standard error, or in the UI while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kproxy.cli.printing import echo

_tell: Callable[[str], None] | None = None


def notice(text: str) -> None:
    """Tell the user something."""
    if _tell is not None:
        _tell(text)
    else:
        echo(f"kproxy: {text}", err=True)


@contextmanager
def told_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Have notices told to something else meanwhile; the terminal belongs to it."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before
