"""Decide which exchanges of a session match a filter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from captures.arrays import Int64s
from captures.exchanges import Capture
from captures.exchanges.columns import ExchangeColumns
from captures.filters import Context, Filter
from captures.filters.groups import INFERRING, GroupInference
from dissectors.api_keys import MEMBER_APIS, ApiKey
from kproxy.session.engine import Steps
from kproxy.session.listed import ListedExchanges
from kproxy.session.session_notes import SessionNotes

_TOGETHER = 128
"""Exchanges that are filtered together; some milliseconds of work."""
_TOGETHER_BY_COLUMNS = 2048
"""The same for filters that columns of their messages decide."""


class ExchangeMatcher:
    """Matches the exchanges of a session; used in the engine's thread only.

    :ivar context: what filters need beside an exchange
    :ivar finished: whether the capture was read completely, so that columns of its messages can be kept
    """

    def __init__(self, capture: Capture, listed: ListedExchanges, notes: SessionNotes) -> None:
        self._capture = capture
        self._listed = listed
        self._notes = notes
        self._topic_name = listed.reader.knowledge.topic_name
        self._groups: GroupInference | None = None
        self._messages: ExchangeColumns | None = None
        """Message columns of all exchanges."""
        self.finished = False
        self.context = Context(self._topic_name)
        self.renew_context()

    def renew_context(self) -> None:
        """Update the context after changes of the list, notes or groups."""
        start, notes = self.context.start, self._notes
        if start is None and len(self._listed):
            row = self._capture.table.row(self._listed.reader.row(0))
            start = row["request_first"] if row["request_size"] else row["response_first"]
        self.context = Context(
            self._topic_name,
            self._groups,
            start,
            {"marked": notes.marked},
            notes.comments,
            notes.interventions,
        )

    # ------------------------------------------------------------ groups
    def learn_groups(self, wanted: Filter) -> Steps[None]:
        """Learn the group memberships of all exchanges, if the filter needs them and they are not known yet."""
        if not wanted.needs_groups or self._groups is not None:
            return
        groups = GroupInference(self._topic_name)
        yield from groups.learning(self._listed.plain, self.columns() if self.finished else None)
        self._groups = groups
        self.renew_context()

    def observe_members(self, settled: Int64s) -> None:
        """Learn group memberships from completed exchanges, by index, if they were learned before."""
        if self._groups is None:
            return
        plain = self._listed.plain
        keys = self._capture.table.column("api_key")[plain.rows[settled]]
        apis = {*MEMBER_APIS, ApiKey.FETCH} if self._groups.contested else MEMBER_APIS
        observe = self._capture.faults.guarded(self._groups.observe, INFERRING)
        chosen = settled[np.isin(keys, list(apis))].tolist()
        for begin in range(0, len(chosen), _TOGETHER):
            for exchange in plain.several(chosen[begin : begin + _TOGETHER]):
                observe(exchange)

    # ------------------------------------------------------------ matching
    def matches(self, wanted: Filter, indexes: Int64s) -> Iterator[tuple[Int64s, float]]:
        """Yield the exchanges that match a filter: by columns at once, the undecided ones in portions.

        :param indexes: increasing
        :returns: numbers of exchanges, and the share of all that is decided; each takes some milliseconds of work
        """
        plain, messages = self._listed.plain, None
        if self.finished and wanted.message_columns and len(indexes) == len(self._listed):
            # of all exchanges, whose columns are kept
            for done in self.columns().preparing(wanted.message_columns):
                yield indexes[:0], min(done / len(indexes), 0.99)
            messages = self._messages
        masks = wanted.mask_of(plain, indexes, self.context, messages)
        undecided = indexes[masks.undecided] + plain.first
        yield indexes[masks.matches] + plain.first, 1 - len(undecided) / len(indexes)
        together = _TOGETHER_BY_COLUMNS if wanted.message_columns and messages is None else _TOGETHER
        for begin in range(0, len(undecided), together):
            # by number: the oldest may have been dropped meanwhile
            part = undecided[begin : begin + together] - plain.first
            found = list(wanted.decide(plain, part[part >= 0], self.context))
            left = max(len(undecided) - begin - together, 0)
            yield np.array(found, np.int64) + plain.first, 1 - left / len(indexes)

    def matching(self, wanted: Filter, numbers: Int64s) -> Steps[Int64s]:
        """Return those of some exchanges that match a filter.

        :param numbers: increasing
        """
        yield from self.learn_groups(wanted)
        listed = self._listed
        indexes = np.arange(len(listed)) if self.finished else numbers - listed.first
        matches = [numbers[:0]]
        for found, _ in self.matches(wanted, indexes[indexes >= 0]):
            matches.append(found)
            yield
        return np.intersect1d(np.concatenate(matches), numbers)

    # ------------------------------------------------------------ columns
    def columns(self) -> ExchangeColumns:
        """Return the columns of the messages of all exchanges, which are kept."""
        if self._messages is None:
            self._messages = ExchangeColumns(self._capture, self._listed.reader.rows, names=self._topic_name)
        return self._messages
