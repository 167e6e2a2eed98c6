"""Helpers of rules: which errors count, what they concern, and words for times and filters."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.findings.finding import Occurrences
from captures.analysis.topic_stats import place_of
from captures.exchanges import Exchange
from captures.filters.lexer import quoted
from captures.meaning import Names, ResponseError, words
from captures.meaning import exchange as exchange_meaning
from captures.meaning.exchange import text
from dissectors.api_keys import ASKED_BY_REPLICAS
from dissectors.error_codes import error_name
from dissectors.printable import printable
from dissectors.units import SECOND

UNNAMED = "?"
"""A topic of which neither name nor ID is known."""

NO_PRODUCE = "no Produce request was captured"
NO_FETCH = "no Fetch of a consumer was captured"
_LONGEST = 2_000
"""Most characters of a sentence; a client ID may have 32,767."""


def unexpected(exchange: Exchange, codes: Collection[int] | None = None) -> list[ResponseError]:
    """Return the errors of an exchange that do not belong to a normal conversation.

    :param codes: only these errors; None for all
    """
    return [error for error in exchange.unexpected_errors if codes is None or error.code in codes]


def topic_of(error: ResponseError, names: Names) -> str:
    """Return the topic that an error concerns; :data:`UNNAMED` if it names none."""
    topic, _ = place_of(error.holders)
    return UNNAMED if topic is None else names(topic) or topic


def whole_ids(names: Names) -> Names:
    """Return names that fall back to the topic ID, which filters accept too."""
    return lambda uuid: names(uuid) or uuid


def on_topics(topics: Iterable[str], most: int = 3) -> str:
    """Return a condition to append to a filter, that one of `topics` is named; empty if there are too many."""
    named = sorted({topic for topic in topics if topic != UNNAMED})
    return f" and {one_of('topic', named)}" if 0 < len(named) <= most else ""


def one_of(field: str, values: Iterable[object]) -> str:
    """Return a filter that a field has one of some values; texts are quoted."""
    texts = [quoted(value) if isinstance(value, str) else str(value) for value in values]
    return f"{field} == {texts[0]}" if len(texts) == 1 else f"{field} in {{{', '.join(texts)}}}"


def of_clients(clients: Iterable[str]) -> str:
    """Return a condition to append to a filter, that the client is one of `clients`; empty if there are too many."""
    every = list(clients)
    if len(every) > words.SHOWN:
        return ""
    conditions = " or ".join(map(of_client, every))
    return f" and ({conditions})" if len(every) > 1 else f" and {conditions}"


def with_errors(codes: Iterable[int]) -> str:
    """Return a filter for exchanges with one of some errors."""
    return one_of("error", sorted(set(codes)))


def error_names(codes: Iterable[int]) -> str:
    """Return the names of errors: ``NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION``."""
    return ", ".join(error_name(code) for code in sorted(set(codes)))


def some_of(names: Iterable[str]) -> str:
    """Return the first names in words, with a count of the others: ``orders, logs, audit and 4 more``."""
    every = list(names)
    rest = len(every) - words.SHOWN
    return ", ".join(every[: words.SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def captured_twice(retransmitted: int, size: int) -> bool:
    """Return whether so many bytes are repeated that the capture, not the network, duplicates packets.

    That happens with tcpdump -i any on a host with bridges or containers.

    :param retransmitted: repeated bytes
    :param size: bytes of the streams
    """
    return size > 0 and retransmitted >= _NEARLY_ALL * size


_NEARLY_ALL = 0.8


def replica_of(exchange: Exchange) -> int:
    """Return the ID of the broker that sends the request as a replica; -1 if the sender is none."""
    if exchange.api_key not in ASKED_BY_REPLICAS:
        return -1
    return exchange_meaning.replica_of(exchange.request_body)


def plain(text: str) -> str:
    """Return `text` on one line, safe to display: names in it come from the wire, and may be very long."""
    return printable(text, _LONGEST)


def together(parts: Iterable[Occurrences]) -> Occurrences:
    """Return several occurrences as one."""
    whole, evidence = Occurrences(), set[int]()
    for part in parts:
        if part:
            whole.first = min(whole.first, part.first) if whole else part.first
            whole.last = max(whole.last, part.last)
            whole.count += part.count
            evidence.update(part.numbers)
    for exchange in sorted(evidence):
        whole.show(exchange)
    return whole


def consumer(exchange: Exchange) -> str:
    """Return the client of a Fetch; empty if it is a broker or a controller."""
    return "" if replica_of(exchange) >= 0 else client_name(exchange)


def partitions_shown(numbers: Iterable[int]) -> str:
    """Return partitions in words: ``partition 3``, ``partitions 0-2``."""
    every = set(numbers)
    return f"{'partition' if len(every) == 1 else 'partitions'} {words.ranges(every)}"


def transactional_id(exchange: Exchange) -> str:
    """Return the transactional ID in a producer's request; empty if it has none."""
    request = exchange.request_body
    return text(request, "transactional_id") or text(request, "v3_and_below_transactional_id")


WINDOW = 10 * SECOND
"""Length of a period in ns."""


class Busiest:
    """The busiest period of at most 10 seconds; times must be ascending.

    :ivar count: number of events in it
    """

    __slots__ = ("_begin", "_count", "_span", "count")

    def __init__(self) -> None:
        self.count = 0
        self._span = 0
        self._begin = 0
        self._count = 0

    def add(self, time: int) -> None:
        """Count an event.

        :param time: ns since the epoch
        """
        if not self._count or time - self._begin > WINDOW:
            self._begin, self._count = time, 0
        self._count += 1
        if self._count > self.count:
            self.count, self._span = self._count, time - self._begin

    @property
    def rate(self) -> float:
        """Events per second, over at least a second."""
        return self.count * SECOND / max(self._span, SECOND)
