"""What a rebalance cost, in words."""

from __future__ import annotations

from collections.abc import Sequence

from captures.analysis.groups import labels
from captures.analysis.groups.model import Again, Rebalance, Stop
from captures.meaning import words
from captures.moments import span

_ALIKE, _SHOWN = 0.8, 2
"""In words, stops that are this part of the longest are as long as it; so many lengths are told."""


def cost_in_words(rebalance: Rebalance) -> str:
    """Return what a rebalance cost, in parts of a sentence; empty if nothing was seen that it cost.

    Such as ``nobody consumed orders 3-5 for 5.3 s (3 other partitions were consumed on); 12 records of orders-4 are
    fetched again; 2 commits failed (REBALANCE_IN_PROGRESS)``.
    """
    parts = [_stops_in_words(rebalance), _again_in_words(rebalance), _failures_in_words(rebalance)]
    return "; ".join(part for part in parts if part)


def _stops_in_words(rebalance: Rebalance) -> str:
    ended = [stop for stop in rebalance.stopped if stop.ended]
    lasting = [stop for stop in rebalance.stopped if not stop.ended]
    parts = []
    if ended:
        parts.append("nobody consumed " + _listed(ended))
    if lasting:
        parts.append(f"nobody has consumed {_listed(lasting)} so far")
    said = " and ".join(parts)
    on = rebalance.consumed_on
    if said and on:
        said += f" ({words.counted(on, 'other partition')} {'was' if on == 1 else 'were'} consumed on)"
    return said


def _listed(stops: list[Stop]) -> str:
    """``orders 3-5 for 5.3 s, orders-1 for 250.0 ms``: those that took about as long together, the longest first."""
    together: list[list[Stop]] = []
    for stop in sorted(stops, key=lambda stop: -stop.duration):
        if not together or stop.duration < together[-1][0].duration * _ALIKE:
            together.append([])
        together[-1].append(stop)
    shown, rest = together[:_SHOWN], [stop for alike in together[_SHOWN:] for stop in alike]
    parts = [f"{_places(alike)} for {span(alike[0].duration)}" for alike in shown]
    if rest:
        parts.append(f"{words.counted(len(rest), 'more partition')} for up to {span(rest[0].duration)}")
    return ", ".join(parts)


def _again_in_words(rebalance: Rebalance) -> str:
    if not rebalance.again:
        return ""
    count = sum(again.count for again in rebalance.again)
    verb = "is" if count == 1 else "are"
    return f"{words.counted(count, 'record')} of {_places(rebalance.again)} {verb} fetched again"


def _failures_in_words(rebalance: Rebalance) -> str:
    if not rebalance.commit_failures:
        return ""
    names = dict.fromkeys(failure.name for failure in rebalance.commit_failures)
    return f"{words.counted(len(rebalance.commit_failures), 'commit')} failed ({', '.join(names)})"


def _places(found: Sequence[Stop] | Sequence[Again]) -> str:
    return labels.partitions(each.place for each in found)
