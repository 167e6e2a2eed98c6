"""What kproxy did to an exchange, in words: short for a line, and beside the fields of a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from captures.exchanges import Exchange
from captures.interventions import Change, Intervention
from captures.meaning import words
from captures.time_format import span
from dissectors.masks import Masks
from dissectors.sides import Side

_RELEASED = {
    "user": "released",
    "timeout": "released by itself before the client's timeout",
    "edited": "released with other content",
    "killed": "and its connection closed",
    "gone": "until its connection ended",
    "detached": "released when the last controller left",
}


def marks(exchange: Exchange) -> str:
    """Return what was done in few words, for a line; empty if nothing was."""
    found = []
    for side, done in (
        ("request", exchange.interventions.request),
        ("response", exchange.interventions.response),
    ):
        texts = [text for each in done for text in _short_words(each)]
        delayed = sum(each.delayed_ns for each in done)
        if delayed and not any(each.rule or each.is_held for each in done):
            texts.append(_DELAYED.format(span(delayed)))
        if texts:
            found.append(f"{'request ' if side == 'request' else ''}{', '.join(dict.fromkeys(texts))}")
    return f"[{'; '.join(found)}]" if found else ""


def _short_words(done: Intervention) -> Iterator[str]:
    if done.changed or done.unlisted:
        yield "changed"
    if done.action or done.rule:
        yield words.line(done.action or done.rule)
    if done.is_held:
        yield _hold_text(done)
    if done.answered:
        yield "answered by kproxy"
    if done.not_forwarded:
        yield "not forwarded"


_DELAYED = "waited {} in kproxy behind others"


def _hold_text(done: Intervention) -> str:
    released = _RELEASED.get(done.released_by, words.line(done.released_by))
    return f"held {span(done.held_ns)}{f', {released}' if released else ''}"


class Changes:
    """The values of one side that kproxy replaced, to be shown beside the originals.

    :param masked: field paths, with their side, of values that must not be shown
    :param show: formats a value
    """

    def __init__(self, exchange: Exchange, side: Side, show: Callable[[Any], str]) -> None:
        self._done: tuple[Intervention, ...] = getattr(exchange.interventions, side)
        self._masks = Masks(exchange.annotations.masked)
        self._side = side
        self._show = show
        self._left = {f"{side}.{change.path}": change for done in self._done for change in done.changed}

    def beside(self, path: str) -> str:
        """Return the text after the value of a field, empty if it was not changed."""
        change = self._left.pop(path, None) if self._left else None
        return "" if change is None else f" -> {self._value(path, change.got)} (changed by kproxy)"

    def lines(self) -> Iterator[str]:
        """Yield everything else, at the end: changes of fields that were not shown, faults, holds."""
        for path, change in self._left.items():
            yield f"~ {self._name(change)} {self._both(path, change)} (changed by kproxy)"
        unlisted = sum(done.unlisted for done in self._done)
        if unlisted:
            yield f"~ {words.counted(unlisted, 'more value')} changed by kproxy"
        for done in self._done:
            if done.action or done.rule:
                rule = f" (rule: {words.line(done.rule)})" if done.rule and done.action else ""
                yield f"~ {words.line(done.action or done.rule)}{rule}"
            if done.is_held:
                yield f"~ {_hold_text(done)}"
            if done.delayed_ns:
                yield f"~ {span(done.delayed_ns)} in kproxy before it went on"
            if done.answered:
                yield "~ answered by kproxy: the broker never saw the request"
            if done.not_forwarded:
                yield "~ not forwarded"

    def _name(self, change: Change) -> str:
        return words.line(change.path) or "all"

    def _both(self, path: str, change: Change) -> str:
        return f"{self._value(path, change.sent)} -> {self._value(path, change.got)}"

    def _value(self, path: str, value: Any) -> str:
        return "(masked)" if self._masks.covers(path) else self._show(value)
