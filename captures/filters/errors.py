"""The only error of the filter language: what is wrong, and at which character."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

_SUGGESTIONS = 3
_LONGEST_GUESS = 80


class FilterError(ValueError):
    """An invalid filter.

    :ivar message: what is wrong, in one line
    :ivar text: the whole filter
    :ivar position: 0-based index of the first wrong character; ``len(text)`` if something is missing at the end
    :ivar length: number of wrong characters, 0 if something is missing
    :ivar hint: what to write instead, or empty
    :ivar expected: what is expected where the text ends too early: ``term``, ``operator``, ``value``, ``list``
        or empty; for completion
    :ivar field: name of the field whose operator or value is expected, or empty
    """

    def __init__(
        self,
        message: str,
        text: str,
        position: int,
        length: int = 0,
        hint: str = "",
        *,
        expected: str = "",
        field: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.position = position
        self.length = length
        self.hint = hint
        self.expected = expected
        self.field = field

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.message} at character {self.position + 1}{hint}"

    def render(self) -> str:
        """Return the error for a terminal: the message, the line, and carets under the wrong characters."""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        line = self.text[start : len(self.text) if end < 0 else end]
        at = self.position - start
        marked = line[at : at + self.length]
        carets = "^" * max(_columns(marked), 1)
        shown = "".join(" " if unicodedata.category(char) == "Cc" else char for char in line)
        lines = [self.message, f"  {shown}", f"  {' ' * _columns(line[:at])}{carets}"]
        if self.hint:
            lines.append(f"  {self.hint}")
        return "\n".join(lines)


def _columns(text: str) -> int:
    """Return the number of terminal columns that the text occupies."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """Return a hint with the names that were probably meant, or an empty one."""
    by_lower = {name.lower(): name for name in known}
    wanted = written[:_LONGEST_GUESS].lower()
    found = difflib.get_close_matches(wanted, by_lower, _SUGGESTIONS, 0.6)
    if not found and len(wanted) >= 2:
        found = [name for name in by_lower if wanted in name][:_SUGGESTIONS]
    return f"did you mean {' or '.join(by_lower[name] for name in found)}?" if found else ""
