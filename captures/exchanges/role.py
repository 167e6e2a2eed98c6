"""Which direction of a connection is the client's, where no handshake was captured: as soon as the bytes tell it."""

from __future__ import annotations

from collections.abc import Mapping

from captures.exchanges.pieces import Piece
from dissectors.conversation import begins_with_request, client_stream

#: bytes of both directions together after which is looked closely; after the last of them it has to be decided
LOOKS = (1 << 12, 1 << 16)


class RoleFinder:
    """Finds out by the first bytes of both directions, in the order of capture.

    What is captured first of a connection is mostly the beginning of a packet, and so of a frame: a request there
    decides at once. Else the bytes are inspected together when there are enough of them.

    :param limits: API key -> (lowest, highest) request version
    """

    def __init__(self, limits: Mapping[int, tuple[int, int]]) -> None:
        self._limits = limits
        self._heads = (bytearray(), bytearray())
        self._undecided = [True, True]
        """Directions of which it is not known yet whether a request begins with their first byte."""
        self._size = 0
        self._looks = list(LOOKS)

    def add(self, piece: Piece) -> int | None:
        """Take the next bytes; return the client's direction once it is known."""
        if piece.data is None:
            return None
        head, direction = self._heads[piece.direction], piece.direction
        head += piece.data
        self._size += len(piece.data)
        if self._undecided[direction]:
            begins = begins_with_request(bytes(head), self._limits)
            if begins:
                return direction
            self._undecided[direction] = begins is None
        if self._size < self._looks[0]:
            return None
        look = self._looks.pop(0)
        role = client_stream(bytes(self._heads[0][:look]), bytes(self._heads[1][:look]), self._limits)
        return role if self._looks else role or 0

    def settle(self) -> int:
        """Return the client's direction by what there is; no more bytes come."""
        # where the bytes do not tell, the sender of the first packet is as good a guess as any
        return client_stream(bytes(self._heads[0]), bytes(self._heads[1]), self._limits) or 0
