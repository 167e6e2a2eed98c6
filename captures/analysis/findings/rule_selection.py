"""Rules and thresholds in the users' notation: ``slow_polls``, ``slow_polls.longest = 5s``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.filters.errors import did_you_mean
from captures.filters.values import duration, number, size
from dissectors.units import MS


class UnknownRuleError(ValueError):
    """An unknown rule or threshold, or an invalid value for it; the text may suggest a correction."""


def chosen(
    rules: Sequence[type[Rule]], only: Iterable[str] = (), without: Iterable[str] = ()
) -> list[type[Rule]]:
    """Return the selected rules.

    :param only: names; empty for all
    :param without: names of rules to leave out
    :raises UnknownRuleError: if there is no rule with a name
    """
    known = {rule.name: rule for rule in rules}
    wanted = [_rule(known, name) for name in only] or list(rules)
    unwanted = [_rule(known, name) for name in without]
    return [rule for rule in rules if rule in wanted and rule not in unwanted]


def limits(rules: Sequence[type[Rule]], settings: Iterable[str]) -> dict[str, float]:
    """Return thresholds from texts such as ``slow_polls.longest=5s``.

    :returns: ``rule.name`` -> value in the unit of the threshold
    :raises UnknownRuleError: if there is no such threshold, or a value is invalid for its unit
    """
    return dict(_limit(rules, text) for text in settings)


def _limit(rules: Sequence[type[Rule]], text: str) -> tuple[str, float]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise UnknownRuleError(f"{text!r} sets nothing: write RULE.NAME=VALUE")
    rule_name, _, threshold_name = name.partition(".")
    rule = _rule({rule.name: rule for rule in rules}, rule_name)
    thresholds = {f"{rule.name}.{each.name}": each for each in rule.thresholds}
    threshold = thresholds.get(name)
    if threshold is None:
        known = f"it has {', '.join(thresholds)}" if thresholds else "it has none"
        raise UnknownRuleError(f"{rule.name} has no threshold {threshold_name!r}: {known}")
    found = parsed(threshold, value)
    if found is None:
        raise UnknownRuleError(
            f"{value!r} is no value of {name}: write something like {threshold.shown(threshold.default)}"
        )
    return name, found


def _rule(known: dict[str, type[Rule]], name: str) -> type[Rule]:
    rule = known.get(name)
    if rule is None:
        hint = did_you_mean(name, known)
        raise UnknownRuleError(f"there is no rule {name!r}{f': {hint}' if hint else ''}")
    return rule


def parsed(threshold: Threshold, text: str) -> float | None:
    """Return the value of a threshold, given with its unit, a related unit, or none; None if it is invalid."""
    written = text.strip().replace(",", "").replace(" ", "")
    found = number(written.removesuffix(threshold.unit.value))
    if found is None and threshold.unit is Unit.MS and (ns := duration(written)) is not None:
        found = ns / MS
    if found is None and threshold.unit is Unit.BYTES:
        found = size(written)
    return float(found) if found is not None and found >= 0 and math.isfinite(found) else None
