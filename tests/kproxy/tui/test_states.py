"""The appearance of states."""

from __future__ import annotations

from rich.cells import cell_len

from kproxy.session.published import State
from kproxy.tui.states import COMMENTED, CURSOR, LOOKS, MARKED, labelled, state_text
from tests.kproxy.tui.published import summary


def test_every_state_has_a_symbol_of_its_own_that_takes_one_cell() -> None:
    symbols = [look.symbol for look in LOOKS.values()]
    assert set(LOOKS) == set(State)
    assert len(set(symbols)) == len(symbols)
    assert all(cell_len(symbol) == 1 for symbol in (*symbols, MARKED, COMMENTED, CURSOR))


def test_a_state_is_told_in_words() -> None:
    assert labelled(summary(1)) == "✓ ok"
    assert state_text(summary(1, state=State.UNANSWERED)) == "no answer"
    assert labelled(summary(1, state=State.CHANGED, text="delayed by 2 s")) == "± delayed by 2 s"


def test_an_error_is_told_by_its_name() -> None:
    failed = summary(1, state=State.ERROR, errors=("NOT_LEADER_OR_FOLLOWER",), text="held for 2 s")
    assert labelled(failed) == "✗ NOT_LEADER_OR_FOLLOWER"
