"""Invariants of every conversation: segmentation, interleaving, garbage and gaps."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.conversation import (
    Conversation,
    Damage,
    Event,
    FrameExchange,
    Limits,
    Outcome,
    Side,
    SkippedBytes,
    State,
)
from dissectors.units import KIB
from tests.dissectors.conversation.streams import (
    FETCH,
    METADATA,
    SASL_HANDSHAKE,
    VERSIONS,
    brief,
    frame,
    noise,
    produce,
    request,
    response,
)

#: one transmission: its sender and bytes
Step = tuple[Side, bytes]


@dataclass
class Script:
    """A conversation in causal order, and its answered exchanges as stream ranges."""

    steps: list[Step] = field(default_factory=list)
    exchanges: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)
    sent: dict[Side, int] = field(default_factory=lambda: {Side.CLIENT: 0, Side.BROKER: 0})

    def send(self, side: Side, data: bytes) -> tuple[int, int]:
        start = self.sent[side]
        self.sent[side] += len(data)
        self.steps.append((side, data))
        return start, self.sent[side]

    def stream(self, side: Side) -> bytes:
        return b"".join(data for whose, data in self.steps if whose is side)


@st.composite
def scripts(draw: st.DrawFn, *, sasl: bool = True, first_id: int = 1, frames: int = 25) -> Script:
    """Pipelined requests of one client with rising IDs, acks=0 among them; perhaps raw SASL tokens first."""
    script = Script()
    if sasl and draw(st.booleans()):
        handshake = request(-1, b"\x00\x05PLAIN", key=SASL_HANDSHAKE, version=0)
        asked = script.send(Side.CLIENT, handshake)
        script.exchanges.append((asked, script.send(Side.BROKER, response(-1, b"\x00\x00\x00\x00\x00\x00"))))
        script.send(Side.CLIENT, frame(b"\0alice\0secret"))
        script.send(Side.BROKER, frame(b""))
    waiting: list[tuple[tuple[int, int], int]] = []
    correlation_id = first_id
    for seed in range(draw(st.integers(1, frames))):
        if draw(st.booleans()) or not waiting:
            kind = draw(st.sampled_from(["acks0", "produce", "fetch", "metadata"]))
            size = draw(st.integers(0, 300))
            if kind == "acks0":
                script.send(Side.CLIENT, produce(correlation_id, 0))
            elif kind == "produce":
                waiting.append(
                    (script.send(Side.CLIENT, produce(correlation_id, 1, version=9)), correlation_id)
                )
            else:
                key = FETCH if kind == "fetch" else METADATA
                waiting.append(
                    (
                        script.send(Side.CLIENT, request(correlation_id, noise(size, seed), key=key)),
                        correlation_id,
                    )
                )
            correlation_id += 1
        else:
            asked, answered = waiting.pop(0)
            body = noise(draw(st.integers(0, 500)), seed)
            script.exchanges.append((asked, script.send(Side.BROKER, response(answered, body))))
    return script


def feed(steps: list[Step], limits: Limits | None = None) -> list[Event]:
    conversation = Conversation(VERSIONS, limits)
    for side, data in steps:
        conversation.receive(side, data)
    conversation.finish()
    return list(conversation.events())


def answered(events: list[Event]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return [
        ((event.request.start, event.request.end), (event.response.start, event.response.end))
        for event in events
        if isinstance(event, FrameExchange)
        and event.outcome is Outcome.ANSWERED
        and event.request
        and event.response
    ]


def cut_up(steps: list[Step], seed: int, largest: int) -> list[Step]:
    dice = random.Random(seed)
    pieces = []
    for side, data in steps:
        while data:
            size = dice.randint(1, largest)
            pieces.append((side, data[:size]))
            data = data[size:]
    return pieces


#: enough for every run; the properties were developed with thousands of examples
FEW = 60


@pytest.mark.slow
@given(scripts(), st.integers(0, 1000), st.sampled_from([1, 7, 100]))
@settings(max_examples=FEW, deadline=None)
def test_segmentation_does_not_matter(script: Script, seed: int, largest: int) -> None:
    whole = feed(script.steps)
    assert sorted(answered(whole)) == sorted(script.exchanges)
    assert feed(cut_up(script.steps, seed, largest)) == whole


@pytest.mark.slow
@given(scripts(), st.randoms(use_true_random=False))
@settings(max_examples=FEW, deadline=None)
def test_interleaving_does_not_matter(script: Script, dice: random.Random) -> None:
    queues = {side: [step for step in cut_up(script.steps, 1, 200) if step[0] is side] for side in Side}
    mixed = []
    while any(queues.values()):
        mixed.append(queues[dice.choice([side for side in Side if queues[side]])].pop(0))
    told = feed(mixed)
    assert sorted(answered(told)) == sorted(script.exchanges)
    assert sorted(map(brief, told)) == sorted(map(brief, feed(script.steps)))


@pytest.mark.slow
@given(scripts(sasl=False, frames=40), st.data())
@settings(max_examples=FEW, deadline=None)
def test_garbage_between_frames_costs_little(script: Script, data: st.DataObject) -> None:
    """Exchanges before the garbage are found, none is wrong, and enough frames later all are found again."""
    place = data.draw(st.integers(0, len(script.steps)))
    side = data.draw(st.sampled_from(Side))
    junk = data.draw(st.one_of(st.binary(min_size=1, max_size=300), st.integers(1, 400).map(noise)))
    at = sum(len(sent) for whose, sent in script.steps[:place] if whose is side)
    events = feed([*script.steps[:place], (side, junk), *script.steps[place:]])

    def moved(span: tuple[int, int], whose: Side) -> tuple[int, int]:
        shift = len(junk) if whose is side and span[0] >= at else 0
        return span[0] + shift, span[1] + shift

    true = {(moved(asked, Side.CLIENT), moved(reply, Side.BROKER)) for asked, reply in script.exchanges}
    found = set(answered(events))
    assert found <= true, (found - true, junk, place)
    before = {pair for pair in true if pair[0][1] <= at and pair[1][1] <= at}
    assert before <= found or not place


@given(st.lists(st.tuples(st.sampled_from(Side), st.binary(max_size=200)), max_size=30), st.booleans())
@settings(max_examples=FEW, deadline=None)
def test_any_bytes_are_taken(steps: list[Step], midstream: bool) -> None:
    conversation = Conversation(VERSIONS, midstream=midstream)
    for side, data in steps:
        conversation.receive(side, data)
    conversation.finish()
    events = list(conversation.events())
    assert brief(events[-1]) == "finished"
    assert not conversation._pairing.queue


#: bytes, valid or invalid frames, holes (None: of unknown length), the end of a side
ACTIONS = st.one_of(
    st.binary(max_size=60),
    st.builds(request, st.integers(-1, 3), key=st.sampled_from([0, 3, 7, 17, 99]), version=st.integers(0, 1)),
    st.builds(response, st.integers(-1, 3)),
    st.one_of(st.none(), st.integers(1, 50)),
    st.just("close"),
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(Side), ACTIONS), max_size=40), st.booleans())
@settings(max_examples=FEW * 2, deadline=None)
def test_each_request_has_one_exchange_whatever_happens(
    actions: list[tuple[Side, object]], midstream: bool
) -> None:
    conversation = Conversation(
        VERSIONS, Limits(max_frame=100, kept_prefix=20, max_pending_requests=5), midstream=midstream
    )
    for side, action in actions:
        if isinstance(action, bytes):
            conversation.receive(side, action)
        elif action == "close":
            conversation.finish()
        else:
            conversation.gap(side, action, "lost")  # type: ignore[arg-type]  # None or a length by construction
    conversation.finish()
    seen, done = [], []
    for event in conversation.events():
        if isinstance(event, FrameExchange) and event.request is not None:
            done.append(event.request.start)
        elif brief(event).startswith("seen"):
            seen.append(event.request.start)
    assert set(seen) <= set(done)
    assert conversation.state(Side.CLIENT) is conversation.state(Side.BROKER) is State.CLOSED


def test_what_a_hostile_stream_makes_it_hold_is_bounded() -> None:
    limits = Limits(resync_window=64 * KIB, max_token=8 * KIB)
    dice = random.Random(7)
    conversation = Conversation(VERSIONS, limits)
    for _ in range(400):
        side = dice.choice(list(Side))
        data = dice.choice(
            [
                noise(3000, dice.randrange(9)),
                bytes(3000),
                request(dice.randrange(9), bytes(dice.randrange(900))),
            ]
        )
        conversation.receive(side, data)
        list(conversation.events())
        for half in (conversation._client, conversation._broker):
            assert half.buffer.available <= 1100 * KIB


@pytest.mark.slow
@given(scripts(sasl=False, first_id=1000, frames=40), st.data())
@settings(max_examples=FEW * 2, deadline=None)
def test_gaps_cost_only_what_they_touch(script: Script, data: st.DataObject) -> None:
    """Every exchange outside the damage is recovered, and none is wrong.

    Outside means that no byte is missing of either frame, or of the frame before it, whose end locates it.
    """
    holes: dict[Side, list[tuple[int, int]]] = {Side.CLIENT: [], Side.BROKER: []}
    for side in Side:
        total = script.sent[side]
        for _ in range(data.draw(st.integers(0, 2)) if total else 0):
            start = data.draw(st.integers(0, total - 1))
            holes[side].append((start, start + data.draw(st.integers(1, 400))))
    told = feed_with_holes(script, holes)
    found = set(answered(told))
    assert found <= set(script.exchanges)

    def hurt(side: Side, span: tuple[int, int]) -> bool:
        return any(start < span[1] and span[0] < stop for start, stop in holes[side])

    for asked, reply in script.exchanges:
        if not hurt(Side.CLIENT, asked) and not hurt(Side.BROKER, reply):
            assert (asked, reply) in found, (asked, reply, holes, [brief(event) for event in told])


def feed_with_holes(script: Script, holes: dict[Side, list[tuple[int, int]]]) -> list[Event]:
    conversation = Conversation(VERSIONS)
    place = {Side.CLIENT: 0, Side.BROKER: 0}
    for side, data in script.steps:
        start, stop = place[side], place[side] + len(data)
        place[side] = stop
        edges = sorted({start, stop, *(edge for hole in holes[side] for edge in hole if start < edge < stop)})
        for left, right in pairwise(edges):
            if any(hole[0] <= left and right <= hole[1] for hole in holes[side]):
                conversation.gap(side, right - left, "lost")
            else:
                conversation.receive(side, data[left - start : right - start])
    conversation.finish()
    return list(conversation.events())


@pytest.mark.slow
@given(scripts(), st.data())
@settings(max_examples=FEW, deadline=None)
def test_every_byte_is_accounted_for(script: Script, data: st.DataObject) -> None:
    """Frames, tokens and skipped ranges cover each stream without overlap; a frame cut off counts as skipped."""
    hole = data.draw(st.integers(0, max(script.sent[Side.BROKER] - 1, 0)))
    told = feed_with_holes(script, {Side.CLIENT: [], Side.BROKER: [(hole, hole + 40)]})
    for side in Side:
        spans = []
        for event in told:
            if isinstance(event, FrameExchange):
                part = event.request if side is Side.CLIENT else event.response
                spans += [(part.start, part.end)] if part and part.damage is not Damage.CUT_OFF else []
            elif isinstance(event, SkippedBytes) or hasattr(event, "mechanism"):
                spans += [(event.start, event.end)] if event.side is side else []
        spans.sort()
        assert sum(stop - start for start, stop in spans) == script.sent[side], spans
        assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))


def test_scripts_are_what_they_say() -> None:
    script = Script()
    script.send(Side.CLIENT, request(1))
    script.send(Side.CLIENT, request(2))
    assert script.stream(Side.CLIENT) == request(1) + request(2)
    assert list(accumulate(len(data) for _, data in script.steps))[-1] == script.sent[Side.CLIENT]
