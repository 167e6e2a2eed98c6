"""A rebalance as a list of facts, shown below its sentence by the text output, the HTML page and the UI."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

import msgspec

from captures.analysis.groups.labels import Labels, counter_of, partitions, task_names, transfers
from captures.analysis.groups.model import AwaitedMember, GroupTimeline, Rebalance, Wait
from captures.analysis.groups.vocabulary import Certainty, Kind, SessionEnd, TimeoutCause, Trait, Trigger
from captures.analysis.groups.words import CAUSES_SHOWN
from captures.meaning import words
from captures.names import Names
from captures.time_format import Clock, span

SHOWN = 4
"""Items of a long list, such as stopped partitions, that are named; the rest is counted."""
EVIDENCE_SHOWN = 12


class Tone(Enum):
    """How a fact is highlighted."""

    PLAIN = "plain"
    QUIET = "quiet"
    ODD = "odd"
    TROUBLE = "trouble"


class Fact(msgspec.Struct, frozen=True):
    """One line of a rebalance's description.

    :ivar title: one or two words
    """

    title: str
    text: str
    tone: Tone = Tone.PLAIN


def about(timeline: GroupTimeline, names: Names, clock: Clock) -> Iterator[Fact]:
    """Yield the facts about a group as a whole.

    Each refused or fenced client is one fact: ``dup FENCED_INSTANCE_ID, 3 times (#12)``.
    """
    moves = [f"{clock(seen.time)} {names.shown(seen.broker)}" for seen in timeline.coordinators]
    if len(moves) == 1:
        moves = [names.shown(timeline.coordinators[0].broker)]
    if moves:
        yield Fact("coordinator", ", then ".join(moves), Tone.ODD if len(moves) > 1 else Tone.PLAIN)
    for known in timeline.seen:
        yield Fact("seen", words.line(known), Tone.ODD)
    for each in timeline.refused:
        who = words.line(each.client) + (f" ({words.line(each.instance)})" if each.instance else "")
        holder = f"; {words.line(each.holder)} has its group.instance.id" if each.holder else ""
        text = f"{who} {each.name}, {words.counted(each.count, 'time')} (#{each.number}){holder}"
        yield Fact("refused", text, Tone.ODD)


def members_now(timeline: GroupTimeline) -> int:
    """Return how many members a group has at the end, as far as known."""
    ended = [rebalance for rebalance in timeline.rebalances if not rebalance.running]
    if ended and ended[-1].size is not None:
        return ended[-1].size
    # a silent member may still be one
    return sum(member.left is None for member in timeline.members)


def in_brief(timeline: GroupTimeline) -> str:
    """Return a group's kind and final state: ``classic group, range, Stable, generation 4, 2 members``."""
    kind = f"{timeline.kind} group"
    if timeline.protocol_type not in ("", "consumer"):
        kind += f" of type {words.line(timeline.protocol_type)}"
    counted = f"{counter_of(timeline.kind)} {timeline.generation}" if timeline.generation >= 0 else ""
    members = words.counted(members_now(timeline), "member")
    return words.listed([kind, words.line(timeline.protocol), timeline.state, counted, members])


def tone(rebalance: Rebalance) -> Tone:
    """Return how alarming a rebalance is."""
    if rebalance.running or Trait.ALARMING in rebalance.trigger.traits:
        return Tone.TROUBLE
    return Tone.ODD if rebalance.trigger is Trigger.UNKNOWN else Tone.PLAIN


def duration_text(rebalance: Rebalance, timeline: GroupTimeline) -> str:
    """Return how long a rebalance took, in words; empty if it took no time, as when the last member leaves."""
    if rebalance.running:
        return f"has not ended after {span(timeline.last - rebalance.time)}"
    if rebalance.duration is None:
        return "overtaken by the next" if rebalance.overtaken else "end not seen"
    return f"took {span(rebalance.duration)}" if rebalance.duration else ""


def manner(rebalance: Rebalance) -> str:
    """Return ``eager`` or ``cooperative``; empty if unknown."""
    return {True: "cooperative", False: "eager", None: ""}[rebalance.cooperative]


def who(rebalance: Rebalance, labels: Labels) -> str:
    """Return the label of the member that a rebalance concerns; empty if it concerns none."""
    cause = rebalance.cause
    return labels.of(cause.member, cause.client) if cause.member or cause.client else ""


def facts(
    rebalance: Rebalance,
    timeline: GroupTimeline,
    labels: Labels,
    *,
    shown: int | None = SHOWN,
    described: Collection[str] = (),
) -> list[Fact]:
    """Return the facts about a rebalance beside its sentence.

    :param shown: how many items of a long list are named; None for all
    :param described: IDs of incidents whose sentences the reader has seen before
    """
    because = rebalance.because_of
    brief = because is not None and because.id in described
    root = "" if because is None else because.id if brief else f"{because.id}: {words.line(because.sentence)}"
    every = [
        Fact("because of", root, Tone.ODD),
        *_silences(rebalance, labels, root),
        *_every(rebalance, timeline, labels, shown),
    ]
    return [fact for fact in every if fact.text]


def _silences(rebalance: Rebalance, labels: Labels, root: str) -> Iterator[Fact]:
    """Yield why members fell silent, unless the sentence of the incident, in `root`, says the same."""
    ends = [(cause, cause.session_end) for cause in rebalance.causes if cause.session_end is not None]
    for cause, end in ends:
        whose = f"{labels.of(cause.member, cause.client)}: " if len(ends) > 1 else ""
        text = _silence(end)
        yield Fact("silence", "" if text in root else whose + text)


def _every(
    rebalance: Rebalance, timeline: GroupTimeline, labels: Labels, shown: int | None
) -> Iterator[Fact]:
    for index, cause in enumerate(rebalance.causes[1:], 1):
        unsure = "" if cause.certainty is Certainty.OBSERVED else f" ({cause.certainty})"
        named = labels.of(cause.member, cause.client) if cause.member or cause.client else ""
        # the sentence of the rebalance contains those of its first causes
        text = f" {named}".rstrip() if index < CAUSES_SHOWN else f": {words.line(cause.sentence)}"
        yield Fact("also", f"{cause.trigger}{text}{unsure}")
    for each in rebalance.awaited:
        yield Fact("awaited", _awaited(each, timeline, labels), Tone.TROUBLE)
    yield Fact("waited", _waits(rebalance, labels, shown))
    yield Fact("moved", _moved(rebalance, labels, shown))
    yield Fact("tasks", _tasks(rebalance, labels, shown))
    yield Fact("status", words.line("; ".join(rebalance.status)), Tone.ODD)
    yield Fact("stopped", _stopped(rebalance, shown), Tone.ODD)
    yield Fact("delay", _delay(rebalance, timeline), Tone.ODD)
    yield Fact("twice", _refetched(rebalance, shown), Tone.ODD)
    yield Fact("commits", _failures(rebalance, labels, shown), Tone.TROUBLE)
    if rebalance.certainty is not Certainty.OBSERVED:
        yield Fact("or else", words.line("; ".join(rebalance.alternatives)))
    yield Fact("evidence", _numbers(rebalance.evidence, shown), Tone.QUIET)


def _silence(end: SessionEnd) -> str:
    """Return the evidence for the end of a session, and the alternatives."""
    unknown = ["the capture does not show why it fell silent"] if end.cause is TimeoutCause.UNKNOWN else []
    evidence = "; ".join([*unknown, *end.evidence])
    return words.line(evidence + "".join(f"; or else {text}" for text in end.alternatives))


def _numbers(numbers: Sequence[int], shown: int | None) -> str:
    texts = (f"#{number}" for number in dict.fromkeys(numbers))
    return words.some(texts, None if shown is None else EVIDENCE_SHOWN)


def _awaited(each: AwaitedMember, timeline: GroupTimeline, labels: Labels) -> str:
    parts = [f"{labels.of(each.member, each.client)} for {span(timeline.last - each.since)}"]
    if each.beats:
        idle = "does not join" if timeline.kind is Kind.CLASSIC else "does not give its partitions up"
        parts.append(f"it sent {words.counted(each.beats, 'heartbeat')} meanwhile, and {idle}")
    if each.deadline is not None:
        left = each.deadline - timeline.last
        parts.append(
            f"the group continues without it in {span(left)}"
            if left > 0
            else f"its time was over {span(-left)} ago"
        )
    return "; ".join(parts)


def _waits(rebalance: Rebalance, labels: Labels, shown: int | None) -> str:
    waits = sorted(rebalance.waits, key=lambda wait: -(wait.total or 0))
    parts = [(labels.of(wait.member, wait.client), _parts(wait)) for wait in waits]
    return words.some([f"{name} {waited}" for name, waited in parts if waited], shown, "; ")


def _parts(wait: Wait) -> str:
    # the member that opened it knew of it at once
    learned = None if wait.notified == wait.total else wait.notified or None
    named = ("learned after", learned), ("join", wait.join), ("sync", wait.sync)
    known = words.listed(f"{name} {span(time)}" for name, time in named if time is not None)
    return " ".join(
        filter(None, ["" if wait.total is None else span(wait.total), f"({known})" if known else ""])
    )


def _moved(rebalance: Rebalance, labels: Labels, shown: int | None) -> str:
    most = len(rebalance.moved) if shown is None else shown
    found = transfers(rebalance.moved, labels)
    texts = [f"{partitions(each.places, most)}: {each.before} → {each.after}" for each in found]
    return words.some(texts, shown, "; ")


def _tasks(rebalance: Rebalance, labels: Labels, shown: int | None) -> str:
    """Return the Kafka Streams tasks of each member."""
    parts = []
    for member, tasks in rebalance.tasks.items():
        kinds = zip(("active", "standby", "warm-up"), tasks, strict=True)
        named = [
            f"{kind} {task_names(topic_partitions)}" for kind, topic_partitions in kinds if topic_partitions
        ]
        parts.append(f"{labels.of(member)} {', '.join(named) or 'none'}")
    return words.some(parts, shown, "; ")


def _stopped(rebalance: Rebalance, shown: int | None) -> str:
    if not rebalance.stopped:
        return ""
    stops = sorted(rebalance.stopped, key=lambda stop: -stop.duration)
    still = {True: "", False: " and still"}
    each = [f"{words.line(str(stop.tp))} {span(stop.duration)}{still[stop.ended]}" for stop in stops]
    on = words.counted(rebalance.consumed_on, "other")
    others = f"; consumption of {on} continued" if rebalance.consumed_on else ""
    if rebalance.of_workers:
        return f"ran nowhere: {words.some(each, shown, ', ')}"
    return f"{words.counted(len(stops), 'partition')} not consumed: {words.some(each, shown, ', ')}{others}"


def _delay(rebalance: Rebalance, timeline: GroupTimeline) -> str:
    """Return what waits for a lost worker of Kafka Connect, and how long."""
    if rebalance.delay is None:
        return ""
    left = (rebalance.end or rebalance.time) + rebalance.delay - timeline.last
    still = f", {span(left)} of it left" if rebalance is timeline.rebalances[-1] and left > 0 else ""
    limit = f"{span(rebalance.delay)} for a lost worker (scheduled.rebalance.max.delay.ms){still}"
    return f"{limit}; until then nothing runs {partitions(rebalance.unassigned)}"


def _refetched(rebalance: Rebalance, shown: int | None) -> str:
    if not rebalance.refetched:
        return ""
    total = sum(each.count for each in rebalance.refetched)
    parts = [
        f"{words.line(str(each.tp))} {each.begin}-{each.end - 1} (#{each.number})"
        for each in rebalance.refetched
    ]
    return f"{words.counted(total, 'offset')} fetched again: {words.some(parts, shown, ', ')}"


def _failures(rebalance: Rebalance, labels: Labels, shown: int | None) -> str:
    if not rebalance.commit_failures:
        return ""
    parts = [f"{each.name} {labels.of(each.member)} (#{each.number})" for each in rebalance.commit_failures]
    return f"{len(rebalance.commit_failures)} failed: {words.some(parts, shown, ', ')}"


# ---------------------------------------------------------------- storms
def storms(rebalances: Sequence[Rebalance]) -> list[list[Rebalance]]:
    """Return rebalances in blocks: each storm is one block, at the place of its first rebalance."""
    blocks: list[list[Rebalance]] = []
    begun: dict[tuple[Trigger, str, int], list[Rebalance]] = {}
    for rebalance in rebalances:
        key = rebalance.trigger, rebalance.cause.instance or rebalance.cause.client, rebalance.storm
        block = begun.get(key)
        if rebalance.storm and block is not None and len(block) < rebalance.storm:
            block.append(rebalance)
            continue
        blocks.append([rebalance])
        begun[key] = blocks[-1]
    return blocks


def storm_title(block: Sequence[Rebalance], labels: Labels) -> str:
    """Return the title of a storm: its size, trigger and member."""
    cause = block[0].cause
    name = labels.of("", cause.instance or cause.client)
    return f"storm of {len(block)} rebalances: {block[0].trigger} {name}".rstrip()


def storm_facts(block: Sequence[Rebalance]) -> list[Fact]:
    """Return the cost of a storm of two or more rebalances."""
    apart = (block[-1].time - block[0].time) // (len(block) - 1)
    spent = sum(each.duration or 0 for each in block)
    stops = [stop for each in block for stop in each.stopped]
    worst = max(stops, key=lambda stop: stop.duration, default=None)
    longest = "" if worst is None else f"longest {words.line(str(worst.tp))} {span(worst.duration)}"
    refetched = sum(each.count for rebalance in block for each in rebalance.refetched)
    failed = sum(len(each.commit_failures) for each in block)
    found = [
        Fact("cost", f"one every {span(apart)}, {span(spent)} spent in rebalances"),
        Fact("stopped", longest, Tone.ODD),
        Fact("twice", f"{words.counted(refetched, 'offset')} fetched again" if refetched else "", Tone.ODD),
        Fact("commits", f"{failed} failed" if failed else "", Tone.TROUBLE),
        Fact(
            "evidence",
            _numbers([each.evidence[0] for each in block if each.evidence], SHOWN),
            Tone.QUIET,
        ),
    ]
    return [fact for fact in found if fact.text]
