"""Text that came from the wire, made fit for a terminal: harmless, and as wide as it is said to be.

Names, keys and values are chosen by whoever sends them. Control characters and escape sequences could drive the
terminal, bidirectional controls could reorder what stands beside them, zero-width characters could hide, and markup
could style what is no markup. So nothing from a capture is handed to Textual but as content or segments made of what
:func:`~dissectors.printable.printable` leaves. Characters of two cells, such as CJK, are kept and counted as two.

Terminals that reorder right-to-left text are told not to as long as the UI runs (:data:`EXPLICIT_DIRECTION`).
"""

from __future__ import annotations

from textual.content import Content

from dissectors.printable import printable

EXPLICIT_DIRECTION = "\x1b[8l"
"""Tells a terminal to show characters in the order in which they come (ECMA-48 BDSM)."""
IMPLICIT_DIRECTION = "\x1b[8h"
"""Tells it to reorder right-to-left text again, the usual state."""


def plain(text: str) -> Content:
    """Return text from the wire as content that is shown as it is: nothing in it is markup."""
    return Content(printable(text))
