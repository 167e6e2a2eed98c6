"""Completion of rules, and the tables of docs/faults.md; both are made from the actions and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from captures.filters import Candidate, complete
from kproxy.proxy.rules.actions import ACTIONS, Action
from kproxy.proxy.rules.outages import MANNERS
from kproxy.proxy.rules.parser import ARROW, OPTIONS, PREFIX, arrow_in

_SIDES: Mapping[str, str] = {"request:": "only requests", "response:": "only responses"}
_LAST_WORD = re.compile(r"[^\s,()]*$")
_ARGUMENT = re.compile(r"\s*(\w+)\s+\S*$")


def complete_rule(
    text: str, cursor: int | None = None, known: Mapping[str, Iterable[str]] | None = None
) -> list[Candidate]:
    """Return completions at the cursor of a rule, as :func:`captures.filters.complete` does for a filter."""
    before = text if cursor is None else text[:cursor]
    arrow = arrow_in(before)
    if arrow >= 0:
        return _after_arrow(before, arrow + len(ARROW))
    side = PREFIX.match(before)
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
        options = {
            f"{name}=": f"{option.meaning.replace('*', '')}: {', '.join(option.examples)}"
            for name, option in OPTIONS.items()
        }
        return _fitting(options, "option", word, start)
    argument = _ARGUMENT.match(piece)
    if argument is not None and argument[1].lower() in ACTIONS:
        return _fitting(ACTIONS[argument[1].lower()].offers(), "value", word, start)
    if not before[begin:start].strip():
        return _fitting({name: _line(action) for name, action in ACTIONS.items()}, "action", word, start)
    return []


def _line(action: type[Action]) -> str:
    """Return an action's effect and examples of its argument."""
    examples = [example for example in action.forms if example]
    return ": ".join([next(iter(action.forms.values())), *([", ".join(examples)] if examples else [])])


def _word(before: str) -> tuple[str, int]:
    found = _LAST_WORD.search(before)
    assert found is not None
    return found[0], found.start()


def _fitting(offers: Mapping[str, str], kind: str, word: str, start: int) -> list[Candidate]:
    wanted = word.lower()
    return [
        Candidate(text, kind, doc, start) for text, doc in offers.items() if text.lower().startswith(wanted)
    ]


def reference() -> dict[str, str]:
    """Return the Markdown tables of actions and options, by the names of their places in docs/faults.md."""
    actions = [
        f"| `{f'{name} {example}'.strip()}` | {effect} |"
        for name, action in ACTIONS.items()
        for example, effect in action.forms.items()
    ]
    options = [
        f"| {', '.join(f'`{name}={example}`' for example in option.examples)} | {option.meaning} |"
        for name, option in OPTIONS.items()
    ]
    outages = [f"| `broker 2 down {manner}` | {effect} |" for manner, effect in MANNERS.items()]
    return {
        "outages": "\n".join(["| rule | what clients meet with |", "|---|---|", *outages]),
        "actions": "\n".join(["| action | what happens to the frame |", "|---|---|", *actions]),
        "options": "\n".join(["| option | meaning |", "|---|---|", *options]),
    }
