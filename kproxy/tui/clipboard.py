"""The clipboard: the terminal's by OSC 52, and the desktop's by a program if one is installed.

OSC 52 is an escape sequence that contains the text in base64. It works over SSH, but no terminal reports whether it
supports it, and many accept at most 100,000 bytes. tmux drops the sequence unless ``set-clipboard`` is ``on``, so
within tmux the text is handed to tmux itself, which passes it on as configured.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from textual.app import App

from captures.meaning import words

OSC52_BYTES = 74_994
"""Bytes of text in a sequence of 100,000 bytes: 8 frame it, the rest is base64."""

_SECONDS = 3.0

_PROGRAMS: tuple[tuple[str, Sequence[str]], ...] = (
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
)
"""Environment variables that a program needs to reach a clipboard, and the programs."""


@dataclass(frozen=True, slots=True)
class CopyResult:
    """The result of copying a text.

    :ivar done: whether any clipboard received it
    :ivar message: the result, in words
    """

    done: bool
    message: str


async def copy(app: App[Any], text: str, environment: Mapping[str, str] = os.environ) -> CopyResult:
    """Copy text to every available clipboard.

    :param environment: variables of the process
    """
    data = text.encode()
    own = () if app.is_web else _programs(environment)  # in a browser, not the clipboards of the server
    programs = [name for name, command in own if await _took(command, data)]
    short = len(data) <= OSC52_BYTES
    if short:
        app.copy_to_clipboard(text)
    size = words.size(len(data))
    if programs:
        return CopyResult(True, f"{size} copied ({', '.join(programs)})")
    if not short:
        most = words.size(OSC52_BYTES)
        return CopyResult(False, f"{size} are too much for the clipboard of a terminal, which takes {most}")
    doubt = " (GNU screen does not pass it on)" if "STY" in environment else ""
    return CopyResult(True, f"{size} sent to the clipboard of the terminal{doubt}")


def _programs(environment: Mapping[str, str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield tmux and the first available desktop program, as name and command line."""
    desktop = False
    for variable, command in _PROGRAMS:
        is_tmux = variable == "TMUX"
        if (variable and not environment.get(variable)) or (desktop and not is_tmux):
            continue
        program = shutil.which(command[0], path=environment.get("PATH"))
        if program is not None:
            desktop = desktop or not is_tmux
            yield command[0], (program, *command[1:])


async def _took(command: Sequence[str], data: bytes) -> bool:
    """Pipe `data` to a program; return whether it succeeded. A process that it leaves running holds the text."""
    silent = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=silent, stderr=silent
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(_SECONDS):
            await process.communicate(data)
    except (TimeoutError, OSError):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return False
    return process.returncode == 0
