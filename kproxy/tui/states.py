"""The appearance of exchange states: a symbol, a word and a role, so that nothing depends on colour alone.

A role names the style of a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kproxy.session.published import State, Summary

MARKED = "●"
COMMENTED = "✎"
CURSOR = "▸"


@dataclass(frozen=True, slots=True)
class StateStyle:
    """The appearance of a state.

    :ivar symbol: one cell
    :ivar role: see :mod:`kproxy.tui.widgets.line_styles`
    """

    symbol: str
    role: str


LOOKS: Mapping[State, StateStyle] = {
    State.HELD: StateStyle("‖", "held"),
    State.IN_FLIGHT: StateStyle("…", "primary"),
    State.UNDECODED: StateStyle("?", "damaged"),
    State.DAMAGED: StateStyle("░", "damaged"),
    State.ORPHAN: StateStyle("←", "damaged"),
    State.INTERVENED: StateStyle("¤", "secondary"),
    State.UNANSWERED: StateStyle("∅", "warning"),
    State.NOT_RECORDED: StateStyle("▒", "damaged"),
    State.ERROR: StateStyle("✗", "error"),
    State.SLOW: StateStyle("◷", "warning"),
    State.CHANGED: StateStyle("±", "secondary"),
    State.EXPECTED: StateStyle("~", "muted"),
    State.ONE_WAY: StateStyle("→", "muted"),
    State.OK: StateStyle("✓", "muted"),
}
"""Every symbol takes one cell in every terminal: none is an emoji, and none is of ambiguous width in practice."""

ROLES = tuple(dict.fromkeys(look.role for look in LOOKS.values()))


def state_text(summary: Summary) -> str:
    """Return the state of an exchange in words: its errors, or its peculiarity."""
    state = summary.state
    if state is State.ERROR and summary.errors:
        return " ".join(summary.errors)
    return summary.text or state.value


def labelled(summary: Summary) -> str:
    """Return the symbol of the state with its words."""
    return f"{LOOKS[summary.state].symbol} {state_text(summary)}"
