r"""``sasl.jaas.config``: one login module with its options, as ``clients/.../security/JaasConfig.java`` reads it.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="a\\"secret";

Kafka reads it with Java's StreamTokenizer: values are words, or quoted with the escapes of C; comments may be anywhere.
Errors give the position, never the text, which contains a password.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_TOKEN = re.compile(
    r"""(?:\s+|//[^\n]*|/\*.*?\*/)*(?:
      "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)' | (?P<word>[\w$.\-]+) | (?P<sign>[=;])
    )""",
    re.VERBOSE | re.DOTALL,
)
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not a login module with options; the message gives the position of the error."""


class LoginModule(NamedTuple):
    """A login module.

    :ivar name: of its class, with package
    """

    name: str
    options: dict[str, str]


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def __bool__(self) -> bool:
        blank = _BLANK.match(self._text, self._at)
        return blank is None or blank.end() < len(self._text)

    def next(self, wanted: str) -> tuple[str, bool]:
        """Return the next token, and whether it is a value or name rather than a sign."""
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise JaasError(f"{wanted} is expected at character {self._at + 1}")
        self._at = match.end()
        kind = match.lastgroup or ""
        text = match[kind]
        if kind in ("double", "single"):
            text = _ESCAPE.sub(_unescaped, text)
        return text, kind != "sign"

    def name(self, wanted: str) -> str:
        at = self._at
        text, named = self.next(wanted)
        if not named:
            raise JaasError(f"{wanted} is expected at character {at + 1}")
        return text


def _unescaped(escape: re.Match[str]) -> str:
    what = escape[1]
    return chr(int(what, 8)) if what[0].isdigit() and what[0] < "8" else _ESCAPED.get(what, what)


def parse_jaas(text: str) -> LoginModule:
    """Parse the value of ``sasl.jaas.config``.

    :raises JaasError: if it is malformed
    """
    tokens = _Tokens(text)
    module = tokens.name("a login module")
    flag = tokens.name("a control flag such as required")
    if flag.lower() not in _FLAGS:
        raise JaasError(f"the control flag after {module} is none of {', '.join(sorted(_FLAGS))}")
    options: dict[str, str] = {}
    while True:
        option, named = tokens.next('an option or ";"')
        if not named:
            break
        if tokens.next('"="') != ("=", False):
            raise JaasError(f'"=" and a value are expected after the option {option}')
        options[option] = tokens.name(f"a value of {option}")
    if option != ";":
        raise JaasError('";" is expected after the options')
    if tokens:
        raise JaasError("only one login module is possible here, and something follows its semicolon")
    return LoginModule(module, options)
