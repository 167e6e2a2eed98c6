"""A rule that judges each cluster of a capture by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from captures.analysis.clusters import UNKNOWN, Clusters, beside
from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Rule
from captures.exchanges import Exchange


class RuleByCluster(Rule, kw_only=True):
    """A rule with an instance for each cluster. All exchanges of its APIs decide.

    :param context: that of any instance
    :param rule: the rule
    :param parts: its instances, by member of :attr:`Clusters.parts`
    """

    rule: type[Rule]
    parts: Mapping[str, Rule]
    clusters: Clusters

    @property
    def kind(self) -> type[Rule]:
        return self.rule

    def add(self, exchange: Exchange) -> None:
        self.parts[self.clusters.part_of(exchange.connection)].add(exchange)

    def intervened(self, exchange: Exchange) -> None:
        self.parts[self.clusters.part_of(exchange.connection)].intervened(exchange)

    def findings(self) -> Iterator[Finding]:
        for part, rule in self.parts.items():
            for finding in rule.findings():
                yield replace(finding, cluster=part)

    def blind(self) -> str:
        """Return why it could not judge known clusters, or not everything in them."""
        reasons = {part: rule.blind() for part, rule in self.parts.items() if part != UNKNOWN}
        distinct = {*reasons.values()}
        if len(distinct) == 1:
            return distinct.pop()
        return "; ".join(beside(reason, part) for part, reason in reasons.items() if reason)

    def lacking(self) -> str:
        return next(iter(self.parts.values())).lacking()
