"""What filters of rules and holds are asked about: a frame, as an exchange, in a context."""

from __future__ import annotations

from captures.exchanges import Exchange
from captures.filters import Context
from dissectors.annotate import Annotator
from kproxy.proxy.rules.matching import Matcher, exchange_of
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import Frame


class View:
    """One frame, decoded when the first filter asks, and once for all of them.

    :param names: of topic IDs
    :param start: what relative times of filters count from, in ns since the epoch
    """

    def __init__(self, frame: Frame, names: TopicNames, start: int) -> None:
        self._frame = frame
        self._names = names
        self._start = start
        self._plain: Exchange | None = None
        self._annotated: Exchange | None = None

    def meets(self, matcher: Matcher) -> bool:
        """Tell whether the frame meets a condition."""
        context = Context(self._names.name, start=self._start)
        if matcher.needs_embedded:
            if self._annotated is None:
                self._annotated = exchange_of(self._frame, Annotator(self._names.knowledge))
            return matcher.match(self._annotated, context)
        if self._plain is None:
            self._plain = exchange_of(self._frame)
        return matcher.match(self._plain, context)
