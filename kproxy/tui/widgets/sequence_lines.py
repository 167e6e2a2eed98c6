"""The lines of a sequence diagram, made from folded steps and the set of unfolded ones. Independent of Textual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from captures.analysis.conversation import Fold, Kind, Outcome, Step
from captures.time_format import milliseconds, milliseconds_range, span

LONG_SILENCE = 1_000_000_000
"""Least ns without messages that the diagram shows as silence."""

FoldKey = tuple[int, int, Kind]


class LineKind(Enum):
    """The kind of a line."""

    REQUEST = "request"
    RESPONSE = "response"
    EVENT = "event"
    """The start or end of a connection."""
    SILENCE = "silence"
    LOOP = "loop"
    """The head of repeated steps: several in turn, or unfolded ones."""
    EARLIER = "earlier"
    LATER = "later"
    """Exchanges beyond the window, as for EARLIER."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    :ivar step: its step; the first of a fold
    :ivar time: ns since the epoch, None if none is shown
    :ivar fold: key of its fold, None if it does not repeat
    :ivar margin: sign for folded and for connected lines
    :ivar single: whether it is of a single exchange that can be gone to
    """

    kind: LineKind
    text: str
    step: Step | None = None
    time: int | None = None
    fold: FoldKey | None = None
    margin: str = " "
    single: bool = False

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that stays the same when the diagram is rebuilt."""
        if self.step is None:
            return (self.kind,)
        return self.kind, self.step.kind, self.step.number, self.step.connection


def key_of(fold: Fold) -> FoldKey:
    """Return the key of a fold, which stays while its first step does."""
    first = fold.every[0]
    return first.number, first.connection, first.kind


def lines_of(
    folds: Sequence[Fold], unfolded: AbstractSet[FoldKey], *, before: int = 0, after: int = 0
) -> list[Line]:
    """Return the lines of a diagram.

    :param before: number of exchanges omitted before it
    :param after: number of exchanges omitted after it
    """
    lines: list[Line] = []
    if before:
        lines.append(Line(LineKind.EARLIER, f"… {before:,} exchanges before these (enter shows them)"))
    latest: int | None = None
    for fold in folds:
        begin = fold.every[0].time
        if latest is not None and begin - latest >= LONG_SILENCE:
            lines.append(Line(LineKind.SILENCE, f"… {span(begin - latest)} …", fold.every[0]))
        if fold.turns == 1:
            for step in fold.every:
                lines += _plain(step)
        else:
            lines += _repeated(fold, unfolded=key_of(fold) in unfolded)
        ends = max(step.end for step in fold.every)
        latest = ends if latest is None else max(latest, ends)
    if after:
        lines.append(Line(LineKind.LATER, f"… {after:,} exchanges after these (enter shows them)"))
    return lines


# ---------------------------------------------------------------- one by one
def _plain(step: Step, fold: FoldKey | None = None, margin: str = " ") -> Iterator[Line]:
    if step.kind is not Kind.EXCHANGE:
        took = "" if step.latency is None else f" ({milliseconds(step.latency)} ms)"
        yield Line(LineKind.EVENT, step.request + took, step, step.time, fold, margin)
        return
    if step.request:
        yield Line(LineKind.REQUEST, step.request, step, step.time, fold, margin, single=True)
    answer = _answer(step, step.response, [] if step.latency is None else [step.latency])
    if answer:
        time = step.time if not step.request else None
        yield Line(LineKind.RESPONSE, answer, step, time, fold, margin, single=True)


def _answer(step: Step, response: str, latencies: list[int]) -> str:
    match step.outcome:
        case Outcome.NONE_DUE:
            return ""
        case Outcome.IN_FLIGHT:
            return "in flight"
        case Outcome.UNANSWERED | Outcome.NOT_RECORDED | Outcome.ORPHAN:
            return response
    parts = [
        milliseconds_range(latencies) if latencies else "",
        "waited" if step.waited else "",
        response or "answer",
    ]
    return "  ".join(filter(None, parts))


# ---------------------------------------------------------------- repeats
def _repeated(fold: Fold, *, unfolded: bool) -> Iterator[Line]:
    key, first = key_of(fold), fold.every[0]
    if unfolded:
        yield Line(LineKind.LOOP, f"×{fold.turns:,}, unfolded", first, first.time, key, "▾")
        for step in fold.every:
            yield from _plain(step, key, "│")
    elif fold.length == 1:
        yield from _together(fold, 0, f"×{fold.turns:,}  ", "▸")
    else:
        text = f"×{fold.turns:,}, {fold.length} in turn"
        yield Line(LineKind.LOOP, text, first, first.time, key, "▸")
        for index in range(fold.length):
            yield from _together(fold, index, "", "│")


def _together(fold: Fold, index: int, times: str, margin: str) -> Iterator[Line]:
    """Yield the lines of a folded step, which stands for all its repeats."""
    key, step, every = key_of(fold), fold.steps[index], fold.of(index)
    more = ["…" if differ else "" for differ in fold.differ(index)]
    if step.request:
        text = f"{times}{step.request}{more[0]}"
        yield Line(LineKind.REQUEST, text, step, step.time, key, margin)
    answer = _answer(step, step.response + more[1], fold.latencies(index))
    if answer:
        times = "" if step.request else times
        # the time of the last one
        yield Line(
            LineKind.RESPONSE, times + answer, step, every[-1].end, key, "│" if step.request else margin
        )
