"""Files that commands write: never half written, never one of the captures, and over another only if asked to."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

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


@contextmanager
def replacing(output: str) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``output`` when all went well; nothing is left of it otherwise."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not path.is_file():  # a pipe, /dev/null
        with path.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.umask(mask := os.umask(0))  # the only way to ask for it
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def as_text(file: BinaryIO) -> Iterator[TextIOWrapper]:
    """Write UTF-8 text to a binary file that stays open; line ends stay as they are."""
    text = TextIOWrapper(file, "utf-8", newline="")
    try:
        yield text
    finally:
        text.flush()
        text.detach()
