"""Shell command lines of untrusted words."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dissectors.printable import printable

_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\", "'": r"\'", "!": r"\x21"}


def quoted(text: str) -> str:
    """Return a word for bash, zsh, ksh and every shell of POSIX 2024.

    Characters that a terminal would not print are escaped, because a pasted one could end the paste.
    """
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    known = _ESCAPES.get(character)
    if known is not None:
        return known
    if character.isprintable():
        return character
    # as bytes, because \u requires a UTF-8 locale in the shell
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def comment(text: str) -> str:
    """Return a comment line in which nothing can end the line or control a terminal."""
    return f"# {printable(text)}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command line.

    :ivar words: program and arguments; empty for notes alone
    :ivar input: text that is piped into it, None for none
    :ivar file_option: an option whose value is the name of a file with ``file`` in it, empty for none
    :ivar file: the content of that file, which the shell makes
    :ivar notes: comments before it
    """

    words: Sequence[str]
    input: str | None = None
    file_option: str = ""
    file: str = ""
    notes: Sequence[str] = ()

    def lines(self) -> Iterable[str]:
        yield from map(comment, self.notes)
        if not self.words:
            return
        line = " ".join(map(quoted, self.words))
        if self.file_option:
            line = f"{line} {self.file_option} <(printf %s {quoted(self.file)})"
        if self.input is not None:
            line = f"printf %s {quoted(self.input)} | {line}"
        yield line
