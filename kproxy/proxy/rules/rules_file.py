"""A file of fault rules, one per line, that is reloaded when it has changed.

Empty lines, and lines that begin with ``#``, are ignored. The file is applied as a whole: if one line is wrong, the
previous rules stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.proxy.rules.engine import Rules

_MOST_BYTES = 1 << 20


class RulesFileError(ValueError):
    """A file of rules cannot be used; the message says which line is wrong."""


class RulesFile:
    """A file of rules, and the numbers of the rules that came from it.

    :param force: its rules may match everything, and last for ever
    """

    def __init__(self, path: Path, *, force: bool = False) -> None:
        self._path = path
        self._force = force
        self._seen: tuple[int, ...] | None = None
        self._numbers: list[int] = []

    def has_changed(self) -> bool:
        """Return whether the file has changed since the last call."""
        try:
            found = self._path.stat()
            state: tuple[int, ...] = (found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            state = ()
        before, self._seen = self._seen, state
        return state != before

    def apply(self, rules: Rules) -> int:
        """Replace the file's previous rules with its current ones; return how many there are.

        A rule whose line is unchanged keeps its number, its count and its time.

        :raises RulesFileError: if the file cannot be read, or one of its rules cannot be added; then nothing has
            changed
        """
        lines = self._lines()
        for at, text in lines:
            self._check(rules, at, text)
        try:
            self._numbers = rules.replace(self._numbers, [text for _, text in lines], force=self._force)
        except ValueError as error:
            raise RulesFileError(f"{self._path}: {error}") from None
        return len(lines)

    def _check(self, rules: Rules, at: int, text: str) -> None:
        try:
            rules.check(text, force=self._force)
        except ValueError as error:
            render = getattr(error, "render", None)
            problem = str(error) if render is None else render()
            raise RulesFileError(f"{self._path}, line {at}: {problem}") from None

    def _lines(self) -> list[tuple[int, str]]:
        try:
            with self._path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
            text = data.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise RulesFileError(f"{self._path}: {getattr(error, 'strerror', None) or error}") from None
        if len(data) > _MOST_BYTES:
            raise RulesFileError(f"{self._path}: a file of rules has at most {_MOST_BYTES:,} bytes")
        numbered = ((at, line.strip()) for at, line in enumerate(text.splitlines(), 1))
        return [(at, line) for at, line in numbered if line and not line.startswith("#")]
