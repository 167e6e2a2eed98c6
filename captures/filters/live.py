"""A filter on exchanges that come one by one, while the capture still grows."""

from __future__ import annotations

from captures.exchanges import Exchange, ExchangeReader
from captures.filters.context import Context
from captures.filters.filter import Filter
from captures.filters.groups import INFERRING, GroupInference


class LiveFilter:
    """Tells of each exchange whether it fits, by what is known when it comes.

    :param wanted: the filter, None lets all pass
    :param reader: decodes the exchanges
    """

    def __init__(self, wanted: Filter | None, reader: ExchangeReader) -> None:
        self._wanted = wanted
        self._faults = reader.capture.faults
        self._groups: GroupInference | None = None
        self._marked: set[int] = set()
        self._comments: dict[int, str] = {}
        self._context = Context(
            reader.knowledge.topic_name, selections={"marked": self._marked}, comments=self._comments
        )
        if wanted is not None and wanted.needs_groups:
            self._groups = self._context.groups = GroupInference(reader.knowledge.topic_name)

    def fits(self, exchange: Exchange) -> bool:
        """Whether an exchange fits; to be asked about all of them, in the order in which they complete."""
        if self._wanted is None:
            return True
        if self._context.start is None:
            self._context.start = exchange.time
        if exchange.note.marked:
            self._marked.add(exchange.number)
        if exchange.note.comment:
            self._comments[exchange.number] = exchange.note.comment
        if self._groups is not None:
            try:
                self._groups.observe(exchange)
            except Exception as error:
                self._faults.note(error, INFERRING, exchange.number)
        return self._wanted.fits(exchange, self._context, self._faults)
