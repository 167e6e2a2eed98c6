"""The only error that malformed bytes raise.

Every decoder of this package, generated, interpreted or hand-written, raises :class:`DecodeError` with the position
(byte offset, field path) and the reason. Any other exception is a bug.
"""

from __future__ import annotations

from typing import Self

from construct import ConstructError


class DecodeError(ConstructError):  # type: ignore[misc]  # construct ships no types
    """Bytes that do not match their declaration.

    :ivar reason: what is wrong, in words, without offset and path
    :ivar offset: byte offset of the error from the first byte handed to the decoder, or -1 if unknown
    :ivar field_path: dotted path of the field, with array indexes: ``topics[2].name``; may be empty
    :ivar truncated: True if the bytes ended early, so that more of them would have helped
    """

    def __init__(
        self, reason: str, offset: int = -1, field_path: str = "", *, truncated: bool = False
    ) -> None:
        self.reason = reason
        self.offset = offset
        self.field_path = field_path
        self.truncated = truncated
        where = f" at byte {offset}" if offset >= 0 else ""
        what = f" in {field_path}" if field_path else ""
        super().__init__(f"{reason}{where}{what}")

    def moved(self, offset: int, field_path: str, reason: str = "") -> Self:
        """Return the same error as an enclosing decoder reports it, with the class and attributes of this one.

        :param reason: replaces the reason, if given
        """
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        DecodeError.__init__(made, reason or self.reason, offset, field_path, truncated=self.truncated)
        return made
