"""Files that commands write: never half written, never one of the captures, and over another only if asked to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click


def refuse_to_overwrite(output: str, captures: Iterable[str], *, force: bool) -> None:
    """Check that a file may be written.

    :param output: its path, ``-`` for standard output
    :param captures: files, folders and patterns that are read, which are never overwritten
    :param force: whether another file may be
    :raises click.UsageError: if it may not
    """
    from captures.packets.files import STANDARD_INPUT, expanded
    from captures.packets.remote import is_remote

    out = Path(output)
    if output == "-" or not out.exists():
        return
    here = (path for path in captures if not is_remote(path))
    read = (name for path in here for name in expanded(path) if name != STANDARD_INPUT)
    if any(Path(name).exists() and out.samefile(name) for name in read):
        raise click.UsageError(f"{output} is one of the captures")
    if not force and out.is_file():
        raise click.UsageError(f"{output} exists; --force overwrites it")
