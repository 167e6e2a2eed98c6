"""Notices to the user while a command runs, from any thread: on standard error, or in the UI while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kproxy.printing import echo

_tell: Callable[[str], None] | None = None


def notice(text: str) -> None:
    """Tell the user something."""
    if _tell is not None:
        _tell(text)
    else:
        echo(f"kproxy: {text}", err=True)


@contextmanager
def told_to(tell: Callable[[str], None]) -> Iterator[None]:
    """Redirect notices meanwhile to the owner of the terminal."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before
