"""How what needs all exchanges of a capture is shared among tasks, each of which has to look at all it needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from captures.analysis.findings.rule import Rule
from captures.tables.whole_rows import OF_GROUPS
from dissectors.api_keys import ApiKey

_RECORDS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""Produce and Fetch: most of what there is, and the dearest to look at."""
_WORTH_SHARING = 3
"""Processors from which on it is faster that exchanges are decoded several times, by several tasks."""


class Share(NamedTuple):
    """What one task makes of all exchanges.

    :ivar tables: names of tables
    :ivar rules: that make the findings
    """

    tables: tuple[str, ...]
    rules: tuple[type[Rule], ...]


def shares_of(tables: Sequence[str], rules: Sequence[type[Rule]], processors: int) -> list[Share]:
    """Divide tables, and the rules of the diagnosis, among tasks.

    With few processors one task makes all, while the others decode ranges.

    :param tables: names of tables that need all exchanges
    """
    if processors < _WORTH_SHARING or "findings" not in tables:
        return [Share(tuple(tables), tuple(rules))]
    groups = tuple(rule for rule in rules if rule.of_groups)
    records = tuple(rule for rule in rules if rule not in groups and rule.apis and rule.apis & _RECORDS)
    others = tuple(rule for rule in rules if rule not in groups and rule not in records)
    of_groups = tuple(name for name in tables if name in OF_GROUPS)
    of_others = tuple(name for name in tables if name not in OF_GROUPS and name != "findings")
    shares = [
        Share((*of_groups, *(["findings"] if groups else [])), groups),
        Share(("findings",) if records else (), records),
        Share((*of_others, *(["findings"] if others else [])), others),
    ]
    return [share for share in shares if share.tables]
