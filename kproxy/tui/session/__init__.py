"""A capture as the UI works with it: read, decoded, filtered, ordered and counted, in threads apart from the display.

Nothing in here imports Textual. What is published may be read by any thread (:mod:`kproxy.tui.session.published`); the
capture itself only by jobs, which the engine carries out one by one (:mod:`kproxy.tui.session.engine`).
"""

from kproxy.tui.session.access import Access
from kproxy.tui.session.engine import ClosedError, Priority, Steps
from kproxy.tui.session.folding import Fold, Folding
from kproxy.tui.session.published import Held, Order, Shown, State, Status, Summary
from kproxy.tui.session.session import Session
from kproxy.tui.session.summaries import Summaries

__all__ = [
    "Access",
    "ClosedError",
    "Fold",
    "Folding",
    "Held",
    "Order",
    "Priority",
    "Session",
    "Shown",
    "State",
    "Status",
    "Steps",
    "Summaries",
    "Summary",
]
