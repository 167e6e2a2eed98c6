"""The appearance of exchange states: a symbol, a word and a role, so that nothing depends on colour alone.

A role names a kind of text; each widget has a component class of the same name that gives it its colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.session.published import State, Summary

MARKED = "●"
COMMENTED = "✎"
CURSOR = "▸"


@dataclass(frozen=True, slots=True)
class Look:
    """The appearance of a state.

    :ivar symbol: one cell
    :ivar role: ``quiet``, ``error``, ``warning``, ``slow``, ``running``, ``held``, ``damaged`` or ``changed``
    """

    symbol: str
    role: str


LOOKS: Mapping[State, Look] = {
    State.HELD: Look("‖", "held"),
    State.IN_FLIGHT: Look("…", "running"),
    State.UNDECODED: Look("?", "damaged"),
    State.DAMAGED: Look("░", "damaged"),
    State.ORPHAN: Look("←", "damaged"),
    State.INTERVENED: Look("¤", "changed"),
    State.UNANSWERED: Look("∅", "warning"),
    State.NOT_RECORDED: Look("▒", "damaged"),
    State.ERROR: Look("✗", "error"),
    State.SLOW: Look("◷", "slow"),
    State.CHANGED: Look("±", "changed"),
    State.EXPECTED: Look("~", "quiet"),
    State.ONE_WAY: Look("→", "quiet"),
    State.OK: Look("✓", "quiet"),
}
"""Every symbol takes one cell in every terminal: none is an emoji, and none is of ambiguous width in practice."""

ROLES = tuple(dict.fromkeys(look.role for look in LOOKS.values()))


def told(summary: Summary) -> str:
    """Return the state of an exchange in words: its errors, or its peculiarity."""
    state = summary.state
    if state is State.ERROR and summary.errors:
        return " ".join(summary.errors)
    return summary.said or state.value


def labelled(summary: Summary) -> str:
    """Return the symbol of the state with its words."""
    return f"{LOOKS[summary.state].symbol} {told(summary)}"
