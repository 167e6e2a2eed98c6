"""Text from the wire, made safe for a terminal: harmless, and as wide as computed.

Names, keys and values are chosen by whoever sends them. Control characters and escape sequences could drive the
terminal, bidirectional controls could reorder neighbouring text, zero-width characters could hide, and markup could
style plain text. So Textual gets text of a capture only as content or segments of what
:func:`~dissectors.printable.printable` returns. Characters of two cells, such as CJK, are kept and counted as two.
Terminals that reorder right-to-left text are told not to while the UI runs (:data:`EXPLICIT_DIRECTION`).
"""

from __future__ import annotations

from textual.content import Content

from dissectors.printable import printable

EXPLICIT_DIRECTION = "\x1b[8l"
"""Tells a terminal to show characters in the order of output (ECMA-48 BDSM)."""
IMPLICIT_DIRECTION = "\x1b[8h"
"""Tells it to reorder right-to-left text again, the default."""


def plain(text: str) -> Content:
    """Return text from the wire as content without markup."""
    return Content(printable(text))
