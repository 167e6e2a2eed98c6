"""What there is to say of a text that is being typed, and how it is told in one line below it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from captures.filters import FilterError
from dissectors.printable import is_printable, printable
from kproxy.text.cells import cut, width


class Validity(Enum):
    """How far a text makes sense; the value is the sign for it."""

    EMPTY = " "
    VALID = "✓"
    INCOMPLETE = "…"
    INVALID = "✗"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say of a text.

    :ivar text: the text
    :ivar message: one line for people
    :ivar position: index of the first character that is wrong
    :ivar length: how many are, 0 for something missing
    :ivar value: what the text means; None if it means nothing
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
    """Return the verdict on a text that makes no sense.

    What is missing at the end, or not closed yet, is no mistake while one is still typing.

    :param offset: where the part of the text begins that the error is about
    """
    unfinished = error.position >= len(error.text) or bool(error.expected) or "never closed" in error.message
    message = f"{error.message} ({error.hint})" if error.hint else error.message
    validity = Validity.INCOMPLETE if unfinished else Validity.INVALID
    return Verdict(text, validity, message, error.position + offset, error.length)


def harmless(text: str) -> str:
    """Return a text as it is shown while it is typed: cleaned, with a character for each of its own."""
    return text if is_printable(text) else "".join(map(printable, text))


def told(verdict: Verdict, at: int, room: int) -> str:
    """Return the line below the typed one: the message, and carets where there is room for both.

    :param at: column under the first character of the text; less than 0 if that is scrolled away
    :param room: columns
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
