"""Members of groups of the newer kinds over time: what each was told to have, what it said it had, when it was heard.

A lane is a member; a static member keeps its lane when it comes back with another member ID (KIP-345), and a member
that was expelled and joins anew with the ID that it made itself (KIP-848) keeps its lane, too, and has another life in
it.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from captures.analysis.groups.calls import Call, Run
from captures.analysis.groups.model import GroupMember, Phase, Place, Span

ALWAYS = 0
"""Begin of a life that began before the capture."""
_MISSED = 3
"""Heartbeats that have to be missing before a member counts as silent."""
_NEAR = 4
"""Calls that may overlap: a member rarely has more than one under way."""
_UNKNOWN_INTERVAL = 5_000_000_000
"""ns; ``group.consumer.heartbeat.interval.ms`` by default, as of share and streams groups."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of a member from a moment on.

    :ivar at: when the message was over that showed it
    :ivar asked: when it was sent, or the request to it
    :ivar number: of the exchange
    :ivar epoch: member epoch; -1 before it is known
    :ivar assigned: partitions that it is to have; None if not seen
    :ivar owned: partitions that it said it has; None if it did not say
    :ivar since: when it was told to give up what it still owns; None if it has nothing to give up
    """

    at: int
    asked: int
    number: int
    epoch: int
    assigned: frozenset[Place] | None = None
    owned: frozenset[Place] | None = None
    since: int | None = None

    @property
    def known(self) -> tuple[int, frozenset[Place] | None, frozenset[Place] | None, int | None]:
        """What it says, whenever it was shown."""
        return self.epoch, self.assigned, self.owned, self.since

    @property
    def held_back(self) -> frozenset[Place]:
        """Partitions that it was told to give up and still owns."""
        return (self.owned or frozenset()) - (self.assigned or frozenset())

    @property
    def held(self) -> frozenset[Place] | None:
        """Its own partitions: what it was asked to give up is, until it says that it has; None if not known."""
        return self.owned if self.assigned is None else self.assigned | self.held_back


@dataclass(slots=True)
class Life:
    """A time during which somebody was a member.

    :ivar member: ID
    :ivar begin: ns since the epoch; :data:`ALWAYS` if before the capture
    :ivar end: when it left or was removed; None if it did not
    :ivar expelled: whether it was removed without its doing
    """

    member: str
    begin: int
    end: int | None = None
    expelled: bool = False


@dataclass(slots=True, kw_only=True)
class Lane:
    """A member.

    :ivar member: ID; the latest of a static member
    :ivar classic: whether it speaks JoinGroup and SyncGroup
    :ivar calls: heartbeats and joins that were answered well, by their requests, in order
    :ivar states: in the order of time
    :ivar lives: likewise
    :ivar paused: when it went for a while (member epoch -2); None if it did not, or is back
    :ivar asked: request to join that was not answered: when, and number of the exchange
    """

    member: str
    client: str
    host: str
    first: int
    last: int
    instance: str | None = None
    former: list[str] = field(default_factory=list)
    classic: bool = False
    rack: str = ""
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    topology: int | None = None
    assignor: str = ""
    session_timeout: int | None = None
    rebalance_timeout: int | None = None
    interval: int | None = None
    connections: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    paused: int | None = None
    asked: tuple[int, int] | None = None

    @property
    def alive(self) -> bool:
        """Whether it is a member at the end of what was read so far."""
        return bool(self.lives) and self.lives[-1].end is None

    @property
    def state(self) -> State | None:
        """The latest."""
        return self.states[-1] if self.states else None

    @property
    def pace(self) -> int:
        """ns between its heartbeats, as far as known."""
        return self.interval or _UNKNOWN_INTERVAL

    @property
    def patience(self) -> int:
        """ns without a sign of life after which it counts as silent."""
        return _MISSED * self.pace

    @property
    def subscription(self) -> tuple[str, ...]:
        """Topics, and the pattern between slashes."""
        pattern = (f"/{self.pattern}/",) if self.pattern else ()
        return (*(self.topics or ()), *pattern)

    def life(self, member: str, begin: int) -> None:
        """Begin a life, unless it has one with this ID."""
        if self.alive:
            self.lives[-1].member = member
        else:
            self.lives.append(Life(member, begin))
        if member != self.member:
            if self.member not in self.former:
                self.former.append(self.member)
            self.member = member
        self.paused = None

    def ends(self, time: int, *, expelled: bool = False) -> None:
        """End its life."""
        if self.alive:
            life = self.lives[-1]
            life.end, life.expelled = time, expelled
        self.paused = None

    def lived_at(self, time: int) -> Life | None:
        """Return the life that it had at a moment; None if it was no member then."""
        for life in self.lives:
            if life.begin <= time and (life.end is None or time < life.end):
                return life
        return None

    def state_at(self, time: int) -> State | None:
        """Return the latest state that was known by a moment."""
        place = bisect_right(self.states, time, key=lambda state: state.at)
        return self.states[place - 1] if place else None

    def changed_before(self, time: int) -> int:
        """Return when what it has changed last before a moment; 0 if it did not."""
        state = self.state_at(time)
        return 0 if state is None else state.at

    def states_after(self, time: int) -> list[State]:
        """Return what was shown after a moment."""
        return self.states[bisect_right(self.states, time, key=lambda state: state.at) :]

    def heard(self, call: Call) -> None:
        """Take in that it was heard."""
        insort(self.calls, call, key=lambda known: known.time)
        self.first = min(self.first, call.time)
        self.last = max(self.last, latest(call))
        if call.connection not in self.connections:
            self.connections.append(call.connection)

    def silent_since(self, time: int) -> int | None:
        """Return when it was last heard before a moment; None if that is not known."""
        place = bisect_right(self.calls, time, key=lambda call: call.time)
        near = self.calls[max(place - _NEAR, 0) : place]
        return max((min(latest(call), time) for call in near), default=None)

    def call_before(self, time: int) -> Call | None:
        """Return the latest of its calls that began before a moment."""
        place = bisect_right(self.calls, time - 1, key=lambda call: call.time)
        return self.calls[place - 1] if place else None

    def last_number(self, time: int) -> int | None:
        """Return the number of the exchange by which it was last heard before a moment; None if it was not."""
        call = self.call_before(time)
        return call.last_number if isinstance(call, Run) else None if call is None else call.number

    def now(self, call: Call) -> State:
        """Return the latest state, as a call that is over shows it anew."""
        known = self.state or State(call.at, call.time, call.number, -1)
        return replace(known, at=call.at, asked=call.time, number=call.number)

    def note(self, state: State) -> None:
        """Take in a state, if anything in it is new."""
        if not self.states or state.known != self.states[-1].known:
            self.states.append(state)


def latest(call: Call) -> int:
    """Return when a call was last made."""
    return call.last if isinstance(call, Run) else call.time


def as_member(lane: Lane, now: int) -> GroupMember:
    """Return a lane as a member of a timeline."""
    ended = lane.lives[-1].end if lane.lives else None
    return GroupMember(
        member=lane.member,
        client=lane.client,
        host=lane.host,
        first=lane.first,
        last=lane.last,
        instance=lane.instance,
        former=list(lane.former),
        rack=lane.rack,
        subscription=lane.subscription,
        session_timeout=lane.session_timeout,
        rebalance_timeout=lane.rebalance_timeout,
        interval=lane.interval,
        left=ended,
        connections=list(lane.connections),
        spans=list(_spans(lane, now)),
    )


def _spans(lane: Lane, now: int) -> Iterator[Span]:
    for life in lane.lives:
        end = now if life.end is None else life.end
        states = [state for state in lane.states if life.begin <= state.at <= end]
        if not states:
            continue
        heard = lane.silent_since(end) or end
        quiet = life.expelled or (life.end is None and lane.paused is None and end - heard > lane.patience)
        still = max(heard, states[-1].at) if quiet else end
        yield from _phases(states, still)
        if quiet and still < end:
            number = lane.last_number(end) or states[-1].number
            yield Span(still, end, Phase.SILENT, states[-1].epoch, number)


def _phases(states: list[State], end: int) -> Iterator[Span]:
    if states[0].asked < states[0].at:
        yield Span(states[0].asked, states[0].at, Phase.JOINING, states[0].epoch, states[0].number)
    begun = states[0]
    for state in states[1:]:
        if _look(state) != _look(begun):
            yield _span(begun, state.at)
            begun = state
    if begun.at < end:
        yield _span(begun, end)


def _look(state: State) -> tuple[int, bool, frozenset[Place] | None]:
    return state.epoch, state.since is not None, state.assigned


def _span(state: State, end: int) -> Span:
    phase = Phase.STABLE if state.since is None else Phase.REVOKING
    return Span(state.at, end, phase, state.epoch, state.number, state.assigned)
