"""A capture as the UI uses it: read, decoded, filtered, ordered and counted, in threads apart from the display.

Nothing here imports Textual. Published values may be read by any thread (:mod:`kproxy.session.published`); the capture
itself only by jobs, which the engine runs one by one (:mod:`kproxy.session.engine`).
"""

from kproxy.session.access import Access
from kproxy.session.engine import ClosedError, Priority, Steps
from kproxy.session.folds import SessionFold
from kproxy.session.published import HeldMessage, Order, ShownExchanges, State, Status
from kproxy.session.session import Session
