"""Arguments of actions and options in a rule: pieces of its text, parsed as durations, sizes and numbers.

Durations and sizes are also formatted here, so that parsing the text gives the same number again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from captures.filters import FilterError, values

_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[,()\[\]{}]')
_DURATIONS = (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_SIZES = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1))


@dataclass(frozen=True, slots=True)
class Argument:
    """A piece of a rule, without surrounding white space.

    :ivar rule: the whole rule, for errors
    :ivar position: of the piece in the rule
    """

    rule: str
    text: str
    position: int = 0

    def part(self, begin: int, end: int | None = None) -> Argument:
        """Return the piece between two offsets of this one."""
        text = self.text[begin:end]
        return Argument(self.rule, text.strip(), self.position + begin + len(text) - len(text.lstrip()))

    def split(self) -> list[Argument]:
        """Return the pieces between commas, except commas within parentheses, brackets or JSON strings."""
        pieces, depth, begin = [], 0, 0
        for found in _MARKS.finditer(self.text + ","):
            mark, at = found[0], found.start()
            depth += (mark in "([{") - (mark in ")]}")
            if mark == "," and (depth <= 0 or at == len(self.text)):
                pieces.append(self.part(begin, at))
                begin = at + 1
        return pieces

    def error(self, message: str, hint: str = "") -> FilterError:
        """Return an error that points at this piece."""
        return FilterError(message, self.rule, self.position, len(self.text), hint)

    def duration(self) -> int:
        """Return a duration in ns, 0 or more.

        :raises FilterError: if the piece is not a duration
        """
        found = values.duration(self.text)
        number = values.number(self.text)
        if found is None and number == 0:
            return 0
        if found is None and number is not None:
            raise self.error(f"{self.text} of what?", f"write a unit: {self.text}ms, {self.text}s")
        if found is None or found < 0:
            raise self.error(f"{self.text!r} is not a duration", "such as 250us, 100ms, 1.5s, 2m30s")
        return int(found)

    def byte_count(self, what: str) -> int:
        """Return a number of bytes, 0 or more.

        :param what: the meaning of the number, for the error
        :raises FilterError: if the piece is not a number of bytes
        """
        number = values.number(self.text)
        found = values.size(self.text) if number is None else number
        if found is None or found < 0 or found.denominator != 1:
            raise self.error(f"{what}: {self.text!r} is not a number of bytes", "such as 100, 4kB")
        return int(found)


def duration_text(ns: int) -> str:
    """Return a duration as rules write it: ``200ms``, ``1m30s``."""
    parts, left = [], ns
    for unit, size in _DURATIONS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0ms"


def bytes_text(count: int) -> str:
    """Return a size in the largest unit that divides it: ``100kB``, ``1500B``."""
    unit, size = next((unit, size) for unit, size in _SIZES if not count % size)
    return f"{count // size}{unit}"
