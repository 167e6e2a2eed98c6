"""Comparison of rebalances that happened with those reported by the program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from captures.analysis.groups.history import GroupHistories
from captures.analysis.groups.model import GroupTimeline, Rebalance
from captures.analysis.groups.vocabulary import Kind, Trigger
from captures.exchanges import ExchangeReader, open_capture
from tests.captures.analysis.groups.exceptions import by_truth
from tests.captures.analysis.groups.truth import SECOND, ExpectedRebalance, Truth, TruthEvent, read

HEARTBEAT = {Kind.CLASSIC: 1.0, Kind.CONSUMER: 2.0, Kind.SHARE: 2.0, Kind.STREAMS: 2.0}
"""Seconds between heartbeats, as configured in clients and brokers."""


def read_groups(path: str) -> dict[str, GroupTimeline]:
    """Return the program's groups of a capture."""
    capture = open_capture(path)
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    histories = GroupHistories(reader.knowledge.topic_name, capture)
    for exchange in reader:
        histories.add(exchange)
    return {timeline.group: timeline for timeline in histories.result()}


def pairs(
    expected: list[ExpectedRebalance], found: list[Rebalance]
) -> list[tuple[ExpectedRebalance, Rebalance]]:
    """Return pairs of rebalances that happened and that are reported; another test covers missed and invented ones."""
    both, begin = [], 0
    for each in expected:
        for place in range(begin, len(found)):
            if _same(each, found[place]):
                both.append((each, found[place]))
                begin = place + 1
                break
    return both


def _same(expected: ExpectedRebalance, story: Rebalance) -> bool:
    if expected.running or story.running:
        return expected.running and story.running
    return expected.generation == story.generation


def listing(expected: list[ExpectedRebalance], found: list[Rebalance]) -> str:
    """Return both lists, for people who read a failed test."""
    lines = ["", "happened:", *(f"  {each}" for each in expected), "told:"]
    for story in found:
        causes = " + ".join(f"{cause.trigger} {cause.instance or cause.client}" for cause in story.causes)
        state = " emptied" if story.emptied else " running" if story.running else ""
        lines.append(f"  {story.generation}: {story.time / SECOND:.3f} {causes}{state} size {story.size}")
    return "\n".join(lines)


def is_of(truth: Truth, happened: TruthEvent, client: str, instance: str | None, member: str) -> bool:
    """Return whether a cause names the right member."""
    if happened.trigger is Trigger.PARTITIONS_CHANGED and not client:
        return True
    names = {client, client.partition("-StreamThread")[0]}
    named = bool(happened.who & names) or instance in {truth.instance(who) for who in happened.who}
    if not happened.who:
        named = not client
    return named and (not happened.member or member == happened.member)


def fits(truth: Truth, happened: TruthEvent, story: Rebalance) -> Iterator[bool]:
    """Return for each cause of a story whether it happened."""
    for cause in story.causes:
        about = is_of(truth, happened, cause.client, cause.instance, cause.member)
        yield cause.trigger == happened.trigger and about


def opens(truth: Truth, expected: ExpectedRebalance, story: Rebalance) -> bool:
    """Return whether a story begins with the cause that opened the rebalance."""
    first = story.cause
    return any(
        first.trigger == each.trigger and is_of(truth, each, first.client, first.instance, first.member)
        for each in expected.causes[: expected.openers]
    )


def differences(folder: Path, recording: str) -> list[str]:
    """Return the differences between the program's groups and the truth beside a recording, in words.

    :param recording: name of the file; its truth is in ``truth``
    """
    truth = read(recording.partition(".")[0], folder)
    timeline = read_groups(str(folder / recording))[truth.group]
    expected, found = by_truth(truth), timeline.rebalances
    wrong = []
    if [_key(each) for each in expected] != [_key(story) for story in found]:
        wrong.append(f"other rebalances{listing(expected, found)}")
    for each, story in pairs(expected, found):
        interval = HEARTBEAT[timeline.kind]
        if not opens(truth, each, story):
            wrong.append(f"another beginning{listing([each], [story])}")
        if not each.earliest - interval <= story.time / SECOND <= each.latest + interval:
            wrong.append(f"another time{listing([each], [story])}")
        missing = [cause for cause in each.causes if not any(fits(truth, cause, story))]
        wrong += [f"{cause.trigger} is not told{listing([each], [story])}" for cause in missing]
    return wrong


def _key(each: ExpectedRebalance | Rebalance) -> tuple[int | None, bool, bool]:
    return None if each.running else each.generation, each.emptied, each.running
