"""What filters of rules and holds are asked about: a frame, as an exchange, in a context."""

from __future__ import annotations

from captures.exchanges import Exchange
from captures.filters import Context
from captures.meaning.payload import record_fields
from dissectors.annotate import Annotator
from dissectors.frames import Body
from kproxy.proxy.rules.matching import Matcher, exchange_of
from kproxy.proxy.rules.measured import MeasuredRecords, measure
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import Frame, Side


class View:
    """One frame, decoded when the first filter asks, and once for all of them.

    :param names: of topic IDs
    :param start: what relative times of filters count from, in ns since the epoch
    """

    def __init__(self, frame: Frame, names: TopicNames, start: int) -> None:
        self._frame = frame
        self._names = names
        self._records = MeasuredRecords()
        self._context = Context(names.name, start=start, records=self._records)
        self._plain: Exchange | None = None
        self._annotated: Exchange | None = None

    def meets(self, matcher: Matcher) -> bool:
        """Tell whether the frame meets a condition.

        :raises LimitReached: if that cannot be decided within the limits of one frame
        """
        if not matcher.needs_embedded:
            return matcher.match(self._exchange(), self._context)
        if self._annotated is None:
            self._measure_records(self._exchange())
            self._annotated = exchange_of(self._frame, Annotator(self._names.knowledge))
        return matcher.match(self._annotated, self._context)

    def _exchange(self) -> Exchange:
        if self._plain is None:
            for frame in (self._frame.request, self._frame):
                if frame is not None:
                    measure(frame)
            self._plain = exchange_of(self._frame)
        return self._plain

    def _measure_records(self, exchange: Exchange) -> None:
        """Read all records, as the annotator will."""
        sides: tuple[Side, Side] = ("request", "response")
        for side in sides:
            body: Body | None = getattr(exchange, side)
            if body is not None and body.version is not None and body.value:
                for value in record_fields(self._frame.api_key, body.version, body.value, side):
                    if value:
                        self._records(value, True)
