"""Settings that show only in the timing of requests: intervals, ages and back-offs.

An interval counts as a setting only if most of its repetitions are equal: commits by an application, or metadata
requests after errors, have no fixed interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import msgspec

from captures.analysis.clients.settings import MOST_EVIDENCE, Setting, ValueSource
from captures.exchanges import Exchange, Flag
from captures.meaning.words import counted
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

_MOST_GAPS = 1024
"""Most intervals kept per kind and client: the first ones are enough."""
_ALIKE = 0.1
"""Relative difference within which intervals count as equal."""
_ROUND = 0.015
"""Relative difference within which an interval is rounded to a round number."""
_LEAST = 3
"""Fewest intervals from which a setting is estimated."""
_LEAST_BACKOFF = 10 * MS
_SPREAD = 1.5
"""Largest ratio of two back-offs, which vary randomly by a fifth (KIP-580)."""
_SHARE = 0.6
_HEARTBEATS_SHARE = 0.7
_REFRESHES_SHARE = 0.8
_BURST = 1_000 * MS
"""Metadata requests that follow each other faster are not refreshes."""
_FRESH = 1_000 * MS
"""Nor are those at the start of a connection: the client has just been started."""
_LONGEST_RETRY = 30_000 * MS

RETRIABLE = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
})  # fmt: skip
"""Unknown topic or partition, leader not available, not leader, coordinator loading, not available, not coordinator:
errors after which clients retry after ``retry.backoff.ms``."""
TIMED = frozenset({ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT})
"""APIs of which only the time matters."""
_RETRIED = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FETCH})


class Gaps(msgspec.Struct):
    """Intervals of one kind, with the numbers of the exchanges that end them."""

    times: list[int] = []
    numbers: list[int] = []

    def add(self, gap: int, number: int) -> None:
        """Add an interval, in ns."""
        if gap > 0 and len(self.times) < _MOST_GAPS:
            self.times.append(gap)
            self.numbers.append(number)

    def steady(self, least: int, share: float) -> list[int]:
        """Return the indexes of equal intervals, if most are equal; otherwise none.

        :param least: least number of them
        :param share: least share of all
        """
        if len(self.times) < least:
            return []
        middle = median(self.times)
        alike = [at for at, gap in enumerate(self.times) if abs(gap - middle) <= _ALIKE * middle]
        return alike if len(alike) >= max(least, share * len(self.times)) else []


def configured(times: Sequence[int]) -> int:
    """Return the probable configured interval in ms for measured ones in ns.

    Clients act when they get to it, after an interval is over. So it is the roundest number between the shortest
    interval and the median, if there is one; otherwise the median.
    """
    low, middle = min(times) / MS * (1 - _ROUND), median(times) / MS
    high = middle * (1 + _ROUND)
    power = 10 ** max(len(str(int(middle))) - 1, 0)
    for unit in (power, power // 2, power // 10):
        near = round(middle / unit) * unit if unit else 0
        fits = [each for each in (near, near - unit) if unit and low <= each <= high and each > 0]
        if fits:
            return fits[0]
    return round(middle)


class RequestTiming:
    """The timing of one client's requests."""

    def __init__(self) -> None:
        self._heartbeats, self._commits, self._refreshes, self._retries = Gaps(), Gaps(), Gaps(), Gaps()
        self._last: dict[tuple[int, int], int] = {}
        self._asked: dict[str, int] = {}
        self._failed: dict[tuple[str, int], int] = {}
        self._opened: dict[int, int] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange; those of a connection must be in order."""
        key = exchange.api_key
        if key is None or Flag.ORPHAN in exchange.flag:
            return
        index = exchange.connection
        if index not in self._opened:
            self._opened[index] = exchange.time
            # it may be another client of the same name, whose intervals begin later
            self._asked.pop(exchange.client.rpartition(":")[0], None)
        if key in TIMED:
            self.repeat(key, index, exchange.time, exchange.number)
        elif key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP):
            # clients wait for a rebalance, and commit before it regardless of the interval
            self._last.pop((index, ApiKey.HEARTBEAT), None)
            self._last.pop((index, ApiKey.OFFSET_COMMIT), None)
        elif key == ApiKey.METADATA:
            self._refreshed(exchange)
        if key in _RETRIED:
            self._retry(key, exchange)

    def repeat(self, key: int, connection: int, time: int, number: int) -> None:
        """Learn from one exchange of the :data:`TIMED` APIs."""
        before = self._last.get((connection, key))
        if before is not None:
            gaps = self._heartbeats if key == ApiKey.HEARTBEAT else self._commits
            gaps.add(time - before, number)
        self._last[connection, key] = time

    def settings(self, *, streams: bool = False) -> Iterator[Setting]:
        """Yield the settings that can be estimated.

        :param streams: whether it is Kafka Streams, which commits by its own timer
        """
        yield from steady("heartbeat.interval.ms", self._heartbeats, "between heartbeats", _HEARTBEATS_SHARE)
        yield from steady(
            "metadata.max.age.ms", self._refreshes, "between Metadata requests", _REFRESHES_SHARE
        )
        yield from backoff("retry.backoff.ms", self._retries, "requests are sent again")
        interval = "commit.interval.ms" if streams else "auto.commit.interval.ms"
        for found in steady(interval, self._commits, "between commits"):
            if not streams:
                note = (
                    "commits come in equal intervals; an application that commits by a timer looks the same"
                )
                yield replace(found, key="enable.auto.commit", value="true", note=note)
            yield found

    def _refreshed(self, exchange: Exchange) -> None:
        host = exchange.client.rpartition(":")[0]
        before = self._asked.pop(host, None)
        if before is not None and exchange.time - before >= _BURST:
            self._refreshes.add(exchange.time - before, exchange.number)
        fresh = exchange.time - self._opened[exchange.connection] < _FRESH
        if not fresh and not exchange.errors:  # a request after an error or a start is not a refresh
            self._asked[host] = exchange.time

    def _retry(self, key: int, exchange: Exchange) -> None:
        asking = exchange.client.rpartition(":")[0], key
        before = self._failed.pop(asking, None)
        if before is not None and 0 < exchange.time - before <= _LONGEST_RETRY:
            self._retries.add(exchange.time - before, exchange.number)
        if exchange.answered_at is not None and any(error.code in RETRIABLE for error in exchange.errors):
            self._failed[asking] = exchange.answered_at


def steady(key: str, gaps: Gaps, what: str, share: float = _SHARE, least: int = _LEAST) -> Iterator[Setting]:
    """Yield the estimate of a setting from equal intervals, if most are equal.

    :param what: description of the intervals, for the note
    :param share: least share of equal ones
    :param least: least number of equal ones
    """
    alike = gaps.steady(least, share)
    if not alike:
        return
    times = [gaps.times[at] for at in alike]
    numbers = tuple(gaps.numbers[at] for at in alike[:MOST_EVIDENCE])
    note = f"{len(alike)} of {counted(len(gaps.times), 'interval')} {what}: {_span(times)} ms"
    yield Setting(key, configured(times), ValueSource.ESTIMATED, len(alike), numbers, note=note)


def backoff(key: str, gaps: Gaps, what: str) -> Iterator[Setting]:
    """Yield the estimate of a back-off from the shortest interval: later ones grow (KIP-580), or have other causes.

    :param what: what follows the interval, for the note
    """
    if len(gaps.times) < _LEAST:
        return
    shortest, second = sorted(gaps.times)[:2]
    # an immediate retry has no back-off, and a single short one had another reason
    if shortest < _LEAST_BACKOFF or second > _SPREAD * shortest:
        return
    note = (
        f"{counted(len(gaps.times), 'wait')} before {what}: {_span(gaps.times)} ms; the shortest one counts"
    )
    numbers = tuple(number for number in gaps.numbers[:MOST_EVIDENCE] if number)
    yield Setting(key, configured([shortest]), ValueSource.ESTIMATED, len(gaps.times), numbers, note=note)


def _span(times: list[int]) -> str:
    least, most = round(min(times) / MS), round(max(times) / MS)
    return f"{least:,}" if least == most else f"{least:,}-{most:,}"
