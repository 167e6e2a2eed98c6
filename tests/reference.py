"""The reference folder: recorded traffic too big for the project.

A fresh clone has none, and the tests that need it are skipped with a message. Its path is in the environment variable
``KPROXY_REFERENCE``, or else it is the folder ``shared`` beside the project. Only tests may use it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_PROJECT = Path(__file__).resolve().parent.parent
_MARK = Path("protocol/INDEX.md")


def _find() -> Path | None:
    """Return the reference folder, or None.

    :raises FileNotFoundError: if KPROXY_REFERENCE is not a reference folder; a mistyped path must not go unnoticed
    """
    named = os.environ.get("KPROXY_REFERENCE")
    if named:
        folder = Path(named).expanduser().resolve()
        if not (folder / _MARK).is_file():
            raise FileNotFoundError(f"KPROXY_REFERENCE={named} has no {_MARK}")
        return folder
    folder = _PROJECT.parent / "shared"
    return folder if (folder / _MARK).is_file() else None


REFERENCE: Path | None = _find()

needs_reference = pytest.mark.skipif(
    REFERENCE is None,
    reason="needs the reference folder with protocol/INDEX.md: set KPROXY_REFERENCE or put it at ../shared",
)


def reference_path(*parts: str) -> Path:
    """Return a path in the reference folder; only for tests marked with `needs_reference`."""
    if REFERENCE is None:
        raise RuntimeError("mark this test with needs_reference")
    return REFERENCE.joinpath(*parts)


def captures_dir() -> Path:
    """Return the folder with recorded traffic."""
    return reference_path("captures")
