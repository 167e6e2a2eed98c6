"""The screen as an SVG file."""

from __future__ import annotations

import asyncio
import errno
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

from textual.app import App

from kproxy.export_files import replacing
from kproxy.tui.download import problem_of, written_for_user


async def save_screenshot(app: App[Any], name: str = "") -> Path:
    """Write what the screen shows to a file; return its path.

    :param name: of the file, which is replaced if it is there; without one a new name is made, with the time
    :raises OSError: if it cannot be written
    """
    problem = problem_of(app, name) if name else ""
    if problem:
        raise OSError(errno.EINVAL, problem, name)
    svg = app.export_screenshot(title=app.title)

    def write() -> Path:
        path = Path(name).expanduser() if name else _new_name()
        with written_for_user(app, path) as made, replacing(str(made)) as file:
            file.write(svg.encode())
        return path

    return await asyncio.to_thread(write)


def _new_name() -> Path:
    stem = f"kproxy-{datetime.now():%Y%m%d-%H%M%S}"
    names = (Path(f"{stem}{f'-{number}' if number else ''}.svg") for number in count())
    return next(name for name in names if not name.exists())
