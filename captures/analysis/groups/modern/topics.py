"""Changes of topics because of which the coordinator of a newer kind of group bumps the epoch.

A message may show them: an administrator's, or metadata that a client requested. Otherwise they show in assignments:
new partitions, tasks of a streams group whose internal topics had been missing, partitions of a share group whose state
had to be initialised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from captures.analysis.groups.context import GroupContext
from captures.analysis.groups.labels import partitions
from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.modern.members import Roster
from captures.analysis.groups.modern.reasons import MISSING, BumpEvidence, Reason
from captures.analysis.groups.vocabulary import Certainty, Kind, Trigger
from captures.meaning import words

_RESOLVED = 10_000_000_000
"""ns after which a pattern has been resolved again, if members send heartbeats."""
_NOTICED = 10_000_000_000
"""ns after a bump within which clients notice changes of their topics."""


@dataclass(slots=True, kw_only=True)
class TopicReason(Reason):
    """A bump because of topics.

    :ivar topic: topic that a message named; empty if none did
    :ivar exchange: number of the exchange with that message: each explains one bump
    :ivar deleted: whether the topic was deleted
    """

    topic: str = ""
    exchange: int = 0
    deleted: bool = False


class TopicChanges:
    """Finds changes of topics that explain bumps.

    :param roster: all members that were seen; may grow
    :param whole: returns whether all members were seen, as far as known
    """

    def __init__(self, kind: Kind, context: GroupContext, roster: Roster, whole: Callable[[], bool]) -> None:
        self._kind = kind
        self._context = context
        self._roster = roster
        self._whole = whole
        self._used: set[tuple[str, int]] = set()
        self._had: dict[str, set[int]] = {}
        self._missing: int | None = None
        self._resolving: tuple[int, str, int] | None = None

    def assigned(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Record that partitions were assigned to a member."""
        for tp in topic_partitions:
            self._had.setdefault(tp.topic, set()).add(tp.partition)

    def status(self, codes: Iterable[int], number: int) -> None:
        """Record the problems of a streams group."""
        if not MISSING.isdisjoint(codes):
            self._missing = number

    def found(self, shown: BumpEvidence) -> list[TopicReason]:
        """Return changes that may explain a bump, the surest first."""
        news = self._announced(shown) or self._appeared(shown)
        every = (self.resolved(shown.time, bumped=True), news, self._completed(shown))
        return [reason for reason in every if reason is not None]

    def taken(self, reason: Reason) -> None:
        """Record that a reason applies."""
        if not isinstance(reason, TopicReason):
            return
        if not reason.topic:
            self._missing = None
            return
        self._used.add((reason.topic, reason.exchange))
        if reason.deleted and self._by_pattern(reason.topic):
            self._resolving = reason.time, reason.topic, reason.exchange

    # ------------------------------------------------------------ in a message
    def _announced(self, shown: BumpEvidence) -> TopicReason | None:
        fresh = {tp.topic for tp in shown.gained} - self._had.keys() if self._whole() else set[str]()
        concerned = {tp.topic for tp in shown.gained | shown.lost}
        for topic in sorted(self._had.keys() | self._roster.topics | concerned):
            before = 0 if topic in fresh else None
            until = shown.time + (_NOTICED if topic in concerned else 0)
            for seen in self._context.partitions.changes(topic):
                if seen.time > until:
                    break
                new = (topic, seen.number) not in self._used and self._begun(seen.time)
                if new and before is not None and _is_news(before, seen.partitions):
                    return _changed(
                        replace(shown, since=max(shown.earliest, min(seen.time, shown.time))),
                        _news(topic, before, seen.partitions),
                        Certainty.OBSERVED,
                        seen.number,
                        topic=topic,
                        exchange=seen.number,
                        deleted=not seen.partitions,
                    )
                before = seen.partitions
        return None

    def _begun(self, time: int) -> bool:
        """Return whether there was a member at `time`."""
        return any(member.first <= time for member in self._roster.lanes)

    # ------------------------------------------------------------ in assignments
    def _appeared(self, shown: BumpEvidence) -> TopicReason | None:
        """Return the reason if new partitions appear; otherwise None."""
        if self._kind is not Kind.CONSUMER:
            return None
        fresh = {tp for tp in shown.gained if tp.topic not in self._had} if self._whole() else ()
        grown = {tp for tp in shown.gained if self._was_created(tp, shown)}
        if not grown and not fresh:
            return None
        news = "the topic has more partitions than before" if grown else "the topic is new to the group"
        return _changed(shown, f"{partitions(grown or fresh)} appeared: {news}", Certainty.INFERRED)

    def _was_created(self, tp: TopicPartition, shown: BumpEvidence) -> bool:
        """Return whether a partition follows all earlier ones of its topic."""
        had = self._had.get(tp.topic)
        if had is None or tp.partition in had:
            return False
        count = self._context.partitions.at(tp.topic, shown.earliest)
        if count is None and self._whole():
            count = max(had) + 1
        return count is not None and 0 < count <= tp.partition

    def _completed(self, shown: BumpEvidence) -> TopicReason | None:
        """Return the reason if a streams group no longer misses topics; otherwise None."""
        if self._missing is None or not MISSING.isdisjoint(shown.status):
            return None
        text = "the topics that the topology needs exist now"
        return _changed(shown, text, Certainty.INFERRED, self._missing)

    def given_out(self, shown: BumpEvidence, *, removed: bool) -> TopicReason | None:
        """Return the reason of another bump if partitions of a share group are assigned; otherwise None.

        The coordinator bumps the epoch when the state of share partitions was initialised (KIP-932), and Kafka 4.1 also
        when initialised partitions have no member, as after a session timeout.

        :param removed: whether a member was removed before
        """
        if self._kind is not Kind.SHARE or not shown.gained:
            return None
        new = {tp for tp in shown.gained if tp.partition not in self._had.get(tp.topic, ())}
        if new and self._whole():
            text = f"share partitions {partitions(new)} were initialised: members could get them"
            return _changed(shown, text, Certainty.INFERRED)
        if new or not removed:
            return None
        text = f"{partitions(shown.gained)} had no owner: the coordinator assigned them again"
        # it does so when it answers a heartbeat
        return _changed(replace(shown, since=shown.time), text, Certainty.INFERRED)

    # ------------------------------------------------------------ patterns
    def resolved(self, time: int, *, bumped: bool = False) -> TopicReason | None:
        """Return the reason of a second bump after the deletion of a topic that matched a pattern; otherwise None.

        The coordinator bumps the epoch at once, because the topic's metadata is gone, and again when it resolves the
        pattern with a heartbeat, at least 10 s after the last time (``GroupMetadataManager``,
        ``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``). Members may see neither.

        :param time: time of the latest call
        :param bumped: whether there was a bump that nothing else explains
        """
        if self._resolving is None:
            return None
        began, topic, number = self._resolving
        if not bumped and not self._has_contact(began + _RESOLVED, time):
            return None
        self._resolving = None
        text = f"the coordinator resolved the pattern of the group again, and {topic} no longer matches"
        return _changed(
            BumpEvidence(min(time, began + _RESOLVED), number, since=began),
            text,
            Certainty.INFERRED,
            topic=topic,
            exchange=number,
        )

    def _has_contact(self, begin: int, end: int) -> bool:
        """Return whether a member with a pattern sent a heartbeat from `begin` to `end`."""
        return any(
            member.pattern and (member.silent_since(end) or 0) >= begin for member in self._roster.present
        )

    def _by_pattern(self, topic: str) -> bool:
        """Return whether the group subscribes to a topic by a pattern alone."""
        alive = self._roster.present
        return any(member.pattern for member in alive) and not any(
            topic in (member.topics or ()) for member in alive
        )


def _is_news(before: int, after: int) -> bool:
    """Return whether a partition count is a change; topics only grow, so a lower count comes from a lagging broker."""
    return after > before or (before > 0 and after == 0)


def _news(topic: str, before: int, after: int) -> str:
    if not after:
        return f"{topic} was deleted"
    if not before:
        return f"{topic} was created with {words.counted(after, 'partition')}"
    return f"{topic} has {words.counted(after, 'partition')} instead of {before}"


def _changed(
    shown: BumpEvidence,
    text: str,
    certainty: Certainty,
    *numbers: int,
    topic: str = "",
    exchange: int = 0,
    deleted: bool = False,
) -> TopicReason:
    return TopicReason(
        trigger=Trigger.PARTITIONS_CHANGED,
        certainty=certainty,
        time=shown.about,
        text=text,
        numbers=(*numbers, shown.number),
        topic=topic,
        exchange=exchange,
        deleted=deleted,
    )
