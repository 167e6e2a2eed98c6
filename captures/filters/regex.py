"""Regular expressions that users write, on an engine whose time is linear in what it looks at: Google's RE2.

Python's ``re`` backtracks: ``^(a+)+$`` takes twice as long for each letter more of a text that does not fit, and the
texts come from any client that can connect. Every pattern of a user that meets untrusted text is compiled here, and
nowhere else; ``re`` is for patterns of our own.

RE2 has no lookaround, backreferences, atomic groups or possessive quantifiers, which are what cannot be had in linear
time. ``\\d``, ``\\w``, ``\\s`` and ``\\b`` mean ASCII (https://github.com/google/re2/wiki/Syntax).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

MOST_LETTERS = 10_000
"""Length of a pattern."""
MOST_INSTRUCTIONS = 10_000
"""Size of a compiled pattern. Where RE2 has to do without its automaton, each byte of a text costs that many steps."""
_MEMORY = 8 << 20
"""Bytes that a compiled pattern may take with its automaton, RE2's default."""

_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]?|.", re.DOTALL)
"""What parentheses may be in without opening or closing anything, or any other character."""

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
"""What Python's engine knows and RE2 does not, by how it begins."""
_ESCAPES = {
    "\\Z": "write \\z for the end of the text",
    "\\u": "write \\x{...} for a character by its number",
    "\\U": "write \\x{...} for a character by its number",
    "\\N": "write the character itself",
}


_LINEAR = "kproxy matches in linear time"


class RegexError(ValueError):
    """A text that is not a regular expression, or asks for what cannot be had in linear time.

    :ivar position: 0-based index of the character that it is about
    """

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


Span = tuple[int, int]
"""Where something was found: the indexes of its first letter or byte, and of what follows it."""

_Search = Callable[[bytes, int, int], list[Span]]
"""Takes bytes, and the indexes of the first and of the last to look at; returns the place, or :data:`_NOWHERE`."""
_NOWHERE = (-1, -1)


class TextRegex:
    """A pattern that is looked for in texts. A dot is any character, a line break too.

    :param any_case: whether letters of either case are the same, unless the pattern says otherwise
    :raises RegexError: if it is none
    """

    __slots__ = ("_search",)

    def __init__(self, pattern: str, *, any_case: bool = True) -> None:
        self._search = _compiled(pattern, any_case=any_case, single_bytes=False)

    def found(self, text: str) -> bool:
        """Return whether it is found anywhere."""
        data = text.encode("utf-8", "surrogatepass")
        return self._search(data, 0, len(data))[0] != _NOWHERE

    def span(self, text: str) -> Span | None:
        """Return where it is found first, None if it is not."""
        data = text.encode("utf-8", "surrogatepass")
        begin, end = self._search(data, 0, len(data))[0]
        if begin < 0:
            return None
        at = len(data[:begin].decode("utf-8", "surrogatepass"))
        return at, at + len(data[begin:end].decode("utf-8", "surrogatepass"))


class BytesRegex:
    """A pattern that is looked for in bytes: a dot is any byte.

    One with characters beyond ASCII means text, though, and a dot of it a character in UTF-8.

    :param any_case: whether letters of either case are the same, unless the pattern says otherwise
    :raises RegexError: if it is none
    """

    __slots__ = ("_search",)

    def __init__(self, pattern: str, *, any_case: bool = True) -> None:
        self._search = _compiled(pattern, any_case=any_case, single_bytes=pattern.isascii())

    def found(self, data: bytes) -> bool:
        """Return whether it is found anywhere."""
        return self._search(data, 0, len(data))[0] != _NOWHERE

    def span(self, data: bytes, at: int = 0) -> Span | None:
        """Return where it is found first from an index on, None if it is not."""
        found = self._search(data, at, len(data))[0]
        return None if found == _NOWHERE else found

    def spans(self, data: bytes) -> Iterator[Span]:
        """Yield where it is found, one place after the other."""
        at = 0
        while at <= len(data) and (found := self.span(data, at)) is not None:
            yield found
            at = found[1] if found[1] > found[0] else found[1] + 1


def _compiled(pattern: str, *, any_case: bool, single_bytes: bool) -> _Search:
    """Return what searches bytes for a pattern.

    :param single_bytes: each byte is a character, not UTF-8
    """
    # RE2's own object: the module around it, made after Python's, takes six times as long for a short text
    from re2 import Options, _re2

    if len(pattern) > MOST_LETTERS:
        reason = f"{len(pattern):,} letters are too many, {MOST_LETTERS:,} may be"
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
        raise RegexError("it repeats too much: compiled it is too large", 0)
    return partial(compiled.Match, _re2.RE2.Anchor.UNANCHORED)


# ---------------------------------------------------------------- what is wrong with a pattern
def _error(pattern: str, said: str) -> RegexError:
    """Return the error for what RE2 says: a reason and, after a colon, the part of the pattern that it is about."""
    reason, _, part = said.partition(": ")
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
            return RegexError(
                f"nothing stands before {part} to be repeated", found.end() if found else position
            )
        case "pattern too large - compile failed":
            return RegexError("it repeats too much: compiled it is too large", 0)
        case _:
            return RegexError(f"{reason} {part}".rstrip(), position)


def _escape(part: str) -> str:
    if part[1:2].isdecimal():
        return f"backreferences are not supported ({part}): {_LINEAR}"
    instead = _ESCAPES.get(part[:2], "a letter has a backslash before it only where that means something")
    return f"{part} is not supported: {instead}"


def _unclosed(pattern: str) -> int:
    """Return the index of the first closing parenthesis that closes nothing, or the last one that is never closed."""
    opened: list[int] = []
    for part in _PARTS.finditer(pattern):
        if part[0] == "(":
            opened.append(part.start())
        elif part[0] == ")":
            if not opened:
                return part.start()
            opened.pop()
    return opened[-1] if opened else 0
