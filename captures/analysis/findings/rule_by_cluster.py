"""A rule that judges each cluster of a capture by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from captures.analysis.clusters import UNKNOWN, Clusters, beside
from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Rule, RuleContext
from captures.exchanges import Exchange


class RuleByCluster(Rule):
    """A rule with an instance for each cluster. All exchanges of its APIs decide.

    :param rule: the rule
    :param scenes: what its instances may use, by member of :attr:`Clusters.parts`
    """

    def __init__(self, rule: type[Rule], scenes: Mapping[str, RuleContext], clusters: Clusters) -> None:
        super().__init__(next(iter(scenes.values())))
        self._rule, self._clusters = rule, clusters
        self._of = {part: rule(context) for part, context in scenes.items()}

    @property
    def kind(self) -> type[Rule]:
        return self._rule

    def add(self, exchange: Exchange) -> None:
        self._of[self._clusters.part_of(exchange.connection)].add(exchange)

    def intervened(self, exchange: Exchange) -> None:
        self._of[self._clusters.part_of(exchange.connection)].intervened(exchange)

    def findings(self) -> Iterator[Finding]:
        for part, rule in self._of.items():
            for finding in rule.findings():
                yield replace(finding, cluster=part)

    def blind(self) -> str:
        """Return why it could not judge known clusters, or not everything in them."""
        reasons = {part: rule.blind() for part, rule in self._of.items() if part != UNKNOWN}
        distinct = {*reasons.values()}
        if len(distinct) == 1:
            return distinct.pop()
        return "; ".join(beside(reason, part) for part, reason in reasons.items() if reason)

    def lacking(self) -> str:
        return next(iter(self._of.values())).lacking()
