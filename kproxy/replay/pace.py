"""How fast recorded requests are sent again."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast requests are sent.

    :ivar speed: factor relative to the recording; None for as fast as answers arrive
    :ivar timeout: seconds after which a response counts as missing, in addition to the recorded latency
    """

    speed: float | None = 1.0
    timeout: float = 30.0


def speed_of(text: str) -> float | None:
    """Return a speed for :class:`Pace`; ``max`` is None.

    :raises ValueError: if it is not a speed
    """
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < inf:
        raise ValueError(f"{text!r} is not a speed: write 1, 0.5, 10 or max")
    return speed
