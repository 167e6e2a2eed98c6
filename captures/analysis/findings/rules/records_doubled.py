"""Records that were fetched before a rebalance and again after it."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.findings.common import one_of
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import GroupRule, least_sure
from captures.analysis.findings.rule import Threshold, Unit
from captures.analysis.groups.labels import Labels, partitions
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import Certainty
from captures.meaning import words

_GRAVE = 100


class RecordsDoubled(GroupRule):
    """Adds up records that are fetched twice because they were not committed when partitions changed hands."""

    name = "records_doubled"
    effect_of = EffectOf.MEMBERS
    title = "Records processed twice after rebalances"
    about = (
        "The next owner of a partition starts at the committed offset. Records that the previous owner had "
        "fetched beyond it are fetched again, and processed twice unless the application prevents that "
        "(at-least-once delivery). How many of them had really been processed is not on the wire."
    )
    thresholds = (
        Threshold(
            "many", 1_000, Unit.COUNT, "offsets of a group; fewer are low, a hundred times as many are high"
        ),
    )

    def of_group(self, timeline: GroupTimeline, labels: Labels) -> Iterator[Finding]:
        """Yield a finding if there are any."""
        found = [
            (rebalance, refetched) for rebalance in timeline.rebalances for refetched in rebalance.refetched
        ]
        total = sum(refetched.count for _, refetched in found)
        if not total:
            return
        seen = Occurrences()
        for rebalance, refetched in found:
            seen.note(refetched.number, rebalance.time)
        causes = sorted({rebalance.trigger.phrase for rebalance, _ in found})
        topics = sorted({refetched.tp.topic for _, refetched in found})
        yield self.finding_of(
            timeline,
            f"Group {words.line(timeline.group)} fetched {words.counted(total, 'offset')} of "
            f"{partitions({refetched.tp for _, refetched in found})} again after rebalances "
            f"({words.listed(causes)}): records that were processed but not committed are processed twice.",
            "Commit processed records before partitions are revoked (in onPartitionsRevoked; close() does so), and "
            "commit more often. Make processing idempotent, or use transactions.",
            seen,
            filter_text=f"api in {{Fetch, ShareFetch}} and {one_of('topic', topics)}",
            severity=self._how_grave(total),
            certainty=least_sure([Certainty.INFERRED, *(rebalance.certainty for rebalance, _ in found)]),
        )

    def _how_grave(self, total: int) -> Severity:
        many = self.limit("many")
        if total < many:
            return Severity.LOW
        return Severity.HIGH if total >= _GRAVE * many else Severity.MEDIUM
