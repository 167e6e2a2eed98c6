"""Files that the UI writes: to this machine, or, if the UI is on a page in a browser, to the user's machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App

from kproxy.tui import file_names


def problem_of(app: App[Any], name: str) -> str:
    """Return what is wrong with the name of a file to be written, empty if nothing is."""
    if not app.is_web:
        return file_names.problem_of(name)
    good = name.strip() and "/" not in name and name.isprintable()
    return "" if good else "type a name without folders: the browser knows where downloads go"


def completions(app: App[Any], name: str) -> Sequence[str]:
    """Return what a name may go on as: files and folders of this machine, which a browser is told nothing of."""
    return () if app.is_web else file_names.completions(name)


@contextmanager
def written_for_user(app: App[Any], path: Path) -> Iterator[Path]:
    """Yield the path to write a file to; in a browser it is downloaded then, under the name that it was to have."""
    if not app.is_web:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="kproxy-") as folder:
        made = Path(folder) / path.name
        yield made
        app.deliver_binary(made.open("rb"), save_filename=path.name)  # read after its name is gone
