"""Clients that keep asking the wrong broker and never request metadata."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.conditions import of_client
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import error_names, on_topics, with_errors
from captures.analysis.findings.finding import EffectOf, Finding, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import Rule, Threshold, Unit
from captures.analysis.findings.staleness import APIS, CODES
from captures.analysis.groups.vocabulary import Certainty
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.time_format import span
from dissectors.units import MS


class ClientsThatDoNotRefresh(Rule):
    """Finds clients that keep asking the wrong broker and never request metadata."""

    name = "clients_that_do_not_refresh"
    effect_of = EffectOf.BROKERS
    title = "Clients that do not refresh their metadata"
    about = (
        "After an error for outdated metadata, a client has to refresh its metadata before it retries "
        "(NetworkClient.java, DefaultMetadataUpdater). One that repeats the request to the same broker instead "
        "makes no progress and loads the broker."
    )
    severity = Severity.HIGH
    key = Key.CLIENT
    apis = APIS
    thresholds = (
        Threshold(
            "errors", 5, Unit.COUNT, "errors in a row without a Metadata request of the client in between"
        ),
        Threshold("time", 1_000, Unit.MILLISECONDS, "from the first of them to the last, at least"),
    )

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        return rows.all_if_met(CODES)

    def add(self, exchange: Exchange) -> None:
        self.context.shared.staleness.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for (client, topic), episodes in self.context.shared.staleness.known.result():
            if (
                episodes.stubborn_errors < self.limit("errors")
                or episodes.stubborn_time < self.limit("time") * MS
            ):
                continue
            sees = client in self.context.shared.staleness.known.refreshing
            yield self.finding(
                f"client {client}, topic {topic}",
                f"{client} got {episodes.stubborn_errors:,} errors in a row on {topic}"
                f" ({error_names(episodes.codes)}) within {span(episodes.stubborn_time)}"
                " and did not ask for metadata between them.",
                "Restart the client to get it going. Then check whether it manages its own metadata (an old or custom "
                "client), whether it can reach the brokers that it would ask, and whether metadata.max.age.ms is too "
                "high.",
                episodes.seen,
                filter_text=f"({with_errors(episodes.codes)}{on_topics([topic])} or api == Metadata)"
                f" and {of_client(client)}",
                # without a single Metadata request they may go to a broker whose traffic was not captured
                severity=self.severity if sees else Severity.MEDIUM,
                certainty=Certainty.INFERRED if sees else Certainty.POSSIBLE,
            )
