"""Information that a filter needs besides the exchange that it tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from captures.interventions import Interventions
from captures.meaning import Names

if TYPE_CHECKING:
    from captures.filters.groups import GroupInference

SELECTIONS = {
    "marked": "the exchanges you marked",
    "focus": "the exchange under the cursor",
    "shown": "the exchanges that the view shows",
}
"""Sets of exchanges maintained by a view, usable as ``@name``."""
OPPOSITES = {"unmarked": "marked", "hidden": "shown"}
"""Selectors for the complement of a selection."""
MEANINGS = frozenset({*SELECTIONS, *OPPOSITES, "all"})
"""Names with a built-in meaning after ``@``, which no saved filter can have."""


def unnamed(_: str) -> str | None:
    """Return None: no topic names are known."""
    return None


class Context(msgspec.Struct):
    """The context of an exchange.

    :ivar names: topic names by ID, such as :meth:`dissectors.session_context.SessionContext.topic_name`
    :ivar groups: knowledge of group membership; None infers nothing
    :ivar start: time of the first exchange in ns since the epoch, the origin of relative times
    :ivar selections: numbers of the exchanges in each of :data:`SELECTIONS`; missing ones are empty
    :ivar comments: comments by number
    :ivar interventions: what kproxy did to exchanges, by number
    :ivar records: reads a records field that was not annotated, with or without its records, instead of
        :func:`captures.filters.reads.shown_batches`
    """

    names: Names = unnamed
    groups: GroupInference | None = None
    start: int | None = None
    selections: Mapping[str, Collection[int]] = {}
    comments: Mapping[int, str] = {}
    interventions: Mapping[int, Interventions] = {}
    records: Callable[[bytes, bool], list[dict[str, Any]]] | None = None

    def selected(self, selection: str, number: int) -> bool:
        """Return whether an exchange belongs to a selection."""
        return number in self.selections.get(selection, ())


NO_CONTEXT = Context()
