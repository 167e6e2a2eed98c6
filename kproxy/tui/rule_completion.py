"""What may come next in a fault rule: a filter, an arrow, an action, options (:mod:`kproxy.proxy.rules.parsing`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from captures.filters import Candidate, complete
from dissectors.error_codes import ERRORS

ARROW = "=>"

ACTIONS: Mapping[str, str] = {
    "delay": "200ms, 100ms..500ms, normal(200ms, 50ms), exponential(50ms), lognormal(20ms, 300ms)",
    "error": "answer with an error: NOT_LEADER_OR_FOLLOWER, 6",
    "drop": "do not send it on; the connection stays",
    "reset": "reset the connection",
    "blackhole": "send nothing on, on this connection, from now on",
    "throttle": "send with a bandwidth: 100kB/s",
    "truncate": "send so many bytes of it, and close the connection: 100, 4kB",
    "corrupt": "change a byte of it, at an offset or anywhere",
}
OPTIONS: Mapping[str, str] = {
    "p=": "how likely: p=0.1, p=10%",
    "count=": "how often at most: count=5",
    "for=": "for how long: for=2m",
}

_SIDES: Mapping[str, str] = {"request:": "only requests", "response:": "only responses"}
_LAST_WORD = re.compile(r"[^\s,()]*$")
_ERROR = re.compile(r"\s*error\s+\S*$", re.IGNORECASE)


def complete_rule(
    text: str, cursor: int | None = None, known: Mapping[str, Iterable[str]] | None = None
) -> list[Candidate]:
    """Return what fits at the cursor of a rule, as :func:`captures.filters.complete` does for a filter."""
    before = text if cursor is None else text[:cursor]
    arrow = before.rfind(ARROW)
    if arrow >= 0:
        return _after_arrow(before, arrow + len(ARROW))
    side = re.match(r"\s*(?:request|response)\s*:", before)
    begin = side.end() if side else 0
    offers = [
        Candidate(one.text, one.kind, one.doc, one.start + begin)
        for one in complete(before[begin:], None, known)
    ]
    word, start = _word(before)
    if side is None and not before[:start].strip():
        offers += _fitting(_SIDES, "side", word, start)
    if any(one.kind == "connective" and one.text == "and" for one in offers):
        offers.append(Candidate(ARROW, "arrow", "what is done to it", start))
    return offers


def _after_arrow(before: str, begin: int) -> list[Candidate]:
    word, start = _word(before)
    piece = before[begin:]
    if "," in piece and piece.count("(") == piece.count(")"):
        return _fitting(OPTIONS, "option", word, start)
    if _ERROR.match(piece):
        errors = {error.name: error.advice for error in ERRORS if error.code}
        return _fitting(errors, "value", word, start)
    if not before[begin:start].strip():
        return _fitting(ACTIONS, "action", word, start)
    return []


def _word(before: str) -> tuple[str, int]:
    found = _LAST_WORD.search(before)
    assert found is not None
    return found[0], found.start()


def _fitting(offers: Mapping[str, str], kind: str, word: str, start: int) -> list[Candidate]:
    wanted = word.lower()
    return [
        Candidate(text, kind, doc, start) for text, doc in offers.items() if text.lower().startswith(wanted)
    ]
