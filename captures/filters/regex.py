"""Users' regular expressions, on an engine with time linear in its input: Google's RE2.

Python's ``re`` backtracks: ``^(a+)+$`` takes twice as long for each further letter of a text that does not match, and
the texts come from any client that can connect. Every pattern of a user that meets untrusted text is compiled here, and
nowhere else; ``re`` is for kproxy's own patterns.

RE2 has no lookaround, backreferences, atomic groups or possessive quantifiers, which cannot be matched in linear
time. ``\\d``, ``\\w``, ``\\s`` and ``\\b`` mean ASCII (https://github.com/google/re2/wiki/Syntax).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

MOST_LETTERS = 10_000
"""Maximum length of a pattern."""
MOST_INSTRUCTIONS = 10_000
"""Maximum size of a compiled pattern. Without its automaton, RE2 takes that many steps for each byte of text."""
_MEMORY = 8 << 20
"""Memory limit in bytes of a compiled pattern with its automaton, RE2's default."""

_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]?|.", re.DOTALL)
"""An escape or a character class, where parentheses are literal, or any other character."""

_GROUPS = (
    ("(?=", "lookahead is"),
    ("(?!", "lookahead is"),
    ("(?<=", "lookbehind is"),
    ("(?<!", "lookbehind is"),
    ("(?P=", "backreferences are"),
    ("(?>", "atomic groups are"),
    ("(?(", "conditions are"),
    ("(?#", "comments are"),
)
"""Constructs of Python's engine that RE2 lacks, by their start."""
_ESCAPES = {
    "\\Z": "write \\z for the end of the text",
    "\\u": "write \\x{...} for a character by its number",
    "\\U": "write \\x{...} for a character by its number",
    "\\N": "write the character itself",
}


_LINEAR = "kproxy matches in linear time"


class RegexError(ValueError):
    """A text that is not a regular expression, or needs features that cannot be matched in linear time.

    :ivar position: 0-based index of the wrong character
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


Span = tuple[int, int]
"""A match: the index of its first letter or byte, and the index after it."""

_Search = Callable[[bytes, int, int], list[Span]]
"""Called with bytes, start and end index; returns the spans of groups, :data:`_NOWHERE` first if there is no match."""
_NOWHERE = (-1, -1)


class TextRegex:
    """A pattern for texts. A dot is any character, including a line break.

    :param any_case: whether matching ignores case, unless the pattern says otherwise
    :raises RegexError: if the pattern is invalid
    """

    __slots__ = ("_search",)

    def __init__(self, pattern: str, *, any_case: bool = True) -> None:
        self._search = _compiled(pattern, any_case=any_case, single_bytes=False)

    def found(self, text: str) -> bool:
        """Return whether it matches anywhere."""
        data = text.encode("utf-8", "surrogatepass")
        return self._search(data, 0, len(data))[0] != _NOWHERE

    def span(self, text: str) -> Span | None:
        """Return the first match, None if there is none."""
        data = text.encode("utf-8", "surrogatepass")
        begin, end = self._search(data, 0, len(data))[0]
        if begin < 0:
            return None
        at = len(data[:begin].decode("utf-8", "surrogatepass"))
        return at, at + len(data[begin:end].decode("utf-8", "surrogatepass"))


class BytesRegex:
    """A pattern for bytes: a dot is any byte.

    A pattern with characters beyond ASCII means text, however, and its dot a UTF-8 character.

    :param any_case: whether matching ignores case, unless the pattern says otherwise
    :raises RegexError: if the pattern is invalid
    """

    __slots__ = ("_search",)

    def __init__(self, pattern: str, *, any_case: bool = True) -> None:
        self._search = _compiled(pattern, any_case=any_case, single_bytes=pattern.isascii())

    def found(self, data: bytes) -> bool:
        """Return whether it matches anywhere."""
        return self._search(data, 0, len(data))[0] != _NOWHERE

    def span(self, data: bytes, at: int = 0) -> Span | None:
        """Return the first match from index `at` on, None if there is none."""
        found = self._search(data, at, len(data))[0]
        return None if found == _NOWHERE else found

    def spans(self, data: bytes) -> Iterator[Span]:
        """Yield all matches, one after another."""
        at = 0
        while at <= len(data) and (found := self.span(data, at)) is not None:
            yield found
            at = found[1] if found[1] > found[0] else found[1] + 1


def _compiled(pattern: str, *, any_case: bool, single_bytes: bool) -> _Search:
    """Return a function that searches bytes for a pattern.

    :param single_bytes: each byte is a character, not UTF-8
    """
    # RE2's own object: its wrapper, modelled on Python's module, takes six times as long for a short text
    from re2 import Options, _re2

    if len(pattern) > MOST_LETTERS:
        reason = f"a pattern has at most {MOST_LETTERS:,} characters"
        raise RegexError(reason, MOST_LETTERS)
    options = Options()
    options.case_sensitive = not any_case
    options.dot_nl = True
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MEMORY
    if single_bytes:
        options.encoding = Options.Encoding.LATIN1
    compiled = _re2.RE2(pattern.encode("utf-8", "surrogatepass"), options)
    if not compiled.ok():
        raise _error(pattern, compiled.error().decode("utf-8", "replace"))
    if compiled.ProgramSize() > MOST_INSTRUCTIONS:
        raise RegexError("it repeats too much: the compiled pattern is too large", 0)
    return partial(compiled.Match, _re2.RE2.Anchor.UNANCHORED)


# ---------------------------------------------------------------- errors in patterns
def _error(pattern: str, message: str) -> RegexError:
    """Return the error for RE2's message: a reason and, after a colon, the part of the pattern in question."""
    reason, _, part = message.partition(": ")
    position = max(pattern.find(part), 0)
    match reason:
        case "missing )":
            return RegexError("this parenthesis is never closed", _unclosed(pattern))
        case "unexpected )":
            return RegexError("this parenthesis closes nothing", _unclosed(pattern))
        case "missing ]":
            return RegexError("this bracket is never closed", position)
        case "invalid perl operator":
            group = pattern[position : position + 4]
            named = next((name for sign, name in _GROUPS if group.startswith(sign)), f"{part} is")
            return RegexError(f"{named} not supported: {_LINEAR}", position)
        case "invalid escape sequence":
            return RegexError(_escape(part), position)
        case "bad repetition operator" if part in ("*+", "++", "?+"):
            return RegexError(f"possessive repetition is not supported: {_LINEAR}", position)
        case "no argument for repetition operator":
            found = re.search(r"(?:^|[(|^])(?=" + re.escape(part) + ")", pattern)
            return RegexError(f"there is nothing before {part} to repeat", found.end() if found else position)
        case "pattern too large - compile failed":
            return RegexError("it repeats too much: the compiled pattern is too large", 0)
        case _:
            return RegexError(f"{reason} {part}".rstrip(), position)


def _escape(part: str) -> str:
    if part[1:2].isdecimal():
        return f"backreferences are not supported ({part}): {_LINEAR}"
    instead = _ESCAPES.get(part[:2], "use a backslash only before letters with a special meaning")
    return f"{part} is not supported: {instead}"


def _unclosed(pattern: str) -> int:
    """Return the index of the first closing parenthesis that has no opening one, or the last one never closed."""
    opened: list[int] = []
    for part in _PARTS.finditer(pattern):
        if part[0] == "(":
            opened.append(part.start())
        elif part[0] == ")":
            if not opened:
                return part.start()
            opened.pop()
    return opened[-1] if opened else 0
