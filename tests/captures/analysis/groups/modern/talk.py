"""Synthetic messages of consumer, share and streams group members to their coordinator: a group ``orders``.

Topics have names where the wire has IDs. Times are seconds after the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Kind, Trigger
from captures.exchanges import Exchange
from tests.captures.analysis.groups.talk import Partitions, Talk

_KEYS = {Kind.CONSUMER: 68, Kind.SHARE: 76, Kind.STREAMS: 88}
INTERVAL = 5
"""Heartbeat interval in seconds that the coordinator requests."""


class ModernTalk(Talk):
    """Exchanges of a group of a newer kind, in order."""

    def __init__(self, kind: Kind = Kind.CONSUMER, group: str = "orders") -> None:
        super().__init__(group)
        self.kind = kind

    def heartbeat(
        self,
        member: str,
        time: float,
        epoch: int,
        answer: int = -1,
        assigned: Partitions | None = None,
        *,
        owned: Partitions | None = None,
        error: int = 0,
        answered: bool = True,
        status: Mapping[int, str] | None = None,
        request: Mapping[str, Any] | None = None,
        by: str = "",
        **fields: Any,
    ) -> Exchange:
        """A heartbeat that is answered after 2 ms; None means unchanged."""
        asked = {"group_id": self.group, "member_id": member, "member_epoch": epoch} | dict(request or {})
        said: dict[str, Any] = {
            "error_code": error,
            "member_id": member,
            "member_epoch": 0 if error else answer,
            "heartbeat_interval_ms": INTERVAL * 1000,
        }
        if self.kind is Kind.STREAMS:
            asked["active_tasks"] = None if owned is None else _tasks(owned)
            said["active_tasks"] = None if assigned is None else _tasks(assigned)
            said["standby_tasks"] = said["warmup_tasks"] = None if assigned is None else []
            said["status"] = [
                {"status_code": code, "status_detail": text} for code, text in (status or {}).items()
            ]
        else:
            asked["topic_partitions"] = None if owned is None else _topics(owned)
            said["assignment"] = None if assigned is None else {"topic_partitions": _topics(assigned)}
        end = time + 0.002 if answered else None
        return self._say(_KEYS[self.kind], 1, by or member, asked, said, time, end, **fields)

    def enter(
        self,
        member: str,
        time: float,
        answer: int,
        assigned: Partitions | None = None,
        *,
        topics: Iterable[str] | None = ("orders",),
        request: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Exchange:
        """The first heartbeat of a member, which joins with it."""
        wanted = {"subscribed_topic_names": None if topics is None else list(topics)}
        said = wanted | {"rebalance_timeout_ms": 60_000} | dict(request or {})
        held = {} if assigned is None else assigned
        return self.heartbeat(member, time, 0, answer, held, owned={}, request=said, **fields)

    def quiet(self, member: str, begin: float, end: float, epoch: int) -> None:
        """Heartbeats that keep a member alive, one every five seconds."""
        time = begin
        while time <= end:
            self.heartbeat(member, time, epoch, epoch)
            time += INTERVAL

    def go(self, member: str, time: float, epoch: int = -1, **fields: Any) -> Exchange:
        """The last heartbeat of a member, with which it leaves; with -2, a static one leaves temporarily."""
        return self.heartbeat(member, time, epoch, epoch, **fields)


def _topics(partitions: Partitions) -> list[dict[str, Any]]:
    return [{"topic_id": topic, "partitions": list(numbers)} for topic, numbers in partitions.items()]


def _tasks(tasks: Partitions) -> list[dict[str, Any]]:
    return [{"subtopology_id": topic, "partitions": list(numbers)} for topic, numbers in tasks.items()]


def two() -> ModernTalk:
    """m1 has orders 0-3 alone, then m2 joins and has 2-3 from second 15.002 on; both live until second 40."""
    talk = ModernTalk()
    talk.metadata("m1", -1, {"orders": 4})
    talk.enter("m1", 0, 1, {"orders": range(4)})
    talk.heartbeat("m1", 1, 1, 1, owned={"orders": range(4)})
    talk.enter("m2", 10, 2)
    talk.heartbeat("m1", 11, 1, 1, {"orders": [0, 1]})
    talk.heartbeat("m1", 12, 1, 2, owned={"orders": [0, 1]})
    talk.heartbeat("m2", 15, 2, 2, {"orders": [2, 3]})
    talk.heartbeat("m2", 15.1, 2, 2, owned={"orders": [2, 3]})
    talk.quiet("m1", 17, 40, 2)
    talk.quiet("m2", 20, 40, 2)
    return talk


def streams() -> ModernTalk:
    """s1 waits for its internal topics, and has three tasks from second 10.002 on."""
    talk = ModernTalk(Kind.STREAMS)
    talk.enter("s1", 0, 1, {}, topics=None, request={"topology": {"epoch": 0}}, status={3: "app-repartition"})
    talk.heartbeat("s1", 5, 1, 1, status={5: ""})
    talk.heartbeat("s1", 10, 1, 3, {"0": [0, 1], "1": [0]})
    return talk


def story(talk: ModernTalk, until: float | None = None) -> Rebalance:
    """Return the last rebalance of the group."""
    return talk.timeline(until).rebalances[-1]


def epochs(timeline: GroupTimeline) -> list[tuple[int, Trigger]]:
    """Return the epochs of a group's rebalances, and their causes."""
    return [(each.generation, each.trigger) for each in timeline.rebalances]
