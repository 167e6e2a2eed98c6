"""The reference page of the rules (``docs/findings.md``), made from their own texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap

from captures.analysis.findings.all import RULES
from captures.analysis.findings.rule import Rule

_WIDTH = 120


def reference(rules: Iterable[type[Rule]] = RULES) -> str:
    """Return all rules as Markdown."""
    every = list(rules)
    return "\n".join([*_overview(every), *(line for rule in every for line in _one(rule))])


def _overview(rules: Iterable[type[Rule]]) -> Iterator[str]:
    yield from ("| rule | finds | severity |", "|---|---|---|")
    for rule in rules:
        yield f"| [`{rule.name}`](#{rule.name}) | {rule.title} | {rule.severity.word} |"


def _one(rule: type[Rule]) -> Iterator[str]:
    yield from ("", f"## `{rule.name}`", "")
    yield from wrap(f"{rule.title}. {rule.about}", _WIDTH, break_long_words=False, break_on_hyphens=False)
    if rule.thresholds:
        yield from ("", "| threshold | default | meaning |", "|---|---|---|")
        for threshold in rule.thresholds:
            default = threshold.shown(threshold.default)
            yield f"| `{rule.name}.{threshold.name}` | {default} | {threshold.about} |"
