"""Untrusted text made safe to print in a terminal, a log or a text file.

The sender chooses names, keys and messages. Control characters and escape sequences drive a terminal, line ends forge
lines, bidirectional controls reorder the text beside them, zero-width characters hide, and combining marks pile up
over other lines. All code that shows untrusted text uses this module.
"""

from __future__ import annotations

import re
import unicodedata

REPLACEMENT = "�"
"""Replaces a character that is not shown."""

ELLIPSIS = "…"

_MAX_MARKS = 2
"""Combining marks allowed on one character: more only hide or deface text."""

# Variation selectors are marks to Unicode and printable to Python; their effect on the width is uncertain.
_VARIATION = range(0xFE00, 0xFE10)

# Blocks without combining marks and variation selectors, as far as kproxy's own sentences and tables need them.
# `str.isprintable` decides about each character inside them.
_SIMPLE = re.compile("[ -\u02ff\u2010-\u20cf\u2100-\u2bff]*")


def is_printable(text: str) -> bool:
    """Return whether :func:`printable` would leave the text unchanged; fast for nearly all text."""
    return text.isprintable() and (text.isascii() or bool(_SIMPLE.fullmatch(text)) or _cleaned(text) == text)


def printable(text: str, most: int = 0) -> str:
    """Return text on one line, with every character replaced that is invisible or of uncertain width.

    These are C0 and C1 controls, line ends, format characters (bidirectional controls and joiners among them), lone
    surrogates, unassigned and private characters, variation selectors, and combining marks without a base or piled up
    on one.

    :param most: maximum length in characters; longer text ends in an ellipsis. 0 for no limit
    """
    if most and len(text) > most:
        text = f"{text[: most - 1]}{ELLIPSIS}"
    if text.isprintable() and (text.isascii() or _SIMPLE.fullmatch(text)):
        return text
    return _cleaned(text)


def _cleaned(text: str) -> str:
    out: list[str] = []
    marks = _MAX_MARKS  # none without a base
    for character in text:
        if not character.isprintable() or ord(character) in _VARIATION:
            out.append(REPLACEMENT)
            marks = _MAX_MARKS
        elif unicodedata.category(character) in ("Mn", "Me"):
            marks += 1
            if marks <= _MAX_MARKS:
                out.append(character)
            elif not out or out[-1] != REPLACEMENT:
                out.append(REPLACEMENT)
        else:
            out.append(character)
            marks = 0
    return "".join(out)


_NOT_ASCII = re.compile("[^\n -~]")


def printable_json(text: str) -> str:
    """Return equivalent JSON, with invisible characters written as ``\\uXXXX``; line ends stay."""
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() and ord(character) not in _VARIATION:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
