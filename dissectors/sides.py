"""The two messages of an exchange and the two ends of a connection."""

from __future__ import annotations

from typing import Literal

Side = Literal["request", "response"]
End = Literal["client", "broker"]

SIDES: tuple[Side, Side] = ("request", "response")
ENDS: tuple[End, End] = ("client", "broker")
