"""History of typed lines, kept from one run to the next.

Each kind of line has its own file under ``$XDG_STATE_HOME/kproxy/history``: one JSON string per line, the latest last,
bounded, without duplicates, readable only by its owner. A history is a convenience: if its file cannot be read or
written, nothing is kept and no error is shown.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from kproxy.export_files import write_private
from kproxy.saved_choices import state_directory

MOST_ENTRIES = 500
LONGEST_ENTRY = 10_000
"""Characters; longer texts were pasted, and are not worth keeping."""

_LARGEST_FILE = 4 << 20

_log = logging.getLogger(__name__)


class History:
    """Typed texts, the latest last.

    :param name: file name, without characters that are special in paths
    :param directory: folder of the file; ``history`` under :func:`state_directory` if None
    """

    def __init__(self, name: str, directory: Path | None = None) -> None:
        self._name = name
        self._directory = directory
        self.entries: Sequence[str] = []
        """What is known so far: what :meth:`load` found, and what was added."""
        self._added: list[str] = []

    def load(self) -> None:
        """Read the history of earlier runs. Reads a file, so do not call it in the event loop."""
        self.entries = _latest([*self._read(), *self._added])

    def add(self, text: str) -> None:
        """Append a text unless it is blank or too long. :meth:`save` writes it."""
        if text.strip() and len(text) <= LONGEST_ENTRY:
            self.entries = _latest([*self.entries, text])
            self._added = _latest([*self._added, text])

    def save(self) -> None:
        """Write the added texts after those saved by others meanwhile. As :meth:`load`, not for the event loop."""
        entries = _latest([*self._read(), *self._added])
        try:
            path = self._path()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, "".join(f"{json.dumps(entry)}\n" for entry in entries).encode("ascii"))
        except (OSError, RuntimeError) as error:
            _log.debug("the history of %s is not kept: %s", self._name, error)

    def _path(self) -> Path:
        return (self._directory or state_directory() / "history") / self._name

    def _read(self) -> list[str]:
        try:
            with self._path().open("rb") as file:
                lines = file.read(_LARGEST_FILE).splitlines()
        except FileNotFoundError:
            return []
        except (OSError, RuntimeError) as error:  # pathlib raises RuntimeError if there is no home
            _log.debug("the history of %s cannot be read: %s", self._name, error)
            return []
        return [text for line in lines if (text := _decoded(line))]


def _decoded(line: bytes) -> str:
    """Return the text of a line of the file, empty if the line is invalid."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) and found.strip() and len(found) <= LONGEST_ENTRY else ""


def _latest(entries: Iterable[str]) -> list[str]:
    """Return the latest entries, each once, at its last place."""
    newest_first = dict.fromkeys(reversed(list(entries)))
    return list(newest_first)[:MOST_ENTRIES][::-1]


class HistoryCursor:
    """One walk through a history, back from the current text and forward to it again.

    A walk ends when something is typed: create a new one.

    :param entries: the latest last
    :param present: the current text of the line
    :param beginning: only entries that start with it are visited
    """

    def __init__(self, entries: Sequence[str], present: str, beginning: str = "") -> None:
        self._met = [entry for entry in entries if entry.startswith(beginning) and entry != present]
        self._present = present
        self._at = len(self._met)

    def older(self) -> str | None:
        """Return the previous entry, None if there is none."""
        if self._at == 0:
            return None
        self._at -= 1
        return self._met[self._at]

    def newer(self) -> str | None:
        """Return the next entry; after the last, the original text of the line; after that None."""
        if self._at == len(self._met):
            return None
        self._at += 1
        return self._present if self._at == len(self._met) else self._met[self._at]
