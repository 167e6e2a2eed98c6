"""Characters to tokens.

The meaning of a character depends on its place: ``~`` opens a short form where a term starts and is the match
operator after a field; ``-`` and ``:`` occur only inside values. So there is one function for each place,
and the parser calls the one it needs.
"""

from __future__ import annotations

import re

import msgspec

from captures.filters.errors import FilterError

SPACE = re.compile(r"\s*")
NAME = re.compile(r"[^\W\d][\w-]*(?:\[[0-9]{1,9}\])?(?:\.(?:[^\W\d][\w-]*)(?:\[[0-9]{1,9}\])?)*")
SHORT = re.compile(r"~[A-Za-z]+(?![\w.])")
SELECTOR = re.compile(r"@[\w,-]*")
OPERATOR = re.compile(r"==|!=|<=|>=|!~|<|>|~")
# && and || end a value even without a space before them; a single | is common in regular expressions
BARE = re.compile(r"(?:(?!&&|\|\|)[^\s(){},\"'])+")
WORD = re.compile(r"[A-Za-z]+(?![\w.\[-])")
AND = re.compile(r"&&?|and(?![\w.\[-])", re.IGNORECASE)
OR = re.compile(r"\|\|?|or(?![\w.\[-])", re.IGNORECASE)
NOT = re.compile(r"!(?!=)|not(?![\w.\[-])", re.IGNORECASE)
# tokens that may follow a condition without "and" between them
JOINED = re.compile(r"!?\s*~[A-Za-z]+(?![\w.])|@")
# a text alone: not a number, which could mean anything; a dot or a bracket after a name belongs to a field
PLAIN = re.compile(r"(?![0-9]+(?![\w.:/+*-]))\w[\w.:/+*-]*(?=$|[\s()&|])")
QUOTES = "\"'"


class Token(msgspec.Struct, frozen=True):
    """A piece of the filter.

    :ivar kind: ``name``, ``short``, ``selector``, ``operator``, ``word``, ``string``, ``bare``, or the sign itself
    :ivar text: as written; of a string, the text between the quotes
    """

    kind: str
    text: str
    position: int
    length: int


class Scanner:
    """Reads one filter from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self) -> int:
        """Advance to the next character that is not white space; return its position."""
        self.at = self._space(self.at)
        return self.at

    def _space(self, at: int) -> int:
        found = SPACE.match(self.text, at)
        assert found is not None
        return found.end()

    def ended(self) -> bool:
        return self.skip() == len(self.text)

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return the match of `pattern` here, without taking it."""
        return pattern.match(self.text, self.skip())

    def take(self, pattern: re.Pattern[str], kind: str) -> Token | None:
        """Take the match of `pattern` here, if there is one."""
        found = self.peek(pattern)
        if found is None:
            return None
        self.at = found.end()
        return Token(kind, found[0], found.start(), found.end() - found.start())

    def sign(self, characters: str) -> Token | None:
        """Take one of these characters."""
        at = self.skip()
        if at < len(self.text) and self.text[at] in characters:
            self.at = at + 1
            return Token(self.text[at], self.text[at], at, 1)
        return None

    def value(self) -> Token | None:
        """Take a value: a quoted string, or a run of characters without space, quotes, commas and brackets."""
        at = self.skip()
        if at < len(self.text) and self.text[at] in QUOTES:
            return self._string(at)
        return self.take(BARE, "bare")

    def _string(self, at: int) -> Token:
        quote, end = self.text[at], at + 1
        while end < len(self.text):
            if self.text[end] == quote:
                self.at = end + 1
                return Token("string", self.text[at + 1 : end], at, end + 1 - at)
            # a backslash keeps the next character from ending the string
            end += 2 if self.text[end] == "\\" else 1
        raise FilterError(
            "this quote is never closed", self.text, at, 1, f"add {quote} at the end of the text"
        )

    def here(self) -> tuple[int, int]:
        """Return position and length of the token here, for an error about it."""
        at = self.skip()
        if at == len(self.text):
            return at, 0
        for pattern in (NAME, OPERATOR, BARE):
            found = pattern.match(self.text, at)
            if found:
                return at, found.end() - at
        return at, 1


def unescape(raw: str) -> str:
    """Return the content of a quoted string: a backslash before a quote or a backslash is dropped, others stay."""
    return re.sub(r"\\([\\\"'])", r"\1", raw)


def unescape_regex(raw: str) -> str:
    """Return a quoted regular expression: a backslash before a quote is dropped, all others belong to it."""
    return re.sub(r"\\(.)", lambda found: found[1] if found[1] in QUOTES else found[0], raw, flags=re.DOTALL)


def quoted(text: str) -> str:
    """Return a value as it is written in a filter: bare if possible."""
    if re.fullmatch(r"[\w.:/+-]+", text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
