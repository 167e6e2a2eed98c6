"""The journey of a record as a list of hops, each with its time, its duration, and the exchange that shows it.

All views of a journey show these, on paper or on a screen. Inferences are marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from captures.analysis.journey.model import (
    Attempt,
    Commit,
    Delivery,
    GroupStops,
    Journey,
    LogPlace,
    Moment,
    Settlement,
)
from captures.analysis.journey.totals import GroupWaits
from captures.meaning import words
from dissectors.error_codes import ErrorCode, error_name

MOST_DELIVERIES = 5
"""Most deliveries to a group that are listed one by one; if there are more, the last is listed, too."""

_ACKS = {0: "acks=0", 1: "acks=1", -1: "acks=all"}


@dataclass(frozen=True, slots=True)
class Hop:
    """One step.

    :ivar name: what happened, in a word or two
    :ivar time: ns since the epoch; None if it was not captured
    :ivar wait: ns since the step before on its branch; None if unknown
    :ivar text: participants and details
    :ivar number: number of the exchange that shows it; None if none does
    :ivar branch: group or consumer of the step; empty for steps at the brokers
    :ivar odd: whether it deserves attention
    """

    name: str
    time: int | None
    wait: int | None
    text: str
    number: int | None
    branch: str = ""
    odd: bool = False


def hops(journey: Journey) -> list[Hop]:
    """Return the steps of a record: those at the brokers by time, then group by group."""
    at_brokers = sorted(_at_brokers(journey), key=lambda item: item[0])
    first = at_brokers[0][0] if at_brokers else 0
    timed = [
        hop if hop.time in (None, first) else replace(hop, wait=time - first) for time, hop in at_brokers
    ]
    since = journey.acknowledged.answered if journey.acknowledged else journey.sent
    timed += map(_in_log, journey.logs)
    return [*timed, *(hop for each in journey.groups for hop in _in_group(each, since))]


# ---------------------------------------------------------------- at the brokers
def _at_brokers(journey: Journey) -> Iterator[tuple[int, Hop]]:
    """Yield hops with the time by which they are sorted."""
    confirmed = False
    for index, attempt in enumerate(journey.attempts):
        again = " again" if index else ""
        acks = _ACKS.get(attempt.acks, f"acks={attempt.acks}")
        where = f"{words.line(attempt.client)} {attempt.address} to {attempt.broker}, {acks}"
        sent = Hop(f"sent{again}", attempt.sent, None, where, attempt.number, odd=bool(index))
        yield attempt.sent, sent
        answer = _answer(journey, attempt, again=confirmed)
        if answer is not None:
            yield answer.time or attempt.sent, answer
        confirmed |= attempt.answered is not None and not attempt.error
    if journey.copies:
        offsets = ", ".join(map(str, journey.copies))
        last = journey.attempts[-1]
        text = f"the log has it at offset {offsets}, too"
        yield last.sent, Hop("doubled", None, None, text, last.number, odd=True)
    if journey.readable is not None:
        yield _moment_hop("readable", journey.readable, "a Fetch returned a high watermark above it")
    if journey.stable is not None and journey.transaction is not None:
        yield _moment_hop(
            "stable",
            journey.stable,
            "a Fetch returned a last stable offset above it: the transaction is decided",
        )
    for node, moment in journey.replicas.items():
        yield _moment_hop("replicated", moment, f"to broker {node}")
    yield from _transaction(journey)


def _in_log(place: LogPlace) -> Hop:
    """Return the hop of a record in a log on disk; its clock is the broker's, so it has no duration."""
    if place.file is None:
        name = "not in the log" if place.absent else "in the log?"
        return Hop(name, None, None, words.line(f"{place.folder}: {place.reason}"), None)
    batch = f"batch {place.base_offset}..{place.last_offset}"
    text = f"{place.file} byte {place.position}, {batch}"
    if place.committed is not None:
        text += ", committed" if place.committed else ", aborted"
    if place.reason:
        text += f": {place.reason}"
    return Hop("in the log", place.appended, None, words.line(text), None, odd=bool(place.reason))


def _moment_hop(name: str, moment: Moment, text: str, *, odd: bool = False) -> tuple[int, Hop]:
    return moment.time, Hop(name, moment.time, None, text, moment.number, odd=odd)


def _answer(journey: Journey, attempt: Attempt, *, again: bool) -> Hop | None:
    number = attempt.number
    if attempt.answered is None:
        if attempt.found_at is not None:
            text = f"no answer tells: a batch of the same checksum was fetched at offset {attempt.found_at} (inferred)"
            return Hop("written", None, None, text, None, odd=attempt.acks != 0)
        return Hop("no answer", None, None, "in this capture", number, odd=True) if attempt.acks else None
    if attempt.error == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Hop("duplicate", attempt.answered, None, "the broker had the batch already", number, odd=True)
    if attempt.error:
        return Hop("refused", attempt.answered, None, error_name(attempt.error), number, odd=True)
    others = [each for each in journey.attempts if each.sent < attempt.sent]
    had = again and attempt.base_offset in [each.base_offset for each in others]
    text = f"batch at offset {attempt.base_offset}" + (", which the broker had already" if had else "")
    return Hop("acknowledged", attempt.answered, None, text, number, odd=again)


def _transaction(journey: Journey) -> Iterator[tuple[int, Hop]]:
    found = journey.transaction
    if found is None:
        return
    name = words.line(found.transactional_id or f"producer {found.producer_id}")
    how, done, odd = ("commit", "committed", False) if found.committed else ("abort", "aborted", True)
    if found.ended is not None:
        yield _moment_hop(f"{how} asked", found.ended, f"EndTxn of {name}", odd=odd)
        if found.end_answered is not None:
            answered = Moment(found.end_answered, found.ended.number)
            yield _moment_hop(done, answered, f"EndTxn of {name} answered", odd=odd)
    if found.written is not None:
        text = "WriteTxnMarkers: the coordinator has the leader write it"
        yield _moment_hop(f"{how} marker", found.written, text, odd=odd)
    if found.marker is not None:
        text = f"at offset {found.marker_offset}, as a Fetch brought it first"
        yield _moment_hop(f"{how} marker", found.marker, text, odd=odd)


# ---------------------------------------------------------------- in groups
def _in_group(group: GroupStops, since: int | None) -> Iterator[Hop]:
    branch = branch_name(group)
    if group.committed_before is not None:
        yield _done(group.committed_before, None, branch, "before it was delivered in this capture", odd=True)
    shown = group.deliveries
    if len(shown) > MOST_DELIVERIES + 1:
        shown = [*shown[:MOST_DELIVERIES], shown[-1]]
    before = since
    for index, delivery in enumerate(shown):
        left = len(group.deliveries) - len(shown) if index == MOST_DELIVERIES else 0
        text = _receiver(group, delivery) + (f", after {left:,} deliveries more" if left else "")
        name = "delivered again" if index or delivery.times > 1 else "delivered"
        wait = None if before is None else delivery.time - before
        yield Hop(name, delivery.time, wait, text, delivery.number, branch, odd=name != "delivered")
        before = delivery.time
    if group.commit is not None:
        first = group.deliveries[0].time if group.deliveries else None
        yield _done(group.commit, first, branch, "", odd=group.commit.kind > Settlement.ACCEPTED)
    elif group.group is not None and group.deliveries:
        missing = (
            "nothing settles it in this capture" if group.shares else "no commit above it in this capture"
        )
        yield Hop(
            "not committed" if not group.shares else "open", None, None, missing, None, branch, odd=True
        )


def _receiver(group: GroupStops, delivery: Delivery) -> str:
    who = f"to {words.line(delivery.client)} {delivery.address}"
    if delivery.member:
        inferred = "" if group.shares else " (inferred)"
        who += f", member {words.member(delivery.member)}{inferred}"
    if delivery.times > 1:
        who += f", delivery {delivery.times}"
    return who + (", read_committed" if delivery.committed_only else "")


def _done(commit: Commit, since: int | None, branch: str, more: str, *, odd: bool) -> Hop:
    parts = []
    if commit.offset is not None:
        parts.append(f"offset {commit.offset}")
    if commit.kind is Settlement.IN_TRANSACTION:
        parts.append("in a transaction")
    if commit.member:
        parts.append(f"by member {words.member(commit.member)}")
    parts.append(more)
    wait = None if since is None else commit.time - since
    name = "committed" if commit.kind is Settlement.IN_TRANSACTION else commit.kind.name.lower()
    return Hop(name, commit.time, wait, words.listed(parts), commit.number, branch, odd)


def branch_name(group: GroupStops | GroupWaits) -> str:
    """Return the name of a branch."""
    if group.group is None:
        return f"consumer {words.line(group.client)}, no group known"
    return f"{'share group' if group.shares else 'group'} {words.line(group.group)}"
