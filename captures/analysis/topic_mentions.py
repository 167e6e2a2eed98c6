"""Numbers of exchanges that mention a topic or a partition: the matches of a filter by topic."""

from __future__ import annotations

from collections import Counter

import numpy as np

from captures.analysis.exchange_groups import RowGroups
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import Names, topics_in
from dissectors.frames import Body
from dissectors.sides import Side

_Place = tuple[str, int | None]


class TopicMentions:
    """Counts exchanges by the topics and partitions that request or response mention.

    :param names: returns names of topic IDs; called again for the result for IDs without a name
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._counts: Counter[_Place] = Counter()
        self._with_ids: Counter[frozenset[_Place]] = Counter()
        """Sets of mentions with an ID without name: an exchange may mention a topic by both."""

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        key = exchange.api_key
        if key is None:
            return
        found: set[_Place] = set()
        unknown: list[str] = []

        def name_of(uuid: str) -> str | None:
            name = self._names(uuid)
            if name is None:
                unknown.append(uuid)
            return name

        sides: tuple[tuple[Body | None, Side], ...] = (
            (exchange.request, "request"),
            (exchange.response, "response"),
        )
        for body, side in sides:
            if body is not None and body.version is not None:
                for topic, partitions in topics_in(key, body.version, body.value, name_of, side).items():
                    found.add((topic, None))
                    found.update((topic, partition) for partition in partitions)
        if unknown:
            self._with_ids[frozenset(found)] += 1
        else:
            self._counts.update(found)

    def add_columns(self, columns: ExchangeColumns) -> None:
        """Count exchanges."""
        texts = columns.texts("topics")
        topics, counts = np.unique(columns.ragged("topics").values, return_counts=True)
        for code, count in zip(topics.tolist(), counts.tolist(), strict=True):
            self._counts[texts[code] or "", None] += count
        of_topics, partitions = (columns.ragged(name).values for name in ("partition_topics", "partitions"))
        places = RowGroups(of_topics, partitions)
        codes, numbers = of_topics[places.first].tolist(), partitions[places.first].tolist()
        for code, number, count in zip(codes, numbers, places.sums(np.ones(len(partitions))), strict=True):
            self._counts[texts[code] or "", number] += count

    def result(self) -> dict[_Place, int]:
        """Return the number of exchanges that mention each topic (partition None) and each of its partitions."""
        out = Counter(self._counts)
        for places, count in self._with_ids.items():
            for place in {(self._names(topic) or topic, partition) for topic, partition in places}:
                out[place] += count
        return dict(out)
