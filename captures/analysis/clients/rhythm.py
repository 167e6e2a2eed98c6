"""Settings that only show in when requests are sent: intervals, ages and back-offs.

An interval counts as a setting only where most of its repetitions are alike: commits that an application makes, or
metadata that errors ask for, come when they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from captures.analysis.clients.settings import MOST_EVIDENCE, How, Setting
from captures.exchanges import Exchange, Flag
from captures.meaning.words import counted
from dissectors.api_keys import ApiKey
from dissectors.error_codes import ErrorCode
from dissectors.units import MS

_MOST_GAPS = 1024
"""Intervals kept of each kind and client: those at the beginning tell as much as all."""
_ALIKE = 0.1
"""Share of an interval by which others may differ to be alike."""
_ROUND = 0.015
"""Share by which a measured interval may be off from a round number to be taken for it."""
_LEAST_COMMITS = 3
_LEAST_HEARTBEATS = 3
_LEAST_REFRESHES = 3
_LEAST_RETRIES = 3
_LEAST_BACKOFF = 10 * MS
_SPREAD = 1.5
"""How many times as long as another a back-off can be, with a fifth more or less at random (KIP-580)."""
_SHARE = 0.6
_HEARTBEATS_SHARE = 0.7
_REFRESHES_SHARE = 0.8
_BURST = 1_000 * MS
"""Metadata requests that follow each other faster are not refreshes."""
_FRESH = 1_000 * MS
"""Neither are those at the beginning of a connection: the client has just been started."""
_LONGEST_RETRY = 30_000 * MS

RETRIABLE = frozenset({
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
})  # fmt: skip
"""Unknown topic or partition, leader not available, not leader, coordinator loading, not available, not coordinator:
what clients ask again for after ``retry.backoff.ms``."""
_RETRIED = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FETCH})


@dataclass(slots=True)
class Gaps:
    """Intervals of one kind, with the numbers of the exchanges that end them."""

    times: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def add(self, gap: int, number: int) -> None:
        """Add one, in ns."""
        if gap > 0 and len(self.times) < _MOST_GAPS:
            self.times.append(gap)
            self.numbers.append(number)

    def steady(self, least: int, share: float) -> list[int]:
        """Return where those are that are alike, if most are; nothing if they are not.

        :param least: how many there have to be
        :param share: how many of all
        """
        if len(self.times) < least:
            return []
        middle = median(self.times)
        alike = [at for at, gap in enumerate(self.times) if abs(gap - middle) <= _ALIKE * middle]
        return alike if len(alike) >= max(least, share * len(self.times)) else []


def configured(times: Sequence[int]) -> int:
    """Return the interval in ms that may be configured where these were measured, in ns.

    What is due is done when the client comes to it, so the roundest number between the shortest and the middle one is
    it, if there is one; otherwise the middle one.
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


class Rhythm:
    """When one client sends what."""

    def __init__(self) -> None:
        self._heartbeats, self._commits, self._refreshes, self._retries = Gaps(), Gaps(), Gaps(), Gaps()
        self._last: dict[tuple[int, int], int] = {}
        self._asked: dict[str, int] = {}
        self._failed: dict[tuple[str, int], int] = {}
        self._opened: dict[int, int] = {}

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange; those of a connection in their order."""
        key = exchange.api_key
        if key is None or Flag.ORPHAN in exchange.flag:
            return
        place = exchange.connection
        if place not in self._opened:
            self._opened[place] = exchange.time
            # maybe another client of the same name: its intervals begin later
            self._asked.pop(exchange.client.rpartition(":")[0], None)
        if key == ApiKey.HEARTBEAT:
            self._since(self._heartbeats, (place, key), exchange)
        elif key == ApiKey.OFFSET_COMMIT:
            self._since(self._commits, (place, key), exchange)
        elif key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP):
            # a rebalance is waited for, and commits come before it whatever the interval is
            self._last.pop((place, ApiKey.HEARTBEAT), None)
            self._last.pop((place, ApiKey.OFFSET_COMMIT), None)
        elif key == ApiKey.METADATA:
            self._refreshed(exchange)
        if key in _RETRIED:
            self._retry(key, exchange)

    def settings(self, *, streams: bool = False) -> list[Setting]:
        """Return what can be estimated.

        :param streams: whether it is Kafka Streams, which commits by a timer of its own
        """
        found = [
            steady(
                "heartbeat.interval.ms",
                self._heartbeats,
                _LEAST_HEARTBEATS,
                "between heartbeats",
                _HEARTBEATS_SHARE,
            ),
            steady(
                "metadata.max.age.ms",
                self._refreshes,
                _LEAST_REFRESHES,
                "between Metadata requests",
                _REFRESHES_SHARE,
            ),
            backoff("retry.backoff.ms", self._retries, "requests are sent again"),
            *self._committing(streams=streams),
        ]
        return [setting for setting in found if setting is not None]

    def _since(self, gaps: Gaps, place: tuple[int, int], exchange: Exchange) -> None:
        before = self._last.get(place)
        if before is not None:
            gaps.add(exchange.time - before, exchange.number)
        self._last[place] = exchange.time

    def _refreshed(self, exchange: Exchange) -> None:
        host = exchange.client.rpartition(":")[0]
        before = self._asked.pop(host, None)
        if before is not None and exchange.time - before >= _BURST:
            self._refreshes.add(exchange.time - before, exchange.number)
        fresh = exchange.time - self._opened[exchange.connection] < _FRESH
        if not fresh and not exchange.errors:  # what follows an error, or comes of a start, is no refresh
            self._asked[host] = exchange.time

    def _retry(self, key: int, exchange: Exchange) -> None:
        asking = exchange.client.rpartition(":")[0], key
        before = self._failed.pop(asking, None)
        if before is not None and 0 < exchange.time - before <= _LONGEST_RETRY:
            self._retries.add(exchange.time - before, exchange.number)
        if exchange.answered_at is not None and any(error.code in RETRIABLE for error in exchange.errors):
            self._failed[asking] = exchange.answered_at

    def _committing(self, *, streams: bool) -> list[Setting]:
        if streams:
            found = steady("commit.interval.ms", self._commits, _LEAST_COMMITS, "between commits")
            return [found] if found is not None else []
        interval = steady("auto.commit.interval.ms", self._commits, _LEAST_COMMITS, "between commits")
        if interval is None:
            return []
        note = "commits come in equal intervals; an application that commits by a timer looks the same"
        automatic = Setting(
            "enable.auto.commit", "true", How.ESTIMATED, interval.count, interval.evidence, note=note
        )
        return [automatic, interval]


def steady(key: str, gaps: Gaps, least: int, what: str, share: float = _SHARE) -> Setting | None:
    """Estimate a setting by the interval that most are alike to; None if they are not.

    :param least: how many of them there have to be
    :param what: the intervals are, for the note
    :param share: how many of all have to be alike
    """
    alike = gaps.steady(least, share)
    if not alike:
        return None
    times = [gaps.times[at] for at in alike]
    numbers = tuple(gaps.numbers[at] for at in alike[:MOST_EVIDENCE])
    note = f"{len(alike)} of {counted(len(gaps.times), 'interval')} {what}: {_span(times)} ms"
    return Setting(key, configured(times), How.ESTIMATED, len(alike), numbers, note=note)


def backoff(key: str, gaps: Gaps, what: str) -> Setting | None:
    """Estimate a back-off by the shortest one: later ones grow (KIP-580), and other things come between.

    :param what: comes after it, for the note
    """
    if len(gaps.times) < _LEAST_RETRIES:
        return None
    shortest, second = sorted(gaps.times)[:2]
    # what is asked again at once is not waited for, and a single short wait had another reason
    if shortest < _LEAST_BACKOFF or second > _SPREAD * shortest:
        return None
    note = (
        f"{counted(len(gaps.times), 'wait')} before {what}: {_span(gaps.times)} ms; the shortest one counts"
    )
    numbers = tuple(number for number in gaps.numbers[:MOST_EVIDENCE] if number)
    return Setting(key, configured([shortest]), How.ESTIMATED, len(gaps.times), numbers, note=note)


def _span(times: list[int]) -> str:
    least, most = round(min(times) / MS), round(max(times) / MS)
    return f"{least:,}" if least == most else f"{least:,}-{most:,}"
