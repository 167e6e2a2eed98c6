"""The numbers of rebalances above the lanes of a picture: their positions, and the room for text beside them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from captures.analysis.groups.model import Rebalance
from captures.export.markup import Markup, tag
from captures.meaning import words

LEVEL = 18.0
"""Height of one level of numbers."""
LETTER = 5.7
"""Width of a character in the picture."""

_LEVELS = 3
_RADIUS = 8.0
_LEAST_WORDS = 8


class NumberedRebalance(msgspec.Struct, frozen=True):
    """A rebalance with its number on the page and the anchor of its story."""

    number: int
    anchor: str
    rebalance: Rebalance


class Marker(msgspec.Struct):
    """The number of a rebalance.

    :ivar x: where its rebalance begins
    :ivar level: 0 is just above the lanes
    :ivar room: free units beside it, up to the next number or its stem
    """

    each: NumberedRebalance
    x: float
    level: int
    room: float = 0.0

    @property
    def width(self) -> float:
        """Width of the box with the number."""
        return 2 * _RADIUS + max(len(str(self.each.number)) - 2, 0) * LETTER

    def draw(self, top: float, title: str, what: str) -> Markup:
        """Return the marker as a link to its story.

        :param top: top of the lanes
        :param title: tooltip
        :param what: text beside the number, if there is room
        """
        left, y = self.x - _RADIUS, top - (self.level + 1) * LEVEL
        parts = [
            tag("title", title),
            tag("line", x1=self.x, y1=y + 15, x2=self.x, y2=top, class_="stem"),
            tag("rect", x=left, y=y, width=self.width, height=15.0, rx=7.0, class_="marker"),
            tag("text", str(self.each.number), x=left + self.width / 2, y=y + 11, class_="number"),
        ]
        letters = int(self.room / LETTER)
        if letters >= min(len(what), _LEAST_WORDS):
            parts.append(
                tag("text", words.clipped(what, letters), x=left + self.width + 4, y=y + 11, class_="what")
            )
        return tag("a", *parts, href=f"#{self.each.anchor}")


def placed(found: Sequence[tuple[NumberedRebalance, float]], end: float) -> list[Marker]:
    """Return markers on as many levels as needed, as far as there is room.

    Rebalances without a marker still have their band in the picture and their story on the page.

    :param found: rebalances and where they begin, in order
    :param end: right edge of the row
    """
    ends = [0.0] * _LEVELS
    markers: list[Marker] = []
    for each, x in found:
        level = next((at for at in range(_LEVELS) if ends[at] <= x - _RADIUS), None)
        if level is not None:
            marker = Marker(each, x, level)
            ends[level] = x - _RADIUS + marker.width + 2
            markers.append(marker)
    nearest = [end] * _LEVELS
    for marker in reversed(markers):
        # the stems of higher levels pass through this one
        marker.room = min(nearest[marker.level :]) - (marker.x + marker.width - _RADIUS) - 8
        nearest[marker.level] = marker.x - _RADIUS
    return markers
