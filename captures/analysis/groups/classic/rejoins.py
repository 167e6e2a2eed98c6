"""Members that rejoin of their own accord, and why: other topics, other partitions, a second round, or no reason.

A member that learned of a rebalance rejoins because of that. Otherwise it starts a rebalance, if it is the leader or
its metadata changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from captures.analysis.groups.calls import Join, Subscription, WorkerOrders
from captures.analysis.groups.classic.generations import Generation, Transition
from captures.analysis.groups.classic.memberships import Memberships
from captures.analysis.groups.connectors import ConfigChange
from captures.analysis.groups.context import GroupContext, PartitionCountChange
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import Cause, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, Trigger
from captures.analysis.groups.words import quoted_reason
from captures.meaning import words
from captures.time_format import span

_REVOKED = ("need to revoke partitions", "after revoking")
"""Parts of the reasons of Java and franz-go for the second round of a cooperative rebalance (KIP-429)."""
_PARTITIONS_CHANGED = "cached metadata has changed"
_OF_STREAMS = ("probing rebalance", "followup rebalance")
"""Parts of the reasons of Streams, which moves tasks once revoked or warmed up (KIP-429, KIP-441)."""
_SUBSCRIPTION_CHANGED = "the subscription has changed"
"""Part of a reason of ``ConsumerCoordinator.rejoinNeededOrPending``."""


class Rejoins:
    """Finds the members that rejoined of their own accord, in the transitions of one group."""

    def __init__(self, group: str, memberships: Memberships, context: GroupContext, labels: Labels) -> None:
        self._group = group
        self._run: frozenset[TopicPartition] = frozenset()
        self._memberships = memberships
        self._context = context
        self._labels = labels

    def causes(self, transition: Transition, opened: int | None, notified: int | None) -> list[Cause]:
        """Return the causes that such members are in a transition, in the order of time.

        :param opened: time of the first other cause; None if there is none
        :param notified: when a member first learned of the transition; None if none did
        """
        before, after = transition.before, transition.generation
        new = self._new(after)
        if before is None:
            return []
        known = min((time for time in (opened, notified) if time is not None), default=None)
        found: list[Cause] = []
        seen: set[str] = set()
        for join in transition.joins:
            if join.asked_as not in transition.present or join.error or join.member in seen:
                continue
            seen.add(join.member)
            # a rebalance that others opened just before may not have been announced yet, so it was no reason to join
            own = self._memberships.of(join.member).first_notice(transition.begin, join.time) is None
            first = known is None or join.time <= known
            cause = self._cause(join, before, own=own, first=first and not found, new=new)
            if cause is not None:
                found.append(cause)
        if not (transition.whole and all(self._memberships.of(each).seen for each in transition.present)):
            # members revoke together, and the first to join again opens the second round
            found = [
                replace(cause, certainty=Certainty.POSSIBLE)
                if cause.trigger is Trigger.COOPERATIVE_FOLLOW_UP
                else cause
                for cause in found
            ]
        return found

    def _cause(
        self, join: Join, before: Generation, *, own: bool, first: bool, new: frozenset[TopicPartition]
    ) -> Cause | None:
        """Return why a member rejoined; None if the coordinator asked it to."""
        topics = self._topics(join, before)
        if topics is not None:
            return self._cause_of(join, Trigger.SUBSCRIPTION_CHANGED, Certainty.OBSERVED, topics)
        if not own:
            return None
        leads = join.member == before.leader
        if any(text in join.reason for text in _REVOKED):
            return self._second_round(join, Certainty.OBSERVED)
        if leads and (change := self._partitions(join, before)) is not None:
            return self._partitions_changed(join, change)
        if _PARTITIONS_CHANGED in join.reason:
            return self._cause_of(join, Trigger.PARTITIONS_CHANGED, *self._certainty_of_topics(join))
        if _SUBSCRIPTION_CHANGED in join.reason:
            return self._cause_of(
                join, Trigger.SUBSCRIPTION_CHANGED, Certainty.OBSERVED, "its subscription changed"
            )
        orders = before.orders.get(join.member, WorkerOrders())
        if self._gave_up(join, before) or orders.revoked or any(text in join.reason for text in _OF_STREAMS):
            return self._second_round(join, Certainty.INFERRED, orders.revoked)
        if not first:
            return None
        if leads:
            why, numbers = self._of_worker(join, orders, new)
            return self._cause_of(join, Trigger.LEADER_REJOINED, Certainty.OBSERVED, why, *numbers)
        if self._differs(join, before):
            why, numbers = self._of_worker(join, orders, new)
            why = why or "its metadata changed"
            return self._cause_of(join, Trigger.SUBSCRIPTION_CHANGED, Certainty.INFERRED, why, *numbers)
        return None

    def _cause_of(self, join: Join, trigger: Trigger, certainty: Certainty, why: str, *more: int) -> Cause:
        who = self._labels.of(join.member)
        if trigger is Trigger.LEADER_REJOINED:
            who = f"the leader, {who},"
        text = f"{who} joined again" + (f": {why}" if why else "")
        return Cause(
            trigger=trigger,
            certainty=certainty,
            time=join.time,
            sentence=text + quoted_reason(join.reason),
            member=join.member,
            instance=join.instance,
            client=join.client,
            evidence=(*more, join.number),
        )

    def _second_round(
        self, join: Join, certainty: Certainty, stopped: frozenset[TopicPartition] = frozenset()
    ) -> Cause:
        gave_up = f"stopped {partitions(stopped)}" if stopped else "revoked the partitions that others get"
        why = f"it has {gave_up} (second round of a cooperative rebalance)"
        cause = self._cause_of(join, Trigger.COOPERATIVE_FOLLOW_UP, certainty, why)
        # the member's own reason adds nothing
        return replace(cause, sentence=f"{self._labels.of(join.member)} joined again: {why}")

    # ------------------------------------------------------------ workers of Kafka Connect
    def _of_worker(
        self, join: Join, orders: WorkerOrders, new: frozenset[TopicPartition]
    ) -> tuple[str, list[int]]:
        """Return why a worker rejoined, in words, and exchanges that show it; empty if nothing shows it.

        :param new: connectors and tasks that no worker ran before
        """
        if join.config_offset is None:
            return "", []
        if orders.behind:
            return "the leader's configuration was older than another worker's", []
        earlier = self._memberships.of(join.member).joins_before(join.time)
        known = next((other.config_offset for other in earlier if other.config_offset is not None), None)
        changed = known is not None and known != join.config_offset
        if orders.delay and not changed:
            limit = f"{span(orders.delay)}, scheduled.rebalance.max.delay.ms"
            return f"the delay for a lost worker was over ({limit})", []
        if not changed or known is None:
            return "", []
        workers = dict.fromkeys(membership.client for membership in self._memberships)
        changes = self._context.configs.between(self._group, workers, known, join.config_offset)
        if changes:
            return self._configured(changes, new), sorted({change.number for change in changes})
        return (
            f"{partitions(new)} appeared" if new else "the configuration of connectors or tasks changed",
            [],
        )

    def _configured(self, changes: Sequence[ConfigChange], new: frozenset[TopicPartition]) -> str:
        """Return the changes of configurations in words, by connector."""
        altered: dict[str, list[str]] = {}
        for change in changes:
            name = change.connector
            created = TopicPartition(name, -1) in new
            if change.tasks is not None and any(tp.topic == name and tp.partition >= 0 for tp in new):
                what = f"has {words.counted(change.tasks, 'task')} now"
            elif change.tasks is not None:
                what = "has new settings of its tasks"
            elif change.deleted:
                what = "was deleted"
            else:
                what = "was created" if created else "was reconfigured"
            altered.setdefault(name, []).append(what)
        return words.listed(
            f"connector {words.line(name)} {' and '.join(dict.fromkeys(each))}"
            for name, each in altered.items()
        )

    def _new(self, generation: Generation | None) -> frozenset[TopicPartition]:
        """Return connectors and tasks that no worker ran in any earlier generation."""
        if generation is None or not generation.orders:
            return frozenset()
        every = frozenset().union(*generation.assigned.values())
        new = every - self._run
        self._run |= every
        return new

    # ------------------------------------------------------------ the subscription
    def _topics(self, join: Join, before: Generation) -> str | None:
        """Return the change of a member's subscription, in words; None if it is unchanged."""
        former = self._former(join, before)
        if former is None or join.subscription is None or former == join.subscription.topics:
            return None
        more = sorted({*join.subscription.topics} - {*former})
        less = sorted({*former} - {*join.subscription.topics})
        clauses = [f"subscribes to {words.some(map(words.line, more))} now"] if more else []
        clauses += [f"no longer subscribes to {words.some(map(words.line, less))}"] if less else []
        return f"it {' and '.join(clauses)}" if clauses else None

    def _former(self, join: Join, before: Generation) -> tuple[str, ...] | None:
        known = self._previous_subscription(join) or before.subscriptions.get(join.member)
        return known.topics if known is not None else None

    def _previous_subscription(self, join: Join) -> Subscription | None:
        """Return the subscription of a member's previous JoinGroup; None if there is none."""
        earlier = self._memberships.of(join.member).joins_before(join.time)
        return next((other.subscription for other in earlier if other.subscription is not None), None)

    def _differs(self, join: Join, before: Generation) -> bool:
        earlier = self._memberships.of(join.member).joins_before(join.time)
        known = next((other for other in earlier if other.answered == before.id), None)
        return known is not None and (known.protocols, known.metadata) != (join.protocols, join.metadata)

    # ------------------------------------------------------------ partitions
    def _partitions(self, join: Join, before: Generation) -> PartitionCountChange | None:
        """Return the latest new partition count, since the leader joined, of a topic that it assigns; None if none."""
        topics = {
            topic
            for known in (*before.subscriptions.values(), *([join.subscription] if join.subscription else []))
            for topic in known.topics
        }
        # a leader that joined before it had metadata had nothing to assign
        dealt = {tp.topic for topic_partitions in before.assigned.values() for tp in topic_partitions}
        since = max((each.time for each in before.joins if each.member == join.member), default=before.formed)
        news = [
            seen
            for topic in topics
            for seen in self._context.partitions.changes(topic)
            if since < seen.time <= join.time and (seen.before is not None or topic not in dealt)
        ]
        seen_by_client = [seen for seen in news if seen.client == join.client]
        return max(seen_by_client or news, default=None)

    def _partitions_changed(self, join: Join, change: PartitionCountChange) -> Cause:
        topic = next(
            (
                topic
                for topic in (join.subscription.topics if join.subscription else ())
                if change in self._context.partitions.changes(topic)
            ),
            "a topic",
        )
        before, after = change.before or 0, change.partitions
        lacked = self._context.partitions.lack(topic, change)
        if lacked is not None:
            why = f"Metadata lacked {words.line(topic)} for {span(lacked)}, as it does after a broker was restarted"
            return self._cause_of(join, Trigger.PARTITIONS_CHANGED, Certainty.INFERRED, why, change.number)
        if not after:
            why = f"{words.line(topic)} no longer exists"
        elif change.before is None:
            why = f"it only now learned that {words.line(topic)} has {words.counted(after, 'partition')}"
        elif not before:
            why = f"{words.line(topic)} exists now, with {words.counted(after, 'partition')}"
        else:
            why = f"{words.line(topic)} has {words.counted(after, 'partition')} now, {before} before"
        return self._cause_of(join, Trigger.PARTITIONS_CHANGED, Certainty.OBSERVED, why, change.number)

    def _certainty_of_topics(self, join: Join) -> tuple[Certainty, str]:
        """Return the certainty of changed partitions that a member gives as its reason, and the reason in words."""
        topics = join.subscription.topics if join.subscription is not None else ()
        changes = [self._context.partitions.changes(topic) for topic in topics]
        if changes and all(changes) and not any(seen.before is not None for news in changes for seen in news):
            # clients only learned that topics have the same partitions as before
            return (
                Certainty.INFERRED,
                "its metadata changed, though its topics have as many partitions as before",
            )
        return Certainty.OBSERVED, "the partitions of its topics changed"

    def _gave_up(self, join: Join, before: Generation) -> bool:
        """Return whether a member has revoked the partitions that the assignment took from it, and keeps the rest."""
        owned = join.subscription.owned if join.subscription is not None else None
        if owned is None:
            return False
        subscription = self._previous_subscription(join)
        had = subscription.owned if subscription is not None else None
        assigned = before.assigned.get(join.member)
        if not had or assigned is None:
            return False
        return bool(had - assigned) and owned == assigned and "coop" in before.protocol
