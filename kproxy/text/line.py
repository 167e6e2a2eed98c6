"""A line of text that knows which exchange it is about, so that the UI can lead there."""

from __future__ import annotations

from typing import Self


class Line(str):
    """A line of text.

    :ivar number: of the first exchange that it names, None if it names none
    """

    __slots__ = ("number",)
    number: int | None

    def __new__(cls, text: str, number: int | None = None) -> Self:
        """Return the text as a line."""
        made = super().__new__(cls, text)
        made.number = number
        return made
