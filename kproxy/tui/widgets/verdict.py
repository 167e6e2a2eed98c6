"""The verdict on a text that is being typed, and its message on the line below."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from captures.filters import FilterError
from dissectors.printable import is_printable, printable
from kproxy.text.cells import cut, width


class Validity(Enum):
    """The validity of a text; the value is its sign."""

    EMPTY = " "
    VALID = "✓"
    INCOMPLETE = "…"
    INVALID = "✗"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a text.

    :ivar text: the text
    :ivar message: one line
    :ivar position: index of the first wrong character
    :ivar length: number of wrong characters, 0 if something is missing
    :ivar value: parsed value of the text; None if there is none
    """

    text: str
    validity: Validity
    message: str = ""
    position: int = 0
    length: int = 0
    value: Any = None

    @property
    def usable(self) -> bool:
        """Whether the text can be submitted."""
        return self.validity in (Validity.EMPTY, Validity.VALID)


def objection(error: FilterError, text: str, *, offset: int = 0) -> Verdict:
    """Return the verdict on an invalid text.

    Text that is missing at the end or not closed is not an error while typing.

    :param offset: start of the part of the text that the error refers to
    """
    unfinished = error.position >= len(error.text) or bool(error.expected) or "never closed" in error.message
    message = f"{error.message} ({error.hint})" if error.hint else error.message
    validity = Validity.INCOMPLETE if unfinished else Validity.INVALID
    return Verdict(text, validity, message, error.position + offset, error.length)


def harmless(text: str) -> str:
    """Return a text escaped for display while it is typed, with one character for each of its own."""
    return text if is_printable(text) else "".join(map(printable, text))


def verdict_text(verdict: Verdict, at: int, room: int) -> str:
    """Return the line below the text: the message, and carets if both fit.

    :param at: column of the first character of the text; negative if that is scrolled away
    :param room: available columns
    """
    message = printable(verdict.message)
    if verdict.usable:
        return cut(f"{' ' * max(at, 0)}{message}", room)
    begin = at + width(harmless(verdict.text[: verdict.position]))
    carets = "^" * max(width(harmless(verdict.text[verdict.position :][: verdict.length])), 1)
    end = begin + len(carets)
    if begin >= 0 and end + 1 + width(message) <= room:
        return f"{' ' * begin}{carets} {message}"
    if width(message) + 1 <= begin and end <= room:
        return f"{' ' * (begin - 1 - width(message))}{message} {carets}"
    return cut(message, room)
