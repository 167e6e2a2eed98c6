"""What rules have in common: which errors count, what they are about, and words for times and filters."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.analysis.findings.finding import Occurrences
from captures.analysis.topic_stats import place_of
from captures.exchanges import Capture, Exchange
from captures.filters.lexer import quoted
from captures.meaning import ErrorFound, Names, words
from captures.meaning import exchange as exchange_meaning
from captures.meaning.exchange import number, text
from dissectors.api_keys import ASKED_BY_REPLICAS
from dissectors.error_codes import error_name
from dissectors.printable import printable

UNNAMED = "?"
"""A topic of which neither name nor ID was read."""

NO_PRODUCE = "no Produce request was captured"
NO_FETCH = "no Fetch of a consumer was captured"
_LONG = 100_000  # ms
_LONGEST = 2_000
"""Characters of a sentence at most; a client ID may have 32,767."""


def unexpected(exchange: Exchange, codes: Collection[int] | None = None) -> list[ErrorFound]:
    """Return the errors of an exchange that are no part of a normal conversation.

    :param codes: only these; None for all
    """
    if not exchange.errors:
        return []
    expected = {error.path for error in exchange.expected}
    return [
        error
        for error in exchange.errors
        if error.path not in expected and (codes is None or error.code in codes)
    ]


def topic_of(error: ErrorFound, names: Names) -> str:
    """Return the topic that an error is about; :data:`UNNAMED` if it names none."""
    topic, _ = place_of(error.holders)
    return UNNAMED if topic is None else names(topic) or topic


def whole_ids(names: Names) -> Names:
    """Return names that give the ID itself where a topic's name is not known, as filters know it."""
    return lambda uuid: names(uuid) or uuid


def on_topics(topics: Iterable[str], most: int = 3) -> str:
    """Return a condition to be joined to a filter: that one of some topics is named; none if there are too many."""
    named = sorted({topic for topic in topics if topic != UNNAMED})
    return f" and {one_of('topic', named)}" if 0 < len(named) <= most else ""


def one_of(field: str, values: Iterable[object]) -> str:
    """Return a filter that a field is one of some values; texts are quoted."""
    texts = [quoted(value) if isinstance(value, str) else str(value) for value in values]
    return f"{field} == {texts[0]}" if len(texts) == 1 else f"{field} in {{{', '.join(texts)}}}"


def of_clients(clients: Iterable[str]) -> str:
    """Return a condition to be joined to a filter: that it is one of some clients; none if there are too many."""
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
    """Return names in words, those behind the first counted: ``orders, logs, audit and 4 more``."""
    every = list(names)
    rest = len(every) - words.SHOWN
    return ", ".join(every[: words.SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def captured_twice(again: int, size: int) -> bool:
    """Tell whether bytes came again so often that it is the capture which has packets twice, not the network.

    So it is with tcpdump -i any on a host with bridges or containers.

    :param again: bytes that came again
    :param size: bytes of the streams
    """
    return size > 0 and again >= _NEARLY_ALL * size


_NEARLY_ALL = 0.8


def replica_of(exchange: Exchange) -> int:
    """Return the ID of the broker that asks as a replica; -1 if it is none."""
    if exchange.api_key not in ASKED_BY_REPLICAS:
        return -1
    return exchange_meaning.replica_of(exchange.request_body)


def plain(text: str) -> str:
    """Return a text on one line that may be shown anywhere: names in it come from the wire, and may be endless."""
    return printable(text, _LONGEST)


def together(parts: Iterable[Occurrences]) -> Occurrences:
    """Return what was seen in several places as one."""
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


class Alike:
    """Connections that are alike, of which no exchange tells.

    :ivar seen: when they began
    """

    __slots__ = ("connections", "seen")

    def __init__(self) -> None:
        self.seen = Occurrences()
        self.connections: list[int] = []

    def add(self, capture: Capture, connection: int) -> None:
        """Take in one more."""
        self.seen.note(0, int(capture.connections.first_time[connection]))
        self.connections.append(connection)


class ProduceAnswers:
    """Whether brokers tell producers of errors; for rules that look for these."""

    __slots__ = ("_requests", "_silent")

    def __init__(self) -> None:
        self._requests = 0
        self._silent: dict[str, None] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from a Produce."""
        self._requests += 1
        if number(exchange.request_body, "acks") == 0:
            self._silent[client_name(exchange)] = None

    def blind(self) -> str:
        """Return why errors cannot be seen, in words; empty if they can."""
        if not self._requests:
            return NO_PRODUCE
        if not self._silent:
            return ""
        return f"brokers tell no errors to clients that write with acks=0: {some_of(self._silent)}"


def consumer(exchange: Exchange) -> str:
    """Return the client of a Fetch; empty if that is a broker or a controller."""
    return "" if replica_of(exchange) >= 0 else client_name(exchange)


def partitions_shown(numbers: Iterable[int]) -> str:
    """Return partitions in words: ``partition 3``, ``partitions 0-2``."""
    every = set(numbers)
    return f"{'partition' if len(every) == 1 else 'partitions'} {words.ranges(every)}"


def transactional_id(exchange: Exchange) -> str:
    """Return the transactional ID of a request of a producer; empty if it has none."""
    request = exchange.request_body
    return text(request, "transactional_id") or text(request, "v3_and_below_transactional_id")
