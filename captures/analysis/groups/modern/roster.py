"""The members of a group of a newer kind, found by member ID and by instance ID, and what they say of themselves."""

from __future__ import annotations

from dataclasses import replace

from captures.analysis.groups.calls import Call, Join, ModernBeat
from captures.analysis.groups.model import Kind, Place
from captures.analysis.groups.modern.lanes import ALWAYS, Lane, latest


class Roster:
    """Everybody who was seen.

    :ivar lanes: in the order of their first signs of life
    """

    def __init__(self, kind: Kind) -> None:
        self.lanes: list[Lane] = []
        self._kind = kind
        self._by_id: dict[str, Lane] = {}
        self._by_instance: dict[str, Lane] = {}

    @property
    def alone(self) -> bool:
        """Whether nobody is a member."""
        return not any(lane.alive for lane in self.lanes)

    def find(self, member: str, instance: str | None = None) -> Lane | None:
        """Return a member by an ID that it has or had, or else by its instance ID; None if it was not seen."""
        return self._by_id.get(member) or self._by_instance.get(instance or "")

    def known(self, call: Call) -> Lane:
        """Return the one who calls; it was there before the capture if it was not seen yet."""
        lane = self._by_id.get(call.member)
        if lane is None:
            lane = self.enter(call)
            self.enrol(lane, call.member, ALWAYS)
        return lane

    def enter(self, call: Call) -> Lane:
        """Return a new lane."""
        lane = Lane(
            member=call.member,
            client=call.client,
            host=call.host,
            first=call.time,
            last=latest(call),
            instance=call.instance,
        )
        self.lanes.append(lane)
        return lane

    def take(self, lane: Lane) -> None:
        """Take somebody in who is a member already."""
        self.lanes.append(lane)
        for member in (*lane.former, lane.member):
            self._by_id[member] = lane
        if lane.instance:
            self._by_instance[lane.instance] = lane

    def enrol(self, lane: Lane, member: str, begin: int) -> None:
        """Make somebody a member, under an ID."""
        lane.life(member, begin)
        self._by_id[member] = lane
        if lane.instance:
            self._by_instance[lane.instance] = lane

    def subscribe(self, lane: Lane, beat: ModernBeat) -> str:
        """Take in what a member says of itself; return what is new in its subscription, empty if nothing is."""
        lane.rack = beat.rack or lane.rack
        lane.assignor = beat.assignor or lane.assignor
        lane.rebalance_timeout = beat.rebalance_timeout or lane.rebalance_timeout
        lane.interval = beat.interval or lane.interval
        before, topology = lane.subscription, lane.topology
        known = lane.topics is not None or bool(lane.pattern)
        lane.topics = beat.topics if beat.topics is not None else lane.topics
        lane.pattern = beat.pattern if beat.pattern is not None else lane.pattern
        lane.topology = beat.topology if beat.topology is not None else topology
        if topology is not None and topology != lane.topology:
            return f"has another topology (epoch {lane.topology} instead of {topology})"
        return _news(lane) if known and set(before) != set(lane.subscription) else ""

    def resubscribe(self, lane: Lane, join: Join) -> str:
        """Do the same for a member of the classic protocol."""
        lane.session_timeout = join.session_timeout or lane.session_timeout
        lane.rebalance_timeout = join.rebalance_timeout or lane.rebalance_timeout
        before = lane.topics
        if join.subscription is None:
            return ""
        lane.topics = join.subscription.topics
        lane.rack = join.subscription.rack or lane.rack
        return _news(lane) if before is not None and set(before) != set(lane.topics) else ""

    def owns(self, lane: Lane, beat: ModernBeat) -> None:
        """Take in what a member says it has: it may have given up what it was asked for."""
        state = lane.state
        if beat.owned is None or state is None or state.owned == beat.owned:
            return
        held = beat.owned - (state.assigned if state.assigned is not None else beat.owned)
        since = state.since if held else None
        # it said so as it asked
        lane.note(replace(lane.now(beat), at=beat.time, owned=beat.owned, since=since))

    def answered(self, lane: Lane, beat: ModernBeat, epoch: int) -> frozenset[Place]:
        """Take in what a member is answered, and return what it is to have."""
        lane.heard(beat)
        self.owns(lane, beat)
        state = lane.state
        owned = beat.owned if beat.owned is not None or state is None else state.owned
        assigned = beat.assigned if beat.assigned is not None or state is None else state.assigned
        since = state.since if state is not None else None
        if self._kind is not Kind.SHARE and assigned is not None:
            since = (since or beat.at) if (owned or frozenset()) - assigned else None
        lane.note(replace(lane.now(beat), epoch=epoch, assigned=assigned, owned=owned, since=since))
        return assigned or frozenset()


def _news(lane: Lane) -> str:
    wanted = ", ".join(lane.subscription)
    return f"subscribes to {wanted} now" if wanted else "subscribes to nothing now"
